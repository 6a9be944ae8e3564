"""What the bytes of one line hold: records, damage, or a tail that was torn.

Rules that live here and nowhere else:

1. Lines end at byte 0x0A and nowhere else. Text may hold U+2028 and U+0085 as they are,
   so ``str.splitlines`` would cut good records in two.
2. Whole objects are records, also when several stand on one line or NULs surround them.
   An object inside a broken one is never a record: it may be a piece of a text.
3. A line that ends in byte 0x18 is a sealed tail. No record can end in that byte.
4. What is neither is damage. It may have been any record, a ``running`` too.
5. So is a record whose checksum does not fit (see ``checksums``). The checksum belongs to
   the line, like its newline: no record that is handed out has it.
"""

import hashlib
import json
from array import array
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import cast

from lai.checksums import KEY, Broken, Chain
from lai.records import Record, malformed

SEAL = b"\x18"
TORN = "a torn tail: the last append never finished"
SEALED = "a torn tail, sealed"
NO_RECORD = (Broken.CHANGED, Broken.BARE)  # of such a line nothing is believed
Piece = tuple[Record, bytes]  # a whole object, and the bytes that it was read from
_FILLER = " \t\r\x00"  # what may stand around whole objects: spaces, and NULs of a lost write


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in a session file that is not one record on one line.

    ``line`` counts from 1, ``offset`` and ``size`` are bytes. ``lost`` says that a record
    may have stood there: then no tool runs until a person has acknowledged it.
    """

    line: int
    offset: int
    size: int
    sha256: str
    reason: str
    lost: bool
    acknowledged: bool = False

    def __str__(self) -> str:
        seen = ", acknowledged" if self.acknowledged else ""
        return f"line {self.line} at byte {self.offset}: {self.reason} ({self.size} bytes{seen})"


class Contents:
    """What a session file holds from one place on, read one physical line at a time.

    ``records`` are in file order, ``lines`` their physical lines from 1, ``offsets`` the
    bytes at which those begin. ``damage`` is every place that is not one record on one
    line. ``start`` is the first line that was read, at byte ``begin``; ``end`` is the byte
    behind the last, and ``chain`` knows what the next line has to name.
    """

    def __init__(self, start: int = 1, begin: int = 0) -> None:
        self.start = start
        self.begin = begin
        self.chain = Chain(open=start > 1)
        self.records: list[Record] = []
        self.lines = array("Q")
        self.offsets = array("Q")
        self.damage: list[Damage] = []
        self.last_line = start - 1
        self.end = begin

    def feed(self, raw: bytes) -> None:
        """Read a whole line, its newline included."""
        body = raw.removesuffix(b"\n")
        pieces, reason, lost = _pieces(body)
        if reason and body.endswith(SEAL):
            body, reason, lost = body.removesuffix(SEAL), SEALED, False
        self._take(pieces, raw, body, reason, lost=lost)

    def feed_tail(self, raw: bytes) -> bool:
        """Read what stands after the last newline; False if it was torn, not just unended."""
        pieces, reason, lost = _pieces(raw)
        chain = replace(self.chain)
        sound = list(takewhile(lambda piece: chain.follow(piece[1]) not in NO_RECORD, pieces))
        torn = lost or len(sound) < len(pieces)
        self._take(sound, raw, raw, TORN if torn else reason)
        return not torn

    @property
    def unacknowledged(self) -> list[Damage]:
        """Damage that may have lost a record and that nobody has acknowledged."""
        return [d for d in self.damage if d.lost and not d.acknowledged]

    @property
    def lost_lines(self) -> list[int]:
        """The lines on which a record may have been lost, acknowledged or not."""
        return [d.line for d in self.damage if d.lost]

    def _take(
        self,
        pieces: list[Piece],
        raw: bytes,
        body: bytes,
        reason: str | None,
        *,
        lost: bool = False,
    ) -> None:
        """Learn a physical line: its records, and what is to be said of the rest."""
        self.last_line += 1
        rest = lost or reason in (TORN, SEALED)  # bytes that are no record
        for record, source in pieces:
            broken = self.chain.follow(source)
            if broken:
                reason, lost, rest = broken, True, rest or broken in NO_RECORD
            if broken in NO_RECORD:
                break
            self._keep(record)
        if rest:
            self.chain.skip(body, lost=lost)
        if reason:
            digest = hashlib.sha256(body).hexdigest()
            place = self.last_line, self.end, len(body)
            self.damage.append(Damage(*place, digest, reason, lost))
        self.end += len(raw)

    def _keep(self, record: Record) -> None:
        if self.chain.begun:
            del record[KEY]
        self.records.append(record)
        self.lines.append(self.last_line)
        self.offsets.append(self.end)
        if record["type"] == "repair":
            place = record.get("line"), record.get("sha256")
            self.damage = [
                replace(d, acknowledged=True) if (d.line, d.sha256) == place else d
                for d in self.damage
            ]


def repair_record(line: int, offset: int, raw: bytes) -> Record:
    """Says that these bytes, at that place, are known to be no record."""
    digest = hashlib.sha256(raw).hexdigest()
    return {"type": "repair", "line": line, "offset": offset, "bytes": len(raw), "sha256": digest}


def read_line(raw: bytes) -> tuple[list[Record], str | None, bool]:
    """The records on a line, what is wrong with it, and whether a record may be lost there."""
    pieces, reason, lost = _pieces(raw)
    return [record for record, _ in pieces], reason, lost


def _pieces(raw: bytes) -> tuple[list[Piece], str | None, bool]:
    record = _record(raw)
    return _salvage(raw) if record is None else ([(record, raw)], None, False)


def _record(raw: bytes) -> Record | None:
    """The record on an ordinary line; None for every other line, which takes a closer look."""
    try:
        text = raw.decode()
        record, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    rest = text[end:]
    if rest not in ("\n", "") and rest.strip(" \t\r\n"):
        return None
    return None if _problem(record, raw) else cast("Record", record)


def _problem(value: object, raw: bytes) -> str | None:
    """Why a JSON value on a line is no record; None if it is one."""
    if not isinstance(value, dict):
        return "not a JSON object"
    if (b"\\ud" in raw or b"\\uD" in raw) and not _writable(value):
        return "half of a character"
    return malformed(value)


def _writable(record: Record) -> bool:
    """Half of a character, which has an escape of its own, can be read but never sent on."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _salvage(raw: bytes) -> tuple[list[Piece], str | None, bool]:
    text = raw.decode("utf-8", "surrogateescape")
    found: list[Piece] = []
    at = _past_filler(text, 0)
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
            source = text[at:end].encode("utf-8")  # bytes that are not UTF-8 make no record
        except (ValueError, RecursionError):
            return found, "the rest of the line cannot be read" if found else "cannot be read", True
        problem = _problem(value, raw)
        if problem:
            return found, problem, True
        found.append((value, source))
        at = _past_filler(text, end)
    if not found:
        return found, "no record on this line", True
    if len(found) > 1:
        return found, "several records on one line", False
    return found, "stray NUL bytes" if "\0" in text else None, False


def _past_filler(text: str, at: int) -> int:
    while at < len(text) and text[at] in _FILLER:
        at += 1
    return at
