"""Evidence about a session that the library did not write a verdict on.

A :class:`Story` holds the bytes of the session file at several moments, the effects as the
world counted them, what a person was asked and answered, and what the model was sent. The
file is read by the few lines below, not by the library.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

JSON = dict[str, Any]
SEAL = b"\x18"


class Deed(NamedTuple):
    """One effect as the world saw it; ``size`` is the length of the session file just then."""

    tool: str
    about: str
    execution_id: str
    key: str
    size: int


class Said(NamedTuple):
    """One question to a person, and the answer."""

    kind: str
    tool: str
    call_id: str
    execution_id: str | None
    answer: str | None


class Line(NamedTuple):
    """One record of the file, and the byte at which it ends."""

    record: JSON
    end: int


class Call(NamedTuple):
    """One tool call of the file; ``at`` is the index of its record."""

    at: int
    id: str
    tool: str


class Receipt(NamedTuple):
    """One tool result of the file."""

    at: int
    call_id: str
    result: JSON


@dataclass(frozen=True)
class Story:
    """Everything that is known from outside about one session. ``promises`` are by tool name."""

    data: bytes
    promises: Mapping[str, str]
    earlier: tuple[bytes, ...] = ()
    deeds: tuple[Deed, ...] = ()
    said: tuple[Said, ...] = ()
    sent: tuple[tuple[int, list[JSON]], ...] = ()
    final: object = None
    lines: list[Line] = field(init=False)
    calls: list[Call] = field(init=False)
    receipts: list[Receipt] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lines", read_lines(self.data))
        messages = [
            (at, line.record["message"])
            for at, line in enumerate(self.lines)
            if line.record["type"] == "message"
        ]
        calls = [
            Call(at, call["id"], call["function"]["name"])
            for at, message in messages
            for call in message.get("tool_calls") or ()
        ]
        receipts = [
            Receipt(at, message["tool_call_id"], json.loads(message["content"]))
            for at, message in messages
            if message["role"] == "tool"
        ]
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "receipts", receipts)

    def ledger(self, **wanted: str) -> Iterator[tuple[int, JSON]]:
        """The ledger records that have these values, with their index in ``lines``."""
        for at, (record, _) in enumerate(self.lines):
            if record["type"] == "tool_execution" and wanted.items() <= record.items():
                yield at, record

    def promised(self, promise: str) -> list[Call]:
        """The calls of the tools that promise this."""
        return [call for call in self.calls if self.promises.get(call.tool) == promise]

    def deeds_of(self, call: Call) -> list[Deed]:
        """The effects of one call, found by the key that the tool was given."""
        return [deed for deed in self.deeds if deed.key.endswith(f":{call.tool}:{call.id}")]

    def receipt_of(self, call: Call) -> JSON:
        """What the model was told about a call; empty if nothing yet."""
        found = (receipt.result for receipt in self.receipts if receipt.call_id == call.id)
        return next(found, {})


def read_lines(data: bytes) -> list[Line]:
    """The records of a session file whose only damage may be sealed or torn tails."""
    found, end = [], 0
    for raw in data.split(b"\n")[:-1]:
        end += len(raw) + 1
        if not raw.endswith(SEAL):
            found.append(Line(json.loads(raw.decode("utf-8")), end))
    return found


def prompt_problem(messages: list[JSON]) -> str | None:
    """Why the chat API would refuse these messages; None if it would not."""
    ids: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if not waiting or message["tool_call_id"] != waiting.pop(0):
                return f"message {number} answers nothing, or out of order"
            continue
        if waiting:
            return f"message {number} stands between a call and its result"
        for call in message.get("tool_calls") or ():
            if not call["id"] or call["id"] in ids:
                return f"message {number} has an empty or repeated id {call['id']!r}"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return f"message {number} has arguments that are no object"
            ids.add(call["id"])
            waiting.append(call["id"])
    if waiting:
        return f"unanswered: {waiting}"
    return None if messages[0]["role"] in ("system", "user") else "it starts in the middle"
