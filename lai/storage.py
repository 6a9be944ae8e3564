"""Where a session lies on disk, who may write to it, and what can go wrong there.

It does not know what a session holds.
"""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import filelock

from lai.records import LaiError

STATE = ".agent_state"  # the folder in a workspace that belongs to the agent


class SessionError(LaiError):
    """The session file cannot be opened, read or written."""


class SessionLocked(SessionError):
    """Somebody else has this session: another process, another thread, or the caller itself."""


class SessionFailed(SessionError):
    """An append failed; the file must be reopened before anything more is written."""


class SessionDamaged(SessionError):
    """The file has a place that may have held a record; a person must acknowledge it."""


def session_path(workspace: Path | str, session_id: str = "demo") -> Path:
    """Where a workspace keeps a session. Raises SessionError for an id that is no file name."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session_id, re.ASCII):
        raise SessionError(
            f"session id {session_id!r} cannot be used: only ASCII letters, digits, '-' and '_', "
            "at most 64 of them; set AGENT_SESSION_ID"
        )
    return Path(workspace) / STATE / f"session-{session_id}.jsonl"


def make_folder(folder: Path, fsync: Callable[[int], None] = os.fsync) -> None:
    """Make a folder and those above it that are missing, each of them durable."""
    for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)  # another process may be faster
        sync_folder(missing.parent, fsync)


def sync_names(path: Path, fsync: Callable[[int], None] = os.fsync) -> None:
    """Make durable the name of a session, and that of the state folder in which it lies."""
    sync_folder(path.parent, fsync)
    if path.parent.name == STATE:
        sync_folder(path.parent.parent, fsync)


def require_own(folder: Path) -> None:
    """Raise SessionError for a state folder that is a link or somebody else's; shut it to others.

    A workspace may come from anywhere, and bring one along.
    """
    if folder.name != STATE:
        return
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise SessionError(f"{folder} is a link or no folder; nothing is written there")
    if status.st_uid != os.geteuid():
        raise SessionError(f"{folder} belongs to somebody else, who could change what it holds")
    if stat.S_IMODE(status.st_mode) & 0o077:
        folder.chmod(0o700)


def open_own(path: Path, flags: int) -> int:
    """Open a file of the state folder, private; never through a link that lies there."""
    linked = os.O_NOFOLLOW if path.parent.name == STATE else 0
    descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | linked, 0o600)
    status = os.fstat(descriptor)
    ours = linked and stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if ours and stat.S_IMODE(status.st_mode) & 0o077:
        os.fchmod(descriptor, 0o600)
    return descriptor


def lock(path: Path) -> int:
    """Claim a session by the lock file beside it, which then names this process.

    The session is free again once the descriptor that comes back is closed.
    """
    descriptor = open_own(path.with_name(path.name + ".lock"), 0)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise SessionError(f"{path}.lock has another name, and is not written through")
        claim(descriptor, path, os.read(descriptor, 20).decode("ascii", "replace").strip())
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def claim(descriptor: int, path: Path, holder: str) -> None:
    """Lock an open file until it is closed, or this process dies. Raises SessionLocked.

    ``holder`` is the process that says it has the lock, for the message.
    """
    if not filelock.lock_descriptor(descriptor, blocking=False):
        who = f" (process {holder})" if holder else ""
        raise SessionLocked(
            f"the session {path} is open elsewhere{who}; close it there, or choose another "
            "AGENT_SESSION_ID"
        )


def sync_folder(folder: Path, fsync: Callable[[int], None] = os.fsync) -> None:
    """Make the entries of a folder durable: fsync of a file does not save its name."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        fsync(fd)
    finally:
        os.close(fd)
