"""Where a conversation is cut, and what stays word for word.

Nothing leaves the file: a compaction is one more record, and only the prompt view begins
behind it.

Rules that live here and nowhere else:

1. It is planned when the next request is above the budget's limit and no call is open, and
   it is tried once for each answer of the model.
2. The log is cut where every call is answered: at a user message if one is near enough,
   inside a long turn if not. The last message always stays.
3. Word for word stay the system messages, the request that is being worked on, and every
   attempt whose outcome nobody knows.

It does not ask the model and it writes nothing. What is told to the model is in
``summary``.
"""

import json

from lai.actions import Compact
from lai.budget import Budget
from lai.context import Entry, View
from lai.executions import Execution
from lai.history import History
from lai.records import Message
from lai.tokens import estimate, estimate_message
from lai.wire import SYSTEM_ROLES, UNKNOWN_HEADER

NEARLY_FULL, SLACK = 0.9, 0.1  # of the window


def planned(history: History, budget: Budget) -> Compact | None:
    """The compaction that the next model call needs first; None if none is needed or possible.

    Where it would hardly help for long, it waits until the window is nearly full.
    """
    tokens = history.view.tokens(budget.fixed)
    if history.compaction_tried or tokens <= budget.limit:
        return None
    action = plan(history, budget)
    if action is None or tokens > NEARLY_FULL * budget.window:
        return action
    return (
        action
        if _expected(history.view, action, budget) <= budget.limit - SLACK * budget.window
        else None
    )


def plan(history: History, budget: Budget, share: float = 1.0) -> Compact | None:
    """Where to cut now, whatever the size; None while a call is open or nothing can go.

    The newest messages keep their part of the window, and at most ``share`` of what is there.
    """
    view = history.view
    if history.ledger.first_open() is not None:
        return None
    doubtful = history.ledger.in_doubt()
    pinned = sum(map(estimate, map(_quoted, doubtful))) + sum(map(estimate_message, _lasting(view)))
    room = min(budget.kept(pinned * view.scale) / view.scale, share * view.estimated)
    first = _cut(view, int(room))
    if first is None:
        return None
    cut_off = [e for e in doubtful if e.call and e.call.line < first.line]
    untold = [e.call.line for e in history.ledger.news if e.call]
    return Compact(
        first_kept=first.line,
        resume=min([first.line, *untold, *(e.call.line for e in cut_off if e.call)]),
        pinned=(*map(_quoted, cut_off), *_lasting(view, first)),
        tokens=view.tokens(budget.fixed),
    )


def _expected(view: View, action: Compact, budget: Budget) -> float:
    """The tokens of the next request, if the summary is as long as it should be."""
    pinned = [estimate(p) if isinstance(p, str) else estimate_message(p) for p in action.pinned]
    kept = [sum(tokens) for e, tokens in view.newest_first() if e.line >= action.first_kept]
    return view.scale * (budget.fixed + sum(pinned) + sum(kept)) + budget.summary


def _cut(view: View, room: int) -> Entry | None:
    """The first entry to keep: whole turns within ``room``, else whole batches, else the last."""
    kept = 0
    turn = batch = last = None
    entries = view.entries
    for place, (entry, tokens) in enumerate(view.newest_first(), start=1):
        kept += sum(tokens)
        before = entries[-place - 1] if place < len(entries) else None
        if kept > room and last is not None:
            break
        # Two records may stand on one line, and a line is kept whole or not at all.
        if before is None or not entry.clean or entry.line < 1 or before.line == entry.line:
            continue
        last = entry
        if kept <= room:
            batch = entry
            turn = entry if entry.message["role"] == "user" else turn
    return (turn or batch or last) if kept > room else None


def _lasting(view: View, first: Entry | None = None) -> list[Message]:
    """The messages that stay messages: those before the cut at ``first``, or all there are."""
    end = first.line if first else view.entries[-1].line if view.entries else 0
    gone = [*view.pinned, *(e.message for e in view.entries if e.line < end)]
    lasting = [message for message in gone if message["role"] in SYSTEM_ROLES]
    asked = [message for message in gone if message["role"] == "user"]
    answered = any(e.message["role"] == "user" for e in view.entries if e.line >= end)
    active = asked[-1:] if view.final is None and not answered else []
    return [*lasting, *active]


def _quoted(execution: Execution) -> str:
    """An attempt of unknown outcome as a text that outlives its messages."""
    arguments = execution.call.text if execution.call else ""
    result = json.dumps(execution.result or {}, ensure_ascii=False)
    return (
        f"{UNKNOWN_HEADER} {execution.tool_name}, call {execution.call_id}, attempt "
        f"{execution.id}: it may have happened. Do not repeat it before checking.\n"
        f"arguments: {arguments}\nresult: {result}"
    )
