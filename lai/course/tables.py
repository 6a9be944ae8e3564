"""Tables of a session, made from its records: what happened, and what would happen next.

Rules that live here:

1. A table says what ``Session.read`` read. ``pandas.read_json`` would turn ids into
   numbers and texts into dates, so it is never used.
2. A status is a word with a sign of its own; the colour beside it says nothing more. So
   a table can be read without colour, in a light theme and in a dark one, as plain text,
   and in a notebook that is not trusted yet.
3. The same session gives the same bytes, in plain text and in HTML.

The words come from ``report``, which the command line uses too.
"""

import html
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from lai.approval import visible
from lai.history import History
from lai.records import Record, Status
from lai.recovery import POLICY, decide
from lai.report import describe, rows, shorten
from lai.session import Session
from lai.tools import Effect, Tool

WIDTH = 88  # characters of a text; the whole of it is in the file
WRAPPED = 24  # shorter cells stay on one line
SIGN = MappingProxyType(
    {
        Status.APPROVED: "○",
        Status.REJECTED: "⊘",
        Status.RUNNING: "●",
        Status.SUCCEEDED: "✓",
        Status.FAILED: "✗",
        Status.UNKNOWN: "◆",
    }
)
# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOUR = MappingProxyType(
    {
        Status.APPROVED: "#56B4E9",
        Status.REJECTED: "#999999",
        Status.RUNNING: "#E69F00",
        Status.SUCCEEDED: "#009E73",
        Status.FAILED: "#D55E00",
        Status.UNKNOWN: "#CC79A7",
    }
)


class Table(pd.DataFrame):
    """A data frame that shows itself left-aligned and whole, without its index."""

    @property
    def _constructor(self) -> "Callable[..., Table]":
        return Table

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The table as plain text; a Chinese character takes two columns."""
        found = [list(map(str, self.columns)), *([str(v) for v in row] for row in self.values)]
        widths = [max(map(_columns, column)) for column in zip(*found, strict=True)]
        return [
            "  ".join(_pad(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in found
        ]

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="text-align:left">{_escape(name)}</th>' for name in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in self.values)
        return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"


def records_table(session: Session | Path) -> Table:
    """Every record of a session as a row, in file order; ids shortened but kept apart.

    A line that is no record gets a row of its own, which says what is wrong with it.
    """
    contents = session if isinstance(session, Session) else Session.read(session)
    found = rows(contents)
    ids = shorten(i for row in found for i in (*row.call.split(), row.execution))
    cells = [
        {
            "line": row.line,
            "type": row.type,
            "who": signed(row.who),
            "what": _short(visible(row.text)),
            "call": " ".join(ids[i] for i in row.call.split()),
            "execution": ids.get(row.execution, ""),
        }
        for row in found
    ]
    return Table(cells, columns=["line", "type", "who", "what", "call", "execution"])


def decision_table(records: Sequence[Record], tools: Sequence[Tool]) -> Table:
    """For every line: what the next process would do first if this one died right after it."""
    cells = []
    for line, record in enumerate(records, start=1):
        action = decide(History.of(records[:line]), tools)
        (who,) = steps([record])
        cells.append({"killed after line": line, "record": signed(who), "next": describe(action)})
    return Table(cells, columns=["killed after line", "record", "next"])


def steps(records: Iterable[Record]) -> list[str]:
    """A session in one word a record: the status of an attempt, the role of a message."""
    return [r.get("status") or r.get("message", {}).get("role") or r["type"] for r in records]


def policy_table() -> Table:
    """The policy the library decides by: where a call stands, and what its tool promises."""
    cells = [
        {"where the call stands": str(where)} | {str(e): str(move) for e, move in row.items()}
        for where, row in POLICY.items()
    ]
    return Table(cells, columns=["where the call stands", *map(str, Effect)])


def signed(who: str) -> str:
    """A status with its sign in front; any other word as it is."""
    return f"{SIGN[Status(who)]} {who}" if who in tuple(Status) else who


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))


def _escape(value: Any) -> str:
    return html.escape(str(value))


def _cell(value: Any) -> str:
    text = str(value)
    wrap = "white-space:nowrap" if len(text) < WRAPPED else "overflow-wrap:anywhere;min-width:16em"
    style = f"text-align:left;{wrap}"
    sign, _, word = text.partition(" ")
    if word in tuple(Status) and SIGN[Status(word)] == sign:
        style += f";border-left:6px solid {COLOUR[Status(word)]}"
    return f'<td style="{style}">{_escape(text)}</td>'
