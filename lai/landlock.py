"""Gives up rights through the kernel's landlock, then becomes another program.

    python -I landlock.py --write=DIR --hide=DIR --read=PATH -- PROGRAM ARGUMENT...

From then on the program and all that it starts may write only beneath the folders of
``--write``, and may not read beneath ``--hide`` but for what ``--read`` names. Where the
kernel can, they open no TCP port or connection and send no signal to other processes. What
was given up never comes back. If anything of it fails, nothing is run.

What landlock cannot do: take a folder out of one that is allowed (so the agent's records in
the workspace are not protected), hide names, and refuse a change of modes and times. This
program imports nothing of the library, so that it starts fast and alone.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import Any

CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # the same numbers on every kind of processor
NO_NEW_PRIVILEGES, CAPABILITIES = 38, 0x20080522  # none to gain; none to keep (what root has)
BENEATH = 1  # the kind of rule: a path and what is beneath it
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1, 1 << 1, 1 << 2, 1 << 3, 1 << 14
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | 1 << 15
# How many rights over files each version of landlock knows: the first so many bits.
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
TCP, OTHERS = 0b11, 0b11  # binding and connecting; abstract sockets and signals
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")


class _Rules(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("files", "net", "scoped"))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def version() -> int:
    """The version of landlock that this kernel has; 0 without it."""
    try:
        return _call(CREATE, None, 0, 1)
    except OSError:
        return 0


def _call(number: int, *arguments: Any) -> int:
    if sys.platform != "linux":
        raise OSError("landlock is a part of Linux")
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    found: int = ctypes.CDLL(None, use_errno=True).syscall(number, *wide)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def restrict(write: Sequence[str], hide: Sequence[str], read: Sequence[str]) -> None:
    """Give the rights up, for this process and all that it starts. Raises OSError."""
    known = version()
    if not known:
        raise OSError("this kernel has no landlock")
    every = (1 << RIGHTS[min(known, max(RIGHTS))]) - 1
    rules = _Rules(every, TCP if known >= 4 else 0, OTHERS if known >= 6 else 0)
    ruleset = _call(CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    _allow(ruleset, "/", READ_DIR)  # names, everywhere: the rest has no rule for "/" alone
    for path in (*_around("/", hide), *read):
        _allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
    for path in (*DEVICES, *write):
        _allow(ruleset, path, every)
    libc = ctypes.CDLL(None, use_errno=True)
    header, nothing = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "privileges could not be given up")
    _call(RESTRICT, ruleset, 0)


def _around(folder: str, hide: Sequence[str]) -> Iterator[str]:
    """Everything beneath ``folder`` but what is hidden. Links lead to what has its own rule."""
    if not any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for path in hide):
        yield folder
    elif folder not in hide:
        for entry in os.scandir(folder):
            if not entry.is_symlink():
                yield from _around(entry.path, hide)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there, or not for us, needs no rule
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= OF_A_FILE
        _call(ADD_RULE, ruleset, BENEATH, ctypes.byref(_Rule(rights, descriptor)), 0)
    finally:
        os.close(descriptor)


def main(arguments: list[str]) -> None:
    """Restrict this process and become the program. Comes back only by an exception."""
    end = arguments.index("--")
    told = [argument.partition("=")[::2] for argument in arguments[:end]]
    given = {name: [v for n, v in told if n == name] for name in ("--write", "--hide", "--read")}
    restrict(given["--write"], given["--hide"], given["--read"])
    os.execvp(arguments[end + 1], arguments[end + 1 :])  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"the sandbox could not be set up: {error}; nothing was run")
