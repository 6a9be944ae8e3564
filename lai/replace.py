"""Replacing a file whole, or not at all.

Opening a file with truncation and writing into it destroys the old content before the
new one exists; a kill in between leaves neither. Here the new bytes are written and
synchronised under a hidden name beside the target, and one ``os.replace`` puts them in
its place. Whoever looks, at any moment and after any crash, finds all of the old content
or all of the new.

Rules that live here and nowhere else:

1. Only an expected version is replaced. The file is compared immediately before the
   replace, because what a person approved was a change of *that* content. A few
   instructions remain between the look and the replace, and no portable call closes
   that gap; A -> B -> A cannot be seen at all.
2. Whatever goes wrong before the replace removes the hidden file and leaves the target.
3. After the replace nothing is called a failure any more. If the folder cannot be
   synchronised then, the outcome is unconfirmed.
4. A killed attempt cannot clean up. Its hidden file carries the target (as a hash, so
   that the name is never too long) and the execution id, and goes with the next
   successful write to the same target. The session's lock makes that safe: no other
   attempt of ours is at work.

Permission bits are kept, except setuid and setgid, which the system drops on a write
too. Owner, ACLs and extended attributes are not kept, and another name of the same file
(a hard link) keeps the old content.
"""

import hashlib
import os
import secrets
import stat
from contextlib import suppress

from lai import paths
from lai.tools import ToolError, Unconfirmed


def version(here: int, name: str) -> str | None:
    """SHA-256 in hex of the file's bytes, None where there is none. ``here`` is its folder."""
    descriptor = paths.open_file(here, name)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require(found: str | None, bases: frozenset[str | None], path: str) -> None:
    """Raise ToolError unless ``found`` is a version that may be replaced."""
    if found not in bases:
        raise ToolError(
            f"{path!r} changed since it was approved; nothing was written. "
            "Read it again before deciding what it should say.",
            path=path,
        )


def kept_mode(status: os.stat_result, name: str) -> int:
    """The permission bits the new file takes over. A read-only file is refused."""
    if not status.st_mode & stat.S_IWUSR:
        raise ToolError(f"{name!r} is read-only for its owner; it stays as it is")
    return stat.S_IMODE(status.st_mode) & 0o777


def replace(
    here: int, parts: paths.Parts, data: bytes, bases: frozenset[str | None], execution_id: str
) -> None:
    """Make ``data`` the content of the file ``parts[-1]`` in the open folder ``here``."""
    name, path = parts[-1], "/".join(parts)
    mode = _mode(here, name)
    hidden = f"{_prefix(name)}{execution_id}-{secrets.token_hex(4)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(hidden, flags, 0o666 if mode is None else 0o600, dir_fd=here)
    try:
        _fill(descriptor, data, mode)
        require(version(here, name), bases, path)
        os.replace(hidden, name, src_dir_fd=here, dst_dir_fd=here)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden, dir_fd=here)
        raise
    try:
        os.fsync(here)
    except OSError as cause:
        raise Unconfirmed(
            f"{path!r} has its new content, but its folder could not be synchronised "
            f"({cause.strerror}): after a power failure the old content may be back",
            path=path,
        ) from cause
    _sweep(here, _prefix(name))


def _mode(here: int, name: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    paths.require_file(status, name)
    return kept_mode(status, name)


def _fill(descriptor: int, data: bytes, mode: int | None) -> None:
    """Write all bytes down to the disk; the mode comes first, so that nobody else reads them."""
    try:
        if mode is not None:
            os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _prefix(name: str) -> str:
    return f".lai-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}-"


def _sweep(here: int, prefix: str) -> None:
    """Remove what killed attempts at the same target left behind."""
    with suppress(OSError):  # tidying must not turn a finished write into anything else
        for left in os.listdir(here):
            if left.startswith(f"{prefix}exec_") and left.endswith(".tmp"):
                os.unlink(left, dir_fd=here)
