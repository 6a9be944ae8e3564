"""What if it died after line k? ``decide`` is asked on every beginning of a session.

    what_if(path, tools)

``decide`` is pure, so a log can be cut anywhere and asked what the next process would do,
without killing anybody. Moving the slider runs nothing and changes no file.

Rules that live here:

1. A beginning of the file is read as a new process would read it: an approval in it was
   given to somebody who is dead, a ``running`` in it is interrupted.
2. The reason is a row of the policy table: where the call stands, times what its tool
   promises. What is decided before that table (a conflict, a call that cannot run) says so.
3. The slider has a static twin, a row for every line. With nobody there (LAI_ANSWER is
   set) the twin alone is shown, so that a saved notebook holds no widget.
"""

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ipywidgets  # type: ignore[import-untyped]
from IPython.display import display

from lai.actions import Action, CallModel, Done
from lai.approval import visible
from lai.course.tables import Table, signed
from lai.history import History
from lai.ledger import conflict
from lai.recovery import POLICY, decide, refusal_of, standing
from lai.report import Row, describe, rows
from lai.session import Session
from lai.tools import Effect, Tool, find

SHOWN = 4  # records above the answer


@dataclass(frozen=True, slots=True)
class Step:
    """A beginning of the file: its last line, what a new process would do first, and why."""

    line: int
    record: str
    action: Action
    why: str

    @property
    def next(self) -> str:
        """The action in words."""
        return describe(self.action)


class WhatIf:
    """A slider over the lines of a session, and its static twin.

    ``steps`` are the answers, from the empty file on; ``table`` is the twin; ``slider``
    and ``box`` are the widgets (arrow keys move the slider).
    """

    def __init__(self, session: Session, tools: Sequence[Tool]) -> None:
        self.rows = rows(session)
        words = {row.line: row.who or row.type for row in self.rows}
        self.steps = [_step(session, tools, n, words) for n in range(session.last_line + 1)]
        self.slider = ipywidgets.IntSlider(
            value=session.last_line,
            min=0,
            max=session.last_line,
            description="died after line",
            continuous_update=True,
            style={"description_width": "initial"},
            layout=ipywidgets.Layout(width="95%", max_width="40em"),
        )
        self.answer = ipywidgets.HTML()
        self.slider.observe(lambda _: self._show(), names="value")
        self._show()
        self.box = ipywidgets.VBox([self.slider, self.answer])

    @property
    def table(self) -> Table:
        """A row for every line at which it may have died."""
        return Table(
            {"died after line": s.line, "record": signed(s.record), "next": s.next, "why": s.why}
            for s in self.steps
        )

    def _show(self) -> None:
        step = self.steps[self.slider.value]
        self.answer.value = _page([row for row in self.rows if row.line <= step.line], step)

    def __repr__(self) -> str:
        return repr(self.table)

    def _ipython_display_(self) -> None:
        if "LAI_ANSWER" not in os.environ:
            display(self.box)  # type: ignore[no-untyped-call]
        display(self.table)  # type: ignore[no-untyped-call]


def what_if(session: Session | Path, tools: Sequence[Tool]) -> WhatIf:
    """For each line of a session: what a new process would do if this one had died after it.

    Nothing is executed or written. ``tools`` are those the next process would have.
    """
    contents = session if isinstance(session, Session) else Session.read(session)
    return WhatIf(contents, tools)


def _step(session: Session, tools: Sequence[Tool], line: int, words: Mapping[int, str]) -> Step:
    kept = [n for n, place in enumerate(session.lines) if place <= line]
    records = [session.records[n] for n in kept]
    lines = [session.lines[n] for n in kept]
    lost = [place for place in session.lost_lines if place <= line]
    history = History.of(records, lines, lost)
    action = decide(history, tools)
    known = {record.get("line") for record in records if record["type"] == "repair"}
    unread = [str(place) for place in lost if place not in known]
    halted = unread and not isinstance(action, CallModel | Done)
    halt = f"; line {', '.join(unread)} must be acknowledged first" if halted else ""
    record = visible(words.get(line, "(nothing yet)"))
    return Step(line, record, action, _why(history, tools, action) + halt)


def _why(history: History, tools: Sequence[Tool], action: Action) -> str:
    """The row of the policy table behind an action, or what stands before the table."""
    call = history.ledger.first_open()
    if call is None:
        if isinstance(action, CallModel):
            return "no call is open, and the model has not answered"
        return (
            "the last message is a final answer" if history.view.final else "nobody asked anything"
        )
    problem = next(filter(None, (conflict(call, e) for e in history.ledger.attempts(call))), None)
    if problem:
        return f"the ledger and the call differ: {visible(problem)}"
    tool = find(tools, call.name)
    promise = tool.effect if tool else Effect.OPAQUE
    where, _ = standing(call, tool, history)
    row = f"{where} × {promise} → {POLICY[where][promise]}"
    refusal = refusal_of(call, tool, tools)
    return f"{row}; but it cannot run: {visible(refusal)}" if refusal else row


_TEXT = "margin:2px 0;color:inherit;background:none;white-space:pre-wrap;line-height:1.35"


def _page(seen: Sequence[Row], step: Step) -> str:
    """The last records of the beginning, what comes next, and why, as HTML."""
    told = [f"{row.line:>3}  {signed(visible(row.who or row.type))}" for row in seen[-SHOWN:]]
    earlier = len(seen) - SHOWN
    above = [f"     … {earlier} earlier"] if earlier > 0 else []
    lines = "\n".join([*above, *told]) or "     (the file is empty)"
    parts = [
        f"<pre style='{_TEXT}'>{html.escape(lines)}</pre>",
        f"<div style='{_TEXT}'><b>next:</b> {html.escape(step.next)}</div>",
        f"<div style='{_TEXT}'><b>why:</b> {html.escape(step.why)}</div>",
    ]
    return "\n".join(parts)
