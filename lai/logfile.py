"""Reading a session file: all of it, or from the latest compaction on.

Rules that live here and nowhere else:

1. A compaction is written while nothing is open, so a session goes on from the lines that
   its latest compaction kept. That one is found from the end of the file back, and what
   stands before those lines is not looked at.
2. What a compaction says about the file is believed only as far as the lines from there on
   bear it out. A claim that does not hold costs time, never a record: an earlier compaction
   is tried, and in the end the whole file is read. How many lines stand before them nobody
   counts but ``verify``.
3. Whoever asks for all records gets all of them: the rest is read then.

It does not know what records mean, and it changes nothing.
"""

import gc
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

from lai.lines import Contents, Damage, read_line, repair_record
from lai.records import Record
from lai.storage import SessionError

Place = tuple[int, int]  # a physical line, from 1, and the byte at which it begins
FIRST: Place = (1, 0)
_KEPT, _RESUME = ("first_kept", "first_kept_offset"), ("resume_line", "resume_offset")
_MARK = b'"type":"compaction"'  # inside a text its quotes would stand behind backslashes


class LogFile:
    """A session file and what has been read of it.

    ``recent`` is what has been read so far: the whole file, or of a compacted session the
    lines from ``recent.start`` on. ``records``, the objects as on disk and in order,
    ``lines``, their physical lines from 1, and ``offsets``, the bytes at which those begin,
    are complete: asking for them reads the rest. ``damage`` tells of what has been read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recent = Contents()

    @property
    def id(self) -> str:
        """The session's name: its file name without ``session-`` and ``.jsonl``."""
        return self.path.stem.removeprefix("session-")

    @property
    def records(self) -> list[Record]:
        """Every record of the file, in order."""
        self.read_all()
        return self.recent.records

    @property
    def lines(self) -> Sequence[int]:
        """The physical line of each record, from 1."""
        self.read_all()
        return self.recent.lines

    @property
    def offsets(self) -> Sequence[int]:
        """The byte at which the line of each record begins."""
        self.read_all()
        return self.recent.offsets

    @property
    def damage(self) -> list[Damage]:
        """Every place that is not one record on one line, as far as has been read."""
        return self.recent.damage

    @property
    def lost_lines(self) -> list[int]:
        """The lines on which a record may have been lost, as far as has been read."""
        return self.recent.lost_lines

    @property
    def unacknowledged(self) -> list[Damage]:
        """Damage that may have lost a record and that nobody has acknowledged."""
        return self.recent.unacknowledged

    @property
    def last_line(self) -> int:
        """The physical line on which the file ends, 0 if it is empty."""
        return self.recent.last_line

    def read_all(self) -> None:
        """Read what was left out so far. Raises SessionError if the file is not what it was."""
        if self.recent.start == 1:
            return
        whole, end = Contents(), self.recent.end
        try:
            with self._file() as file, no_collection():
                while whole.end < end and (raw := file.readline()):
                    whole.feed(raw)
        except OSError as cause:
            raise SessionError(f"cannot read {self.path}: {cause.strerror}") from cause
        if whole.end != end:
            raise SessionError(f"{self.path}: somebody else changed its file")
        self.recent = whole

    def offset_of(self, line: int) -> int:
        """The byte at which a line begins. Raises :class:`SessionError` if it holds no record."""
        known = self._with(line)
        at = bisect_left(known.lines, line)
        if line not in known.lines[at : at + 1]:
            raise SessionError(f"{self.path} has no record on line {line}")
        return known.offsets[at]

    def raw(self, line: int) -> tuple[int, bytes]:
        """The offset and the bytes of a line, as they stand on disk now; its newline aside."""
        known = self._with(line)
        offset = known.begin
        with self._file() as file:
            file.seek(offset)
            for number, raw in enumerate(file, start=known.start):
                if number == line:
                    return offset, raw.removesuffix(b"\n")
                offset += len(raw)
        raise SessionError(f"{self.path} has no line {line}")

    def acknowledged(self, line: int) -> bool:
        """Whether a person has acknowledged this very line, as it stands there now."""
        known = self._with(line)
        claims = [
            record.get("sha256")
            for record, place in zip(known.records, known.lines, strict=True)
            if record["type"] == "repair" and record.get("line") == line < place
        ]
        return bool(claims) and repair_record(line, *self.raw(line))["sha256"] in claims

    def _load(self, *, everything: bool) -> bytes | None:
        """Read all whole lines that are needed; return what stands after the last newline."""
        with self._file() as file, no_collection():
            self.recent = Contents(*(FIRST if everything else _needed(file)))
            file.seek(self.recent.begin)
            for raw in file:  # a binary file splits at 0x0A alone
                if not raw.endswith(b"\n"):
                    return raw
                self.recent.feed(raw)
        return None

    def _file(self) -> BinaryIO:
        if not self.path.is_dir() and not self.path.is_file() and self.path.exists():
            raise SessionError(f"{self.path} is a device or a pipe, not a file; move it away")
        return self.path.open("rb")

    def _remember(self, mend: bytes, line: bytes) -> None:
        """Learn what was written: bytes that ended the last line, and a new line."""
        self.recent.end += len(mend)
        if line:
            self.recent.feed(line)

    def _with(self, line: int) -> Contents:
        """What has been read, that line among it if the file has it."""
        if line < self.recent.start:
            self.read_all()
        return self.recent


def _needed(file: BinaryIO) -> Place:
    """The place from which an open file must be read."""
    try:
        mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError):  # a file system that cannot, or an empty file
        return FIRST
    with mapped as data:
        end = len(data)
        while (at := data.rfind(_MARK, 0, end)) >= 0:
            end = data.rfind(b"\n", 0, at) + 1
            file.seek(end)
            records, problem, _ = read_line(file.readline())
            place = None if problem else _place_in(records[0], data, end)
            if place:
                return place
    return FIRST


def _place_in(record: Record, data: mmap, end: int) -> Place | None:
    """From where to read if ``record``, on the line at byte ``end``, is a compaction that tells.

    One of the older form does not, nor one that pins attempts without saying where they
    stand: those must be read too, for a verdict may come.
    """
    if record["type"] != "compaction" or "retained_tail" in record:
        return None
    names = _RESUME if _RESUME[0] in record else _KEPT
    if names is _KEPT and any(isinstance(pinned, str) for pinned in record.get("pinned", ())):
        return None
    numbers: list[Any] = [record.get(name) for name in (*names, *_KEPT)]
    if not all(type(number) is int for number in numbers):
        return None
    line, begin, kept_line, kept_begin = numbers
    if (line, begin) != FIRST and not 1 < line <= begin + 1:  # each line before takes a byte
        return None
    if not begin <= kept_begin < end or not all(_begins(data, at) for at in (begin, kept_begin)):
        return None
    between = data[begin:kept_begin].count(b"\n")
    return (line, begin) if between == kept_line - line else None


def _begins(data: mmap, at: int) -> bool:
    """Whether a line begins at that byte."""
    return at == 0 or data[at - 1 : at] == b"\n"


@contextmanager
def no_collection() -> Iterator[None]:
    """Let the garbage collector rest: of the many objects made meanwhile none is garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
