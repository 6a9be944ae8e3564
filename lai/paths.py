"""The way to a file in the workspace, by open folders instead of names.

A path that was checked and then opened *by name* can lead somewhere else: between the
two, another process puts a link where a folder was. So a name is looked up once, in a
folder that is already open, and whatever is done next is done with what was opened.

Rules that live here and nowhere else:

1. A path is relative to the workspace and made of plain names. ``RULES`` lists what is
   refused by its text alone, before the disk is touched.
2. No symbolic link is followed, wherever it leads: neither on the way nor at the end.
   This is stricter than "not outside", and it is the rule that cannot be got wrong.
3. Only regular files. A folder, device, named pipe or socket is refused unopened.
4. ``.agent_state`` holds the records that the agent trusts, so no tool touches it.
   Any spelling that a disk may take for that name counts. ``read_file`` alone may read
   what commands printed and what was too large: ``.agent_state/artifacts/<file>``.

What it does not do: a hard link cannot be told from a file, and a folder that another
process *moves* away while it is open is still the same folder. It needs the ``dir_fd``
functions of Linux and macOS; on Windows ``lai`` runs inside WSL. There is no second
implementation, because two would have to be equally safe.
"""

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lai.storage import STATE
from lai.tools import ToolError

ARTIFACTS = (STATE, "artifacts")
PATH_BYTES = 4096
NAME_BYTES = 255  # the longest name on the usual file systems of Linux and macOS
Parts = tuple[str, ...]


def _names(path: str) -> list[str]:
    return path.split("/")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# In this order: the first reason that applies is the one that is given.
RULES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("it is empty", lambda path: not path),
    (f"it is longer than {PATH_BYTES} bytes", lambda path: len(_bytes(path)) > PATH_BYTES),
    (
        "it holds a control character or is not valid Unicode",
        lambda path: any(unicodedata.category(c) in ("Cc", "Cs") for c in path),
    ),
    ("it is absolute; start at the workspace", lambda path: path.startswith("/")),
    ("'~' is not expanded; start at the workspace", lambda path: path.startswith("~")),
    ("'..' is not followed; start at the workspace", lambda path: ".." in _names(path)),
    ("it names a folder, not a file", lambda path: _names(path)[-1] in ("", ".")),
    (
        f"one of its names is longer than {NAME_BYTES} bytes",
        lambda path: any(len(_bytes(name)) > NAME_BYTES for name in _names(path)),
    ),
)

KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def split(path: str, *, artifacts: bool = False) -> Parts:
    """The names a path is made of. Raises ToolError for a path that is refused by its text."""
    for reason, applies in RULES:
        if applies(path):
            raise ToolError(f"the path {path[:200]!r} is refused: {reason}")
    parts = tuple(name for name in _names(path) if name not in ("", "."))
    if any(map(_is_state, parts)) and not (artifacts and parts[:-1] == ARTIFACTS):
        raise ToolError(f"the path {path!r} is refused: {STATE} belongs to the agent")
    return parts


def _is_state(name: str) -> bool:
    """Whether some disk could take ``name`` for the state folder.

    Case, width, invisibles, and what Windows drops at the end: dots, blanks, a stream.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    plain = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return plain.partition(":")[0].rstrip(" .") == STATE


@contextmanager
def plainly(path: str, consequence: str) -> Iterator[None]:
    """Turn what the system says into a failure that also says what it means."""
    try:
        yield
    except OSError as cause:
        why = cause.strerror or type(cause).__name__
        raise ToolError(f"{path!r}: {why}; {consequence}", path=path) from cause


@contextmanager
def folder(root: Path, names: Parts, *, make: int | None = None) -> Iterator[tuple[int, Parts]]:
    """Open a folder; yields its descriptor and the names that are missing on the way.

    Where some are missing, the descriptor is that of the deepest folder there is. With
    ``make`` (a mode, as for ``os.mkdir``) they are created instead, each one durable
    before the next.
    """
    try:
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as cause:
        raise ToolError(f"the workspace folder cannot be opened: {cause.strerror}") from cause
    try:
        for depth, name in enumerate(names):
            deeper = _enter(here, name, make)
            if deeper is None:
                yield here, names[depth:]
                return
            os.close(here)
            here = deeper
        yield here, ()
    finally:
        with suppress(OSError):  # nothing is written by it: what was done in the folder is done
            os.close(here)


def _enter(here: int, name: str, make: int | None) -> int | None:
    try:
        return _open_folder(here, name)
    except FileNotFoundError:
        if make is None:
            return None
    with suppress(FileExistsError):  # another process was faster; opening it is the test
        os.mkdir(name, make, dir_fd=here)
    os.fsync(here)
    return _open_folder(here, name)


def _open_folder(here: int, name: str) -> int:
    try:
        found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
    except OSError:
        found_kind = os.stat(name, dir_fd=here, follow_symlinks=False)
        if not stat.S_ISDIR(found_kind.st_mode):
            raise ToolError(
                f"the path is refused: {name!r} on the way is {kind(found_kind)}, not a folder"
            ) from None
        raise
    if name != STATE and _same_as_state(here, found):
        os.close(found)
        raise ToolError(f"{name!r} is another spelling of {STATE}, which belongs to the agent")
    return found


def _same_as_state(here: int, found: int) -> bool:
    """Whether ``found`` is the state folder by identity. A name is only a name."""
    try:
        state = os.stat(STATE, dir_fd=here, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(state, os.fstat(found))


def open_file(here: int, name: str) -> int | None:
    """A regular file, opened for reading; None where there is nothing. All else is refused."""
    try:
        # Before: opening a device can already do something. After: it may be another now.
        require_file(os.stat(name, dir_fd=here, follow_symlinks=False), name)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        found = os.open(name, flags, dir_fd=here)
    except FileNotFoundError:
        return None
    try:
        require_file(os.fstat(found), name)
    except ToolError:
        os.close(found)
        raise
    return found


def require_file(status: os.stat_result, name: str) -> None:
    """Raise ToolError unless this is the status of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{name!r} is {kind(status)}, not a regular file")


def kind(status: os.stat_result) -> str:
    """What something is, in words."""
    return KINDS.get(stat.S_IFMT(status.st_mode), "a regular file")
