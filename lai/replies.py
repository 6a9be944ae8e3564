"""Reading an answer: the pieces of a stream in, one whole reply out.

Rules that live here and nowhere else:

1. A reply is whole or there is none: what is cut, garbled, or has neither text nor calls
   raises ValueError. A stream without ``finish_reason`` is cut: no other sign of the end
   reaches us over every connection.
2. What a provider adds, it gets back: unknown fields of the message and of its calls are
   kept behind the known ones. Some providers refuse a history without them.
3. Sloppy is not broken: a call without index, type or id, or with an object for its
   arguments, is understood.

It does not know clients, networks or sessions: ids stay as the provider gave them.
"""

import json
from dataclasses import dataclass
from typing import TypeVar

from lai.calls import arguments_text
from lai.records import JSON, Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer: the assistant message in chat form, and what was said about it."""

    message: Message
    finish_reason: str | None
    usage: JSON | None


class Answer:
    """An answer as it grows: ``add`` takes a chunk, ``reply`` refuses what is not whole."""

    def __init__(self) -> None:
        self.content = ""
        self.extra: JSON = {}
        self.calls: list[tuple[int, JSON]] = []
        self.finish_reason: str | None = None
        self.usage: JSON = {}
        self.ended = self.answered = False

    def add(self, chunk: object) -> str:
        """Take a chunk and return its text. Raises ValueError for what is no chunk."""
        part: JSON = _a(dict, chunk, "chunk")
        choices = _a(list, part.get("choices"), "choices")
        if part.get("error"):
            raise ValueError(f"an error in place of an answer: {part['error']}")
        self.usage = _a(dict, part.get("usage"), "usage") or self.usage
        if not choices:  # the usage comes so, and some providers' pings
            return ""
        self.answered = True
        choice = _a(dict, choices[0], "choice")
        whole = choice.get("message")
        self.finish_reason = _a(str, choice.get("finish_reason"), "reason") or self.finish_reason
        self.ended = bool(self.ended or self.finish_reason or whole)
        return self._delta(_a(dict, choice.get("delta") or whole, "delta"), bool(whole))

    def _delta(self, delta: JSON, whole: bool) -> str:
        text = _a(str, delta.get("content"), "content")
        self.content += text
        for position, piece in enumerate(_a(list, delta.get("tool_calls"), "tool_calls")):
            self._call(_a(dict, piece, "tool call"), position if whole else None)
        _merge(self.extra, delta, {"role", "content", "tool_calls"})
        return text

    def _call(self, piece: JSON, index: int | None) -> None:
        function = _a(dict, piece.get("function"), "function")
        call_id, name = _a(str, piece.get("id"), "id"), _a(str, function.get("name"), "name")
        index = piece["index"] if isinstance(piece.get("index"), int) else index
        call = self._open_call(index, call_id, name)
        call["id"] = call["id"] or call_id
        known = call["function"]
        if name != known["name"]:  # some send the whole name with every piece
            known["name"] += name
        known["arguments"] += arguments_text(function.get("arguments"))
        _merge(call, piece, {"index", "id", "type", "function"})

    def _open_call(self, index: int | None, call_id: str, name: str) -> JSON:
        """The call a piece belongs to. Some providers number nothing, or everything with 0."""
        last = self.calls[-1][0] if self.calls else 0
        for known, call in reversed(self.calls):
            other = call_id and call["id"] and call_id != call["id"]
            begun = index is None and not call_id and call["function"]["arguments"]
            if known == (last if index is None else index) and not (name and (other or begun)):
                return call
        new = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        self.calls.append((last if index is None else index, new))
        return new

    def reply(self) -> Reply:
        """The whole answer. Raises ValueError where a part is missing."""
        calls = [call for _, call in sorted(self.calls, key=lambda numbered: numbered[0])]
        if not self.answered:
            raise ValueError("a response without an answer in it")
        if not self.ended:
            raise ValueError("an answer that breaks off in the middle")
        if not calls and not self.content.strip():
            raise ValueError(f"neither text nor tool calls (finish_reason: {self.finish_reason})")
        message: Message = {"role": "assistant", "content": self.content}
        message |= ({"tool_calls": calls} if calls else {}) | self.extra
        return Reply(_writable(message), self.finish_reason, _writable(self.usage) or None)


def _a(kind: type[T], value: object, what: str) -> T:
    """``value`` if it is of its kind, an empty one for null. Raises ValueError otherwise."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ValueError(f"{what} of the wrong kind: {value}")
    return value


def _merge(into: JSON, piece: JSON, known: set[str]) -> None:
    """Keep unknown fields: text and lists grow with each piece, of all else the newest counts."""
    for key, value in piece.items():
        match into.get(key), value:
            case _ if key in known or value is None:
                continue
            case (str() as old, str()) | (list() as old, list()):
                into[key] = old + value
            case _:
                into[key] = value


def _writable(value: JSON) -> JSON:
    """The same value, fit for a session file: no lone surrogate, and null for NaN."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-16-le", "surrogatepass")
    clean: JSON = json.loads(text.decode("utf-16-le", "replace"), parse_constant=lambda _: None)
    return clean
