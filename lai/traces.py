"""What a running command leaves, so that a later process can tell whether it still runs.

A process that is killed does not take its command along. Whoever starts next must not ask
"did it happen?" as if it were over, so the command's process is noted beside its artifact,
by number, start time and boot: numbers are given out again, the three together are not.

A process that made a session of its own is found by the mark in its environment.

What it cannot see: one that cleared its environment as well, and anything where there is no
``/proc`` (macOS); then it says that it cannot tell. Nothing is ended here.
"""

import os
from contextlib import suppress
from pathlib import Path

from lai import paths, processes
from lai.records import JSON
from lai.tools import ToolError

NAMED = 10  # processes that are named at most


def leave(root: Path, execution_id: str, pid: int) -> None:
    """Note the process of an attempt. A note that cannot be written stops nothing."""
    identity = processes.identity(pid)
    if identity is None:
        return
    with suppress(OSError, ToolError), paths.folder(root, paths.ARTIFACTS, make=0o700) as (here, _):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        note = os.open(f"{execution_id}.process", flags, 0o600, dir_fd=here)
        with os.fdopen(note, "w") as file:
            file.write(identity)


def look(root: Path, execution_id: str) -> JSON:
    """What can be seen now of an earlier attempt's processes.

    ``still_running`` is true, false, or None where nobody can tell; ``seen`` says it in words.
    Processes that are found are named in ``may_still_run``.
    """
    left = processes.carrying(processes.mark(execution_id, root))
    members = _noted(root, execution_id)
    if members is None and not left:
        return {"still_running": None, "seen": "whether it still runs cannot be told; look with ps"}
    left = sorted({*left, *(members or ())})
    if not left:
        return {"still_running": False, "seen": "no process of it is left"}
    numbers = ", ".join(map(str, left[:NAMED]))
    seen = f"it is not over (process {numbers}); wait before you decide"
    return {"still_running": True, "seen": seen, "may_still_run": left[:NAMED]}


def _noted(root: Path, execution_id: str) -> list[int] | None:
    """What lives of the process that was noted and its session; None where nobody can tell."""
    try:
        note = (root.joinpath(*paths.ARTIFACTS) / f"{execution_id}.process").read_text()
        pid = int(note.split()[0])
    except (OSError, ValueError, IndexError):
        return None
    now = processes.identity(pid)
    if processes.boot() not in note or (now is not None and now != note):
        return []  # the number was given out again
    return processes.alive(pid)
