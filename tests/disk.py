"""What a power loss may leave on a disk, by rules weaker than those of file systems in use.

A disk is a value here: an :class:`Image` knows what is saved, what is seen, and the changes
between the two. ``disk_calls`` keeps one beside a real folder.

1. fsync of a file saves its bytes and size, not its name; fsync of a folder saves the names
   in it.
2. Of what was not saved any part may survive a power loss: one write may be cut at any byte,
   a size may grow without its data (NULs), a rename may survive without the data.
3. A process that is killed loses nothing that it wrote.
4. A failed fsync may drop what it did not write, and the next one succeeds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple


class Write(NamedTuple):
    """Bytes at a place."""

    at: int
    data: bytes

    def apply(self, old: bytes) -> bytes:
        """The file after it; a gap before it reads as NULs."""
        before = old[: self.at].ljust(self.at, b"\0")
        return before + self.data + old[self.at + len(self.data) :]

    def torn(self) -> Iterator[tuple[str, "Write"]]:
        """What else may be left of it: a part, its size alone, or a part and its size."""
        size = len(self.data)
        for cut in sorted({0, 1, size // 2, size - 1} - {size, -1}):
            yield f"cut at {cut}", Write(self.at, self.data[:cut])
        for cut in {0, size // 2} if size > 1 else ():
            yield f"NULs from {cut}", Write(self.at, self.data[:cut].ljust(size, b"\0"))


class Cut(NamedTuple):
    """A file is cut to a size, or filled up to it."""

    size: int

    def apply(self, old: bytes) -> bytes:
        """The file after it."""
        return old[: self.size].ljust(self.size, b"\0")

    def torn(self) -> Iterator[tuple[str, "Cut"]]:
        """It happens whole."""
        return iter(())


class Entry(NamedTuple):
    """A name gets a node (None: is taken away); ``old`` is the name it had in the same folder."""

    name: str
    node: int | None
    old: str | None = None

    def apply(self, entries: Mapping[str, int]) -> dict[str, int]:
        """The folder after it."""
        after = {n: i for n, i in entries.items() if n not in (self.name, self.old)}
        return after if self.node is None else {**after, self.name: self.node}

    def torn(self) -> Iterator[tuple[str, "Entry"]]:
        """It happens whole."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Node:
    """A file (``bytes``) or a folder (nodes by name): saved, seen, and what lies between."""

    saved: Any
    seen: Any
    pending: tuple[Any, ...] = ()

    def changed(self, change: Write | Cut | Entry) -> "Node":
        """After one more change that is not saved yet."""
        return Node(self.saved, change.apply(self.seen), (*self.pending, change))

    def synced(self) -> "Node":
        """After fsync: what is pending is saved. What a failed one dropped is not."""
        return Node(self.settled(lambda _, change: change).saved, self.seen)

    def settled(self, left: Callable[[int, Any], Any]) -> "Node":
        """As found after a power loss; ``left`` tells what is left of a change, None: nothing."""
        found = self.saved
        for number, change in enumerate(self.pending):
            rest = left(number, change)
            found = found if rest is None else rest.apply(found)
        return Node(found, found)


EMPTY_FOLDER: Mapping[str, int] = MappingProxyType({})
ROOT = 0


@dataclass(frozen=True, slots=True)
class Image:
    """A whole disk at one moment."""

    nodes: Mapping[int, Node]

    def walk(self, node: int = ROOT, path: str = "") -> Iterator[tuple[str, int]]:
        """Every path that is seen, folders before what is in them."""
        for name, child in self.nodes[node].seen.items():
            yield f"{path}{name}", child
            if not isinstance(self.nodes[child].seen, bytes):
                yield from self.walk(child, f"{path}{name}/")

    def files(self) -> dict[str, bytes]:
        """The content of every file."""
        seen = ((path, self.nodes[node].seen) for path, node in self.walk())
        return {path: data for path, data in seen if isinstance(data, bytes)}

    def key(self) -> tuple[object, ...]:
        """Equal for disks on which everything is the same."""
        found = sorted((path, self.nodes[node].seen) for path, node in self.walk())
        return tuple((path, data if isinstance(data, bytes) else None) for path, data in found)

    def after_power_loss(self) -> Iterator[tuple[str, "Image"]]:
        """What may be left: all, nothing, one thing, all but one, or all with one of them torn."""
        items = [(node, n) for node, found in self.nodes.items() for n in range(len(found.pending))]
        yield "all survives", self._left(lambda *_: True)
        if items:
            yield "nothing survives", self._left(lambda *_: False)
        for item in items if len(items) > 1 else ():
            what = self._words(item)
            yield f"only {what}", self._left(lambda *at, item=item: at == item)
            yield f"all but {what}", self._left(lambda *at, item=item: at != item)
        for item in items:
            for how, rest in self.nodes[item[0]].pending[item[1]].torn():
                what = f"{self._words(item)} {how}"
                yield what, self._left(lambda *_: True, {item: rest})
                if len(items) > 1:
                    yield f"only {what}", self._left(lambda *at, i=item: at == i, {item: rest})

    def _left(
        self, survives: Callable[[int, int], bool], torn: Mapping[Any, Any] = EMPTY_FOLDER
    ) -> "Image":
        def left(node: int) -> Callable[[int, Any], Any]:
            return lambda n, change: torn.get((node, n), change) if survives(node, n) else None

        return Image({node: found.settled(left(node)) for node, found in self.nodes.items()})

    def _words(self, item: tuple[int, int]) -> str:
        node, number = item
        path = next((path for path, child in self.walk() if child == node), "/")
        change = self.nodes[node].pending[number]
        name = f" {change.name}" if isinstance(change, Entry) else ""
        return f"{type(change).__name__.lower()}{name} in {path}"
