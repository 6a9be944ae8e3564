"""How much of a text there is room for, in bytes and in tokens.

A result stands in the prompt as JSON text until a summary takes its place, so that text is
what counts: a line end takes two characters there, a NUL six.

Rules that live here and nowhere else:

1. A result takes at most 50 KiB, and at most a quarter of the model's window.
2. What is returned fits. It need not be the most that would: it is found by adding up
   blocks, which is nearly exact and takes time linear in what fits, however long the rest.
3. A cut goes between two characters. Where lines end is for others to consider.

It does not know files, tools, or what becomes of the rest.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from lai.budget import Budget
from lai.tokens import estimate

RESULT_BYTES = 50 * 1024
SEAMS = 24  # tokens: what putting texts together may add to the sum of their estimates
BLOCK = 512  # characters: a seam between two blocks costs a token or two, a block a hundred

_ENCODER = json.JSONEncoder(ensure_ascii=False)  # as a result stands in its message


@dataclass(frozen=True, slots=True)
class Room:
    """What a text may take within JSON: bytes of UTF-8, and estimated tokens."""

    size: float = RESULT_BYTES
    tokens: float = inf

    def share(self, text: str) -> float:
        """The part of the room that ``text`` takes. More than 1 does not fit."""
        written = _ENCODER.encode(text)[1:-1]
        taken = _share(_bytes(written), self.size)
        if taken > 1 or self.tokens == inf:
            return taken  # without the estimate, which takes far longer than all else here
        return max(taken, _share(estimate(written), self.tokens))

    def part(self, share: float) -> "Room":
        """A part of this room."""
        return Room(self.size * share, self.tokens * share)

    def less(self, written: str) -> "Room":
        """What is left when JSON text has taken its part."""
        tokens = estimate(written) if self.tokens < inf else 0
        return Room(self.size - _bytes(written), self.tokens - tokens)

    def beside(self, fields: str) -> "Room":
        """What is left for the one text that the other fields of a result are there for.

        It is half of the room at least: with less, whoever reads on would not get far.
        """
        left = self.less(fields)
        return Room(max(left.size, self.size / 2), max(left.tokens - SEAMS, self.tokens / 2))


RESULT = Room()


def room(window: int | None) -> Room:
    """The room for a result, if the model's window holds so many tokens (None: not known).

    Raises :class:`LaiError` for a window that holds nothing.
    """
    return RESULT if window is None else Room(tokens=Budget(window).largest_result())


def fits(result: Any, bound: Room) -> bool:
    """Whether the JSON text of a whole result is within ``bound``."""
    written = as_json(result)
    return _bytes(written) <= bound.size and (
        bound.tokens == inf or estimate(written) <= bound.tokens
    )


def head(text: str, space: Room) -> str:
    """The start of ``text`` for which there is room."""
    return text[: _count(len(text), lambda start, end: text[start:end], space)]


def tail(text: str, space: Room) -> str:
    """The same of its end."""
    length = len(text)
    return text[length - _count(length, lambda a, b: text[length - b : length - a], space) :]


def as_json(value: Any) -> str:
    """The JSON text of a result, as the model reads it."""
    return _ENCODER.encode(value)


def _count(length: int, piece: Callable[[int, int], str], space: Room) -> int:
    """How many characters fit, counted from the side that ``piece`` counts from."""
    end, used = 0, 0.0
    while end < length and used < 1:
        block = piece(end, min(end + BLOCK, length))
        share = space.share(block)
        fitting = 1.0 if used + share <= 1 else (1 - used) / share  # of the last one a part
        end, used = end + int(len(block) * fitting), used + share
    while end and space.share(piece(0, end)) > 1:  # the seams, or an uneven block
        end -= 1 + end // 32
    return end


def _share(taken: int, of: float) -> float:
    return taken / of if of > 0 else inf


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
