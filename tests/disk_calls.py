"""Between the library and a real folder: every call on it is seen, and may be made to fail.

The calls go through to the folder, and an :class:`disk.Image` beside it keeps what a power
loss may leave of them. Lock files are passed on and not modelled. What other programs write
becomes part of the disk by ``adopt``, and is saved then.
"""

import fcntl
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from disk import EMPTY_FOLDER, ROOT, Cut, Entry, Image, Node, Write

CALLS = ("open mkdir replace rename unlink write pwrite fsync ftruncate fchmod close").split()
REAL: dict[str, Any] = {name: getattr(os, name) for name in CALLS}
PERSISTENT = ("create", "mkdir", "write", "fsync", "replace", "unlink", "ftruncate")


class Call(NamedTuple):
    """What the library is about to do, and whether the disk models the file."""

    kind: str
    name: str
    modelled: bool = True

    @property
    def persistent(self) -> bool:
        """Whether it changes what a power loss may leave."""
        return self.modelled and self.kind in PERSISTENT


class Place(NamedTuple):
    """An inode of the real folder: its node, if it is modelled, and the name it was opened by."""

    node: int | None
    name: str


@dataclass
class Disk:
    """The folder ``root`` and the model of it.

    ``on_call`` is asked before each call: it may raise OSError, return how few bytes a write
    takes, or look at ``image()``. With ``forgets`` a failed fsync loses what was not saved.
    """

    root: Path
    on_call: Callable[[Call], int | None] = lambda _: None
    forgets: bool = False
    nodes: dict[int, Node] = field(default_factory=dict)
    places: dict[tuple[int, int], Place] = field(default_factory=dict)  # by device and inode
    foreign: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.restore(Image({ROOT: Node(EMPTY_FOLDER, EMPTY_FOLDER)}))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the place of the system for this folder; all other calls pass by."""
        for name in CALLS:
            monkeypatch.setattr(os, name, getattr(self, f"_{name}"))

    def image(self) -> Image:
        """The disk as it is now."""
        return Image(dict(self.nodes))

    def restore(self, image: Image) -> None:
        """Be that disk: all that is seen on it is there again, saved or not."""
        self.places = {}  # until it stands, nothing there is this disk
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for path, node in image.walk():
            seen, there = image.nodes[node].seen, self.root / path
            if isinstance(seen, bytes):
                there.write_bytes(seen)
            else:
                there.mkdir(0o700)
        self.nodes = dict(image.nodes)
        for path, node in (("", ROOT), *image.walk()):
            self._settle(node, self.root / path)

    def adopt(self, node: int = ROOT, folder: Path | None = None) -> None:
        """Take in what others wrote."""
        for path in sorted((folder or self.root).iterdir()):
            child = self.nodes[node].seen.get(path.name)
            if path.name.endswith(".lock"):
                continue
            if child is None:
                child = self._new(b"" if path.is_file() else EMPTY_FOLDER)
                self._settle(child, path)
                self.foreign.add(child)
                old, there = self.nodes[node], Entry(path.name, child)
                found = {"saved": there.apply(old.saved), "seen": there.apply(old.seen)}
                self.nodes[node] = replace(old, **found)
            if path.is_dir():
                self.adopt(child, path)
            elif child in self.foreign:
                data = path.read_bytes()
                self.nodes[child] = Node(data, data)

    def _settle(self, node: int, path: Path) -> None:
        status = path.stat()
        self.places[status.st_dev, status.st_ino] = Place(node, path.name)

    def _new(self, content: Any) -> int:
        number = max(self.nodes) + 1
        self.nodes[number] = Node(content, content)
        return number

    def _folder(self, path: Any, dir_fd: int | None) -> tuple[int | None, str]:
        """The node of the folder in which a name is looked up, and the name."""
        above, name = os.path.split(os.fspath(path))
        try:
            status = os.stat(above or ".", dir_fd=dir_fd) if above or dir_fd is None else None
        except (OSError, ValueError):
            return None, ""
        status = status or os.fstat(dir_fd or 0)
        place = self.places.get((status.st_dev, status.st_ino))
        return (place.node, os.fsdecode(name)) if place else (None, "")

    def _place(self, fd: int) -> Place | None:
        try:
            status = os.fstat(fd)
        except OSError:
            return None
        return self.places.get((status.st_dev, status.st_ino))

    def _ask(self, kind: str, fd: int) -> tuple[int | None, int | None]:
        """The node of an open file, and how many bytes may be written."""
        place = self._place(fd)
        if place is None:
            return None, None
        return place.node, self.on_call(Call(kind, place.name, place.node is not None))

    def _change(self, node: int, change: Write | Cut | Entry) -> None:
        self.nodes[node] = self.nodes[node].changed(change)

    # --- what the library calls ---------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        folder, name = self._folder(path, dir_fd)
        if folder is None:
            return int(REAL["open"](path, flags, mode, dir_fd=dir_fd))
        missing = bool(flags & os.O_CREAT) and name not in self.nodes[folder].seen
        modelled = not name.endswith(".lock")
        self.on_call(Call("create" if missing else "open", name, modelled))
        fd = int(REAL["open"](path, flags, mode, dir_fd=dir_fd))
        if missing or not modelled:
            status = os.fstat(fd)
            node = self._new(b"") if modelled else None
            self.places[status.st_dev, status.st_ino] = Place(node, name)
            if node is not None:
                self._change(folder, Entry(name, node))
        return fd

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        folder, name = self._folder(path, dir_fd)
        if folder is not None:
            self.on_call(Call("mkdir", name))
        REAL["mkdir"](path, mode, dir_fd=dir_fd)
        if folder is not None:
            status, node = os.stat(path, dir_fd=dir_fd), self._new(EMPTY_FOLDER)
            self.places[status.st_dev, status.st_ino] = Place(node, name)
            self._change(folder, Entry(name, node))

    def _replace(
        self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> None:
        folder, name = self._folder(dst, dst_dir_fd)
        origin, old = self._folder(src, src_dir_fd)
        assert origin == folder, "a rename from one folder to another is not modelled"
        if folder is not None:
            self.on_call(Call("replace", name))
        REAL["replace"](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if folder is not None:
            self._change(folder, Entry(name, self.nodes[folder].seen[old], old))

    _rename = _replace

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        folder, name = self._folder(path, dir_fd)
        if folder is not None:
            self.on_call(Call("unlink", name))
        REAL["unlink"](path, dir_fd=dir_fd)
        if folder is not None:
            self._change(folder, Entry(name, None))

    def _write(self, fd: int, data: Any) -> int:
        node, limit = self._ask("write", fd)
        if node is None:
            return int(REAL["write"](fd, data))
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        at = len(self.nodes[node].seen) if appends else os.lseek(fd, 0, os.SEEK_CUR)
        taken = bytes(data)[:limit]
        written = int(REAL["write"](fd, taken))
        self._change(node, Write(at, taken[:written]))
        return written

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        node, limit = self._ask("write", fd)
        taken = bytes(data)[:limit]
        written = int(REAL["pwrite"](fd, taken, offset))
        if node is not None:
            self._change(node, Write(offset, taken[:written]))
        return written

    def _ftruncate(self, fd: int, size: int) -> None:
        node, _ = self._ask("ftruncate", fd)
        REAL["ftruncate"](fd, size)
        if node is not None and size != len(self.nodes[node].seen):
            self._change(node, Cut(size))

    def _fchmod(self, fd: int, mode: int) -> None:
        self._ask("fchmod", fd)
        REAL["fchmod"](fd, mode)

    def _fsync(self, fd: Any) -> None:
        place = self._place(fd)
        try:
            node, _ = self._ask("fsync", fd)
        except OSError:
            if self.forgets and place is not None and place.node is not None:
                self.nodes[place.node] = replace(self.nodes[place.node], pending=())
            raise
        if node is not None:
            self.nodes[node] = self.nodes[node].synced()

    def _close(self, fd: int) -> None:
        place = self._place(fd)
        REAL["close"](fd)  # the system lets go of it even where it reports an error
        if place is not None:
            self.on_call(Call("close", place.name, place.node is not None))
