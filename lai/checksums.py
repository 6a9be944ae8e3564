"""The checksum of a line, which also names the line before it.

JSON does not notice damage: of all single bits of a real session, more than half can be
flipped and every line still reads. So each record that is written here ends in

    "sum":"9bc41f02a7de-3fa2b1c0d4e5"

the checksum of the line before, and its own: the first 12 hex digits of SHA-256 over all
bytes of the line that stand in front of them.

Rules that live here and nowhere else:

1. A line whose own checksum is wrong was changed: nothing on it is believed.
2. A line that is whole but names another line before it is a record. Between the two,
   lines were changed, removed, added or moved.
3. A session may begin with lines that carry none: older ones, or some made by hand. From
   the first that carries one, every record does. A line without is named by a checksum
   that is computed when the next one is written.
4. After a line that was lost the next may name any: that damage is known already.

Nothing here is secret. It finds what happens by accident; whoever can write to the file
can compute the checksums too. Records that are missing at the very end leave no trace.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

KEY = "sum"
START = "0" * 12  # what the first line of a session names as the line before it
_END = re.compile(rb',"sum":"([0-9a-f]{12})-([0-9a-f]{12})"\}\s*\Z')
# Such an end with something wrong in it: else the only line of a session could lose its own.
_MEANT = re.compile(rb',"(?:sum":".{25}|...":"[0-9a-f]{12}-[0-9a-f]{12})"\}\s*\Z', re.DOTALL)
_LONGEST = 64  # bytes in which an end is looked for


class Broken(StrEnum):
    """What can be wrong with a line that reads well, in words."""

    CHANGED = "its checksum is wrong: the line was changed"
    BARE = "it has no checksum, and lines before it have: somebody else wrote or changed it"
    APART = "it does not follow the line before it: lines were changed, removed, added or moved"


def chained(line: bytes, before: str) -> bytes:
    """An encoded record with its checksum; ``before`` is the one of the line before it."""
    head = line.removesuffix(b"}\n") + f',"{KEY}":"{before}-'.encode()
    return b"".join([head, _digest(head).encode(), b'"}\n'])


@dataclass(slots=True)
class Chain:
    """The lines so far: what the next one has to name.

    ``last`` is the checksum of the line before. ``open`` says that the next line may name
    any, ``begun`` that a line with a checksum was there.
    """

    last: str = START
    open: bool = False
    begun: bool = False

    def follow(self, record: bytes) -> Broken | None:
        """Take a record's bytes as the next line; say what is wrong with them."""
        near = max(0, len(record) - _LONGEST)
        end = _END.search(record, near)
        if end is None and _MEANT.search(record, near):
            return Broken.CHANGED
        if end is None and self.begun:
            return Broken.BARE
        if end is None:
            self.last = _digest(record.rstrip())
            return None
        before, own = (digits.decode() for digits in end.groups())
        if _digest(record[: end.start(2)]) != own:
            return Broken.CHANGED
        follows = self.open or before == self.last
        self.last, self.open, self.begun = own, False, True
        return None if follows else Broken.APART

    def skip(self, line: bytes, *, lost: bool) -> None:
        """Go past a line that is no record, or not only records; without its newline."""
        self.last = _digest(self.last.encode() + line if self.begun else line)
        self.open = self.open or lost


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
