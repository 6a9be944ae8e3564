"""A tool call: its arguments, their hash, and which result answers it.

Rules that live here and nowhere else:

1. A call *is* its place in the file. A provider may leave an id empty or use it twice,
   so an id pairs a call with its result and identifies nothing.
2. Arguments are hashed in one canonical form. The hash is a *check* that two requests
   are the same, never an identity: two identical commands may both be meant.
3. What the model sends as arguments is read strictly: one JSON object, no key twice, no
   NaN. A reader that shrugs would approve one thing and run another.

It does not know what became of a call: that is the ledger's reading of the log.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import Any, NoReturn

from lai.records import JSON, LaiError, Record


class ArgumentsError(LaiError):
    """The model's arguments are not one well-formed JSON object. Nothing may run on them."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the log: where it stands, and what the model asked for.

    ``line`` counts physical lines from 1, ``index`` the calls of one message from 0.
    ``text`` is the arguments as the model wrote them. ``cut`` marks a reply that ended
    at its length limit, so that its last words may be missing.
    """

    line: int
    index: int
    id: str = field(compare=False)
    name: str = field(compare=False)
    text: str = field(compare=False)
    cut: bool = field(compare=False, default=False)


class Pairing:
    """Which call a tool result answers; fed the messages of a log in order.

    A result belongs to the nearest earlier call of its id that is still unanswered; in
    one message the calls are taken in their order.
    """

    def __init__(self) -> None:
        self._unanswered: dict[str, list[Call]] = {}

    def calls(self, record: Record, line: int) -> list[Call]:
        """The calls an assistant message makes; empty for every other message."""
        asked = record["message"].get("tool_calls")
        if not asked:
            return []
        cut = record.get("finish_reason") == "length"
        made = [
            Call(
                line=line,
                index=index,
                id=str(raw.get("id") or ""),
                name=str(raw["function"].get("name") or ""),
                text=arguments_text(raw["function"].get("arguments")),
                cut=cut,
            )
            for index, raw in enumerate(asked)
        ]
        for call in reversed(made):  # so that pop() finds the first of the latest message
            self._unanswered.setdefault(call.id, []).append(call)
        return made

    def next(self, call_id: str) -> Call | None:
        """The call that a result of this id would answer now, or None: it would answer nothing."""
        waiting = self._unanswered.get(call_id)
        return waiting[-1] if waiting else None

    def answered(self, record: Record) -> Call | None:
        """The call that this tool result answers, or None."""
        call_id = record["message"]["tool_call_id"]
        call = self.next(call_id)
        if call is not None:
            self._unanswered[call_id].pop()
        return call


def arguments_text(arguments: Any) -> str:
    """Arguments as text; some servers send the object itself instead of its JSON."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)


_CANONICAL = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def canonical(value: JSON) -> bytes:
    """The canonical form: sorted keys, no spaces, non-ASCII as it is, UTF-8.

    Raises ValueError for NaN and for a lone surrogate, which have no such form.
    """
    return _CANONICAL.encode(value).encode("utf-8")


def arguments_sha256(arguments: JSON) -> str:
    """SHA-256, in hex, of the canonical form of tool arguments (reliability article, section 3.1).

    Raises ValueError where :func:`canonical` does.
    """
    return hashlib.sha256(canonical(arguments)).hexdigest()


def parse_arguments(text: str) -> JSON:
    """The arguments of a tool call. Raises :class:`ArgumentsError` with what is wrong."""
    digest(text)
    arguments: JSON = json.loads(text)
    return arguments


def readable(text: str) -> bool:
    """Whether ``digest`` has an answer for these arguments, found without making a hash."""
    try:
        text.encode("utf-8")
        if "\\ud" in text or "\\uD" in text:  # perhaps half of a character
            digest(text)
        return isinstance(_STRICT.decode(text), dict)
    except (ArgumentsError, ValueError, RecursionError):
        return False


@lru_cache(maxsize=8)  # a call is checked at each of its steps, and its text never changes
def digest(text: str) -> str:
    """``arguments_sha256`` of arguments as the model wrote them, read strictly.

    Raises :class:`ArgumentsError` with what is wrong.
    """
    try:
        value = _STRICT.decode(text)
        if not isinstance(value, dict):
            raise ArgumentsError(f"expected a JSON object, found {type(value).__name__}")
        return arguments_sha256(value)
    except (ValueError, RecursionError) as cause:
        raise ArgumentsError(f"not a JSON object: {cause}") from cause


def _unique_keys(pairs: list[tuple[str, Any]]) -> JSON:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ArgumentsError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ArgumentsError(f"{name} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _no_constant(number)


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite
)
