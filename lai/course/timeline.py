"""A session as two lanes, left to right: the messages above, the attempts below.

    timeline(path)

One place is one line of the file. An attempt is a bar from its first record to its last,
with the sign of each state, and its receipt carries its number. A dashed line stands where
a process had died: what follows was written by the next one. A death that left no trace
(between two records, with nothing running) is in no file, so it is in no picture.

Rules that live here:

1. A picture shows what the records say, the ones that recovery reads, and nothing else.
2. The picture, its text twin and the words for those who cannot see it are made from the
   same rows. A test compares the text; the bytes of a picture differ between machines.

How it looks is in ``lanes``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from IPython.display import display

from lai.approval import visible
from lai.course.tables import SIGN
from lai.records import Message, Outcome, Record, Status
from lai.report import columns, shorten
from lai.session import Session

MOST = 60  # lines in one picture
# What a line that belongs to no attempt is, and its letter in the text.
KINDS = "user call result answer system summary torn repair damage other".split()
LETTERS = MappingProxyType(dict(zip(KINDS, "UCRASΣ~+?·", strict=True)))
# How far an attempt is between two records: not started, open, over but in doubt.
BARS = MappingProxyType({Status.APPROVED: "─", Status.RUNNING: "━", Status.UNKNOWN: "╌"})
DEATH, DIED = "┆", "a process had died; what follows is another one's"


@dataclass(slots=True)
class Attempt:
    """One real attempt: its states as (line, status, remark), oldest first.

    ``receipt`` is the line on which the model was told of it, 0 for none.
    """

    number: int
    id: str
    tool: str
    states: list[tuple[int, Status, str]] = field(default_factory=list)
    receipt: int = 0

    def before(self, line: int) -> Status | None:
        """The state in which it waited when ``line`` was written; None outside its records."""
        if not self.states[0][0] < line <= self.states[-1][0]:
            return None
        return [status for at, status, _ in self.states if at < line][-1]


@dataclass(slots=True)
class Timeline:
    """The rows of the picture, of the lines from ``first`` to ``last``.

    ``others`` says of every line that belongs to no attempt what it is. ``deaths`` are
    the lines before which a process had died.
    """

    first: int
    last: int
    others: dict[int, str] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    deaths: list[int] = field(default_factory=list)

    @property
    def facts(self) -> list[str]:
        """What is drawn: a sentence for each attempt and each death."""
        ids = shorten(attempt.id for attempt in self.attempts)
        found = []
        for attempt in self.attempts:
            states = [f"{status} {at}{remark}" for at, status, remark in attempt.states]
            states += [f"receipt {attempt.receipt}"] if attempt.receipt else []
            named = f"{attempt.number} {attempt.tool} {visible(ids[attempt.id])}"
            found.append(f"{named}: {', '.join(states)}")
        return [*found, *(f"{DEATH} before line {line}: {DIED}" for line in self.deaths)]

    @property
    def alt(self) -> str:
        """The picture in words."""
        lines = ", ".join(f"{line} {kind}" for line, kind in self.others.items())
        shown = f"Lines {self.first} to {self.last} of a session. Messages: {lines}"
        return ". ".join([shown, *(fact.removeprefix(f"{DEATH} ") for fact in self.facts)]) + "."

    @property
    def signs(self) -> str:
        """The signs that are there, with the names of their states."""
        states = {status for attempt in self.attempts for _, status, _ in attempt.states}
        return "  ".join(f"{SIGN[status]} {status}" for status in Status if status in states)

    def __repr__(self) -> str:
        told = {attempt.receipt: str(attempt.number) for attempt in self.attempts}
        letters = {at: LETTERS[kind] + told.get(at, "") for at, kind in self.others.items()}
        numbers = {line: str(line) for line in range(self.first, self.last + 1)}
        rows: list[tuple[str, Mapping[int, str], Attempt | None]]
        rows = [("line", numbers, None), ("messages", letters, None)]
        for attempt in self.attempts:
            signs = {at: SIGN[status] for at, status, _ in attempt.states}
            rows.append((f"{attempt.number} {attempt.tool}", signs, attempt))
        width = max(columns(name) for name, _, _ in rows) + 1
        drawn = [
            f"{name}{' ' * (width - columns(name))}{self._places(cells, attempt)}"
            for name, cells, attempt in rows
        ]
        kinds = [f"{LETTERS[kind]} {kind}" for kind in LETTERS if kind in self.others.values()]
        legend = "  ".join(filter(None, [*kinds, self.signs]))
        return "\n".join([*map(str.rstrip, drawn), "", legend, *self.facts])

    def _places(self, cells: Mapping[int, str], attempt: Attempt | None) -> str:
        """One row of the text: three columns for a line, one more where a process had died."""
        text = ""
        for line in range(self.first, self.last + 1):
            state = attempt.before(line) if attempt else None
            bar = BARS.get(state, " ") if state else " "
            text += f"{bar}{DEATH}" if line in self.deaths else ""
            text += cells.get(line, bar).rjust(3, bar)
        return text

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, Any]]:
        from lai.course.lanes import picture

        png, size = picture(self)
        return {"image/png": png, "text/plain": repr(self)}, {
            "image/png": {**size, "alt": self.alt}
        }

    def _ipython_display_(self) -> None:
        """The picture, and the facts below it: JupyterLab reads nobody the words of a picture."""
        data, metadata = self._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        print(*self.facts, sep="\n")


def timeline(session: Session | Path, first: int = 1) -> Timeline:
    """The lines of a session from ``first`` on; of more than 60, the last 60."""
    contents = session if isinstance(session, Session) else Session.read(session)
    torn = {damage.line for damage in contents.damage if not damage.lost}
    reading = _Reading(torn)
    for record, line in zip(contents.records, contents.lines, strict=True):
        reading.feed(record, line)
    for damage in contents.damage:
        reading.others.setdefault(damage.line, "torn" if damage.line in torn else "damage")
    first = max(first, contents.last_line - MOST + 1)
    return Timeline(
        first,
        contents.last_line,
        {line: kind for line, kind in sorted(reading.others.items()) if line >= first},
        [a for a in reading.attempts.values() if max(a.states[-1][0], a.receipt) >= first],
        [line for line in reading.deaths if line >= first],
    )


class _Reading:
    """The records, one after the other. ``torn`` are the lines on which an append broke off."""

    def __init__(self, torn: set[int]) -> None:
        self.torn = torn
        self.others: dict[int, str] = {}
        self.attempts: dict[str, Attempt] = {}
        self.deaths: list[int] = []
        self._names: dict[str, str] = {}

    def feed(self, record: Record, line: int) -> None:
        """Read the next record."""
        match record:
            case {"type": "message", "message": message}:
                self.others[line] = self._message(message, line)
            case {"type": "tool_execution", "execution_id": execution_id}:
                self._state(execution_id, record, line)
            case {"type": "resolution", "execution_id": execution_id, "outcome": outcome}:
                if execution_id in self.attempts:
                    happened = outcome == Outcome.HAPPENED
                    status = Status.SUCCEEDED if happened else Status.UNKNOWN
                    remark = f" (a person: {outcome.replace('_', ' ')})"
                    self.attempts[execution_id].states.append((line, status, remark))
            case {"type": "repair", "line": torn}:
                self.others[line] = "repair"
                if torn == line - 1 and torn in self.torn:
                    self.deaths.append(line)
            case {"type": kind}:
                self.others[line] = "summary" if kind == "compaction" else "other"

    def _message(self, message: Message, line: int) -> str:
        calls = message.get("tool_calls") or []
        self._names |= {str(c.get("id")): str(c["function"].get("name")) for c in calls}
        if message["role"] != "tool":
            roles = {"assistant": "call" if calls else "answer", "user": "user", "system": "system"}
            return roles.get(message["role"], "other")
        attempt = self.attempts.get(_attempt_in(message))
        if attempt is not None:
            attempt.receipt = line
        return "result"

    def _state(self, execution_id: str, record: Record, line: int) -> None:
        name = record.get("tool_name") or self._names.get(record["tool_call_id"], "?")
        new = Attempt(len(self.attempts) + 1, execution_id, visible(name))
        attempt = self.attempts.setdefault(execution_id, new)
        crash = record.get("cause") == "crash"
        if crash and self.others.get(line - 1) != "repair":
            self.deaths.append(line)
        origin = self.attempts.get(record.get("approval_of", ""))
        remark = f" (retry of {origin.number})" if origin and len(attempt.states) == 0 else ""
        attempt.states.append((line, Status(record["status"]), " (crash)" if crash else remark))


def _attempt_in(message: Message) -> str:
    try:
        return str(json.loads(message["content"]).get("execution_id", ""))
    except (ValueError, TypeError, AttributeError, KeyError):
        return ""
