"""The model's reading of the log: the messages it may see, valid for the API.

Everything stays in the file; the prompt view is a selection. The executor's records
(``ledger``) never enter it, and neither reading knows the other.

Rules that live here and nowhere else:

1. An assistant message with calls is followed by exactly its results, in the order of
   the calls. A result that stands elsewhere in an old file moves in the view, never on
   disk. Until the last call is answered the whole batch stays out of the view.
2. A result that answers nothing is left out.
3. Ids are non-empty and unique. A message that says nothing and calls nothing is not
   sent at all.
4. The latest compaction replaces what stands before its first kept line. A summary is
   something a model wrote about a conversation: it enters as data, marked as such. What
   is pinned stays word for word: a text with the summary, a message as a message.
5. The view follows from what it holds, not from what was read before: a log that is read
   from its latest compaction on gives the same view.

It does not know tools, attempts or budgets.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import ceil

from lai.calls import Call, Pairing
from lai.records import Message, Record
from lai.tokens import estimate_message
from lai.usage import LEAST, Counted, believable, counted
from lai.wire import (
    SYSTEM_ROLES,
    UNKNOWN_HEADER,
    sendable,
    spoken,
    stands_alone,
    summary_message,
    text_of,
)


@dataclass(slots=True)
class Entry:
    """A message of the view, with its results where it makes calls.

    ``line`` is its physical line; below 1 for a message inside a compaction record.
    ``clean`` says that no earlier call was open there, so that the log can be cut.
    """

    line: int
    clean: bool
    message: Message
    calls: tuple[Call, ...] = ()
    results: dict[Call, Message] = field(default_factory=dict)

    def messages(self) -> list[Message]:
        """What is sent of it, once its calls are answered."""
        return [self.message, *(self.results[call] for call in self.calls)]


class View:
    """The fold of a log into prompt messages. Between compactions it grows only at its end.

    ``entries`` are the messages themselves; ``summary`` and ``pinned`` are what the latest
    compaction left of those before. ``scale`` calibrates an estimated token.
    """

    def __init__(self) -> None:
        self.summary = ""
        self.pinned: list[Message] = []
        self.entries: list[Entry] = []
        self.scale = 1.0
        self._head: list[Message] = []
        self._sent: list[Message] = []  # what complete entries say, so that asking is cheap
        self._costs: list[int] = []  # estimated tokens of _sent, as far as somebody asked
        self._counted: tuple[int, Counted] | None = None  # the place in _sent of an answer
        self._waiting: dict[Call, Entry] = {}
        self._ids: set[str] = set()
        self._pairing = Pairing()

    def feed(self, record: Record, line: int) -> None:
        """Read the next record; what the model never sees changes nothing."""
        if record["type"] == "message":
            self._feed_message(record, record["message"], line)
        elif record["type"] == "compaction":
            self._compact(record)

    def _feed_message(self, record: Record, message: Message, line: int) -> None:
        if message["role"] == "assistant":
            self._feed_assistant(record, line)
        elif message["role"] == "tool":
            call = self._pairing.answered(record)
            entry = self._waiting.pop(call, None) if call else None
            if call and entry:
                self._feed_result(entry, call, message)
        else:
            self._enter(Entry(line, self._clean(), spoken(message)))

    def messages(self) -> list[Message]:
        """What to send, oldest first. The list is the caller's, the messages are not."""
        return [*self._head, *self._sent]

    def tokens(self, fixed: int) -> int:
        """About how many tokens a request takes: what the provider counted, and what came since.

        ``fixed`` is the estimate of what a request carries beside these messages.
        """
        now = fixed + self.estimated
        if self._counted and now:
            place, counted = self._counted
            costs = self._known_costs()
            then = counted.estimated or fixed + self.head_tokens + sum(costs[:place])
            size = counted.tokens + self.scale * (now - then - costs[place])
            if size >= LEAST * now:
                return ceil(size)
        return ceil(self.scale * now)

    @property
    def estimated(self) -> int:
        """The estimated tokens of all messages, whatever a provider counted."""
        return self.head_tokens + sum(self._known_costs())

    @property
    def head_tokens(self) -> int:
        """The estimated tokens of the summary and of what is pinned beside it."""
        return sum(map(estimate_message, self._head))

    def newest_first(self) -> Iterator[tuple[Entry, list[int]]]:
        """Each answered entry with the estimated tokens of its messages, from the end."""
        costs, end = self._known_costs(), len(self._sent)
        for entry in reversed(self.entries):
            if len(entry.results) == len(entry.calls):
                start = end - 1 - len(entry.calls)
                yield entry, costs[start:end]
                end = start

    @property
    def final(self) -> str | None:
        """The answer that ended the last turn; None while a turn is unfinished."""
        last = self.entries[-1] if self.entries else None
        if last is None or last.message["role"] in SYSTEM_ROLES:
            return ""
        if last.calls or last.message["role"] != "assistant":
            return None
        return text_of(last.message)

    def batch(self, call: Call) -> int:
        """How many calls were made together with this one."""
        at = slice(call.index, call.index + 1)  # its place: a search would be as long as the batch
        return next((len(e.calls) for e in reversed(self.entries) if e.calls[at] == (call,)), 1)

    def _known_costs(self) -> list[int]:
        self._costs += map(estimate_message, self._sent[len(self._costs) :])
        return self._costs

    def _feed_assistant(self, record: Record, line: int) -> None:
        message, calls = record["message"], tuple(self._pairing.calls(record, line))
        if not calls and not text_of(message):
            return
        entry = Entry(line, self._clean(), sendable(message, calls, self._unused), calls)
        told = counted(record["usage"]) if "usage" in record and not self._waiting else None
        if told:
            self._counted = len(self._sent), told
            self.scale = told.scale or self.scale
        self._enter(entry)
        self._waiting.update(dict.fromkeys(calls, entry))

    def _clean(self) -> bool:
        """Whether the log can be cut here; calls inside a compaction record are no calls of it."""
        return not any(entry.line > 0 for entry in self._waiting.values())

    def _enter(self, entry: Entry) -> None:
        self.entries.append(entry)
        if not entry.calls:
            self._sent.append(entry.message)

    def _feed_result(self, entry: Entry, call: Call, message: Message) -> None:
        sent = entry.message["tool_calls"][call.index]["id"]
        entry.results[call] = {**message, "tool_call_id": sent}
        if len(entry.results) < len(entry.calls):
            return
        if self.entries and entry is self.entries[-1]:
            self._sent += entry.messages()
        else:  # an old file: the results came after other messages
            self._lay_out()

    def _lay_out(self) -> None:
        """Begin the flat list anew, and with it what is known of its tokens."""
        whole = (e for e in self.entries if len(e.results) == len(e.calls))
        self._sent = [message for entry in whole for message in entry.messages()]
        self._costs, self._counted = [], None

    def _unused(self, call: Call) -> str:
        """The id of a call, or one like it that no other call of the view has."""
        name = call.id or f"call_line{call.line}_{call.index}"
        while name in self._ids:
            name = f"{name}_again"
        self._ids.add(name)
        return name

    def _compact(self, record: Record) -> None:
        self._take_head(record)
        self._ids.clear()
        self.scale = believable(record.get("scale")) or 1.0
        if "retained_tail" in record:  # an older form: the messages stand in the record
            self.entries = []
            self._waiting.clear()
            for number, message in enumerate(record["retained_tail"], start=1):
                self.feed({"type": "message", "message": message}, -number)
        else:
            first = record.get("first_kept", 1)
            self.entries = [e for e in self.entries if e.line >= first]
            for entry in self.entries:
                self._rename(entry)
        self._lay_out()

    def _take_head(self, record: Record) -> None:
        pinned = record.get("pinned", ())
        summary, texts = record.get("summary", ""), [p for p in pinned if isinstance(p, str)]
        # What is unknown is not told on: whoever makes the next summary asks the ledger again.
        foreign = [text for text in texts if not text.startswith(UNKNOWN_HEADER)]
        self.summary = "\n\n".join([summary, *foreign])
        self.pinned = [spoken(p) for p in pinned if isinstance(p, dict) and stands_alone(p)]
        system = [m for m in self.pinned if m["role"] in SYSTEM_ROLES]
        others = [m for m in self.pinned if m["role"] not in SYSTEM_ROLES]
        self._head = [*system, summary_message([summary, *texts]), *others]

    def _rename(self, entry: Entry) -> None:
        """Give the calls of a kept entry their ids anew: what made one a double may be gone."""
        if not entry.calls:
            return
        entry.message = sendable(entry.message, entry.calls, self._unused)
        for call, sent in zip(entry.calls, entry.message["tool_calls"], strict=True):
            if call in entry.results:
                entry.results[call] = {**entry.results[call], "tool_call_id": sent["id"]}


def build_prompt_view(records: Iterable[Record]) -> list[Message]:
    """The prompt view of a whole log (reliability article, section 2)."""
    view = View()
    for number, record in enumerate(records, start=1):
        view.feed(record, number)
    return view.messages()
