"""The processes of one command: which are alive, and how to end those that are ours.

A command starts others, and killing the shell leaves those running, unseen. Two things find
them. Each command is started in a session of its own, so the session's number finds what
belongs to it, also children whose parent has ended. And its environment carries a mark,
which finds a process that made a session of its own (``setsid``). One that did both, and
cleared its environment, is found by nothing here.

Rules that live here and nowhere else:

1. A session's number is ours as long as its first process was not waited for: until then
   the system gives the number to nobody else. So it is waited for last.
2. A process is killed only as a member of that session, looked at while it is held by a
   descriptor: a number alone may be somebody else's by now.
3. What is found by the mark, or by a note of an earlier process, is reported, never killed.

Where there is no ``/proc`` (macOS) only the process group is known, and who is alive is
not.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

PROC = Path("/proc")
MARK = "LAI_EXECUTION"  # in the environment of a command and of all that it starts
ROUNDS, PAUSE = 20, 0.01  # a process can start another while we look


def mark(execution_id: str, root: Path) -> str:
    """What MARK says of an attempt. Ids can be alike in two workspaces; together they are not."""
    return f"{execution_id} {root.resolve()}"


def living(session: int, marked: str) -> list[int] | None:
    """List the living processes of a session or with a mark; None where no one can tell."""
    members = alive(session)
    return None if members is None else sorted({*members, *carrying(marked)})


def alive(session: int) -> list[int] | None:
    """List the living processes of a session; None where the system cannot tell."""
    return _found(lambda pid: _in(pid, session))


def carrying(marked: str) -> list[int]:
    """List the living processes that were started with this mark; only your own can be seen."""
    wanted = f"{MARK}={marked}".encode("utf-8", "surrogateescape")

    def carries(pid: int) -> bool:
        return wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0")

    return _found(carries) or []


def _found(wanted: Callable[[int], bool]) -> list[int] | None:
    if not (PROC / "self/stat").exists():
        return None
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended since, or is none of ours
                if wanted(int(entry.name)):
                    found.append(int(entry.name))
    return found


def identity(pid: int) -> str | None:
    """Number, start time and boot of a living process; None if there is none, or no way to see."""
    try:
        return f"{pid} {_status(pid)[19]} {boot()}"  # field 22 of proc(5), in ticks
    except OSError:
        return None


def boot() -> str:
    """The name of this run of the system; numbers of processes mean nothing beyond it."""
    with suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return "unknown boot"


def _status(pid: int) -> list[str]:
    # "pid (name) state parent group session ...", and the name may hold anything.
    return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].decode().split()


def _in(pid: int, session: int) -> bool:
    fields = _status(pid)
    return int(fields[3]) == session and fields[0] not in ("Z", "X")


def over(process: "subprocess.Popen[bytes]") -> bool:
    """Whether a child has ended. It is not waited for, so its number stays its own."""
    if hasattr(os, "waitid"):  # not on every macOS
        with suppress(ChildProcessError):  # somebody else has waited for it
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, process.pid, how) is not None
    return process.poll() is not None


def end(session: int) -> None:
    """Kill every process of a session whose first process was not waited for yet."""
    with suppress(OSError):
        os.killpg(session, signal.SIGKILL)
    for _ in range(ROUNDS):
        left = alive(session)
        if not left:
            return
        for process in left:
            with suppress(OSError):
                _kill(process, session)
        time.sleep(PAUSE)


def _kill(pid: int, session: int) -> None:
    with _held(pid) as descriptor:
        if not _in(pid, session):
            return  # the number is another's by now
        if descriptor is not None and sys.platform == "linux":
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """A descriptor of the process that has this number now; None where there are none."""
    descriptor = None
    try:
        if sys.platform == "linux":
            descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # a kernel before 5.3
        pass
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
