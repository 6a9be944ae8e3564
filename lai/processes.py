"""The processes of one command: which are alive, and how to end them all.

A command starts others, and killing the shell leaves those running, unseen. Each command
is started in a session of its own, so the session's number finds what belongs to it, also
children whose parent has ended. A process that makes a session of its own (``setsid``)
belongs to the command no longer, and nothing here finds it.

Where there is no ``/proc`` (macOS) only the process group is known, and who is alive is
not.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
ROUNDS, PAUSE = 20, 0.01  # a process can start another while we look


def alive(session: int) -> list[int] | None:
    """List the living processes of a session; None where the system cannot tell."""
    if not (PROC / "self/stat").exists():
        return None
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended since
                fields = _status(int(entry.name))
                if int(fields[3]) == session and fields[0] not in ("Z", "X"):
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


def end(session: int) -> None:
    """Kill every process of a session, those that are started meanwhile too."""
    with suppress(OSError):
        os.killpg(session, signal.SIGKILL)
    for _ in range(ROUNDS):
        left = alive(session)
        if not left:
            return
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE)
