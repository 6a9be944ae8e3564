"""What the model is asked for, and what of its answers is recorded: a message, a summary.

Rules that live here and nowhere else:

1. A request that cannot fit the window is not sent; the error says what takes the room.
2. An answer is recorded with what the provider counted, and with our own estimate of the
   request beside it: together they calibrate what comes after.
3. An id that is empty, or was used before, would pair nothing: such a call gets a fresh
   one. Where a part of the log is unread, nobody can say which ids are new.
4. A summary that is refused leaves no trace in the file; the cause is kept in the history
   for people to see.
"""

from typing import TYPE_CHECKING

from lai.actions import Compact
from lai.budget import Budget
from lai.context import View
from lai.journal import Journal
from lai.outcome import plain, words
from lai.records import JSON, LaiError, Message, RecordError, malformed, message_record
from lai.spending import largest
from lai.summary import CompactionRefused, judged, request, smaller
from lai.tokens import estimate_message
from lai.usage import MOST
from lai.wire import text_of

if TYPE_CHECKING:
    from lai.models import Model
    from lai.replies import Reply


class EmptyReply(LaiError):
    """The model's message says nothing and calls nothing. Nothing was recorded."""


class ContextFull(LaiError):
    """The next request does not fit the window. Nothing was sent; the session goes on."""


def answer(
    journal: Journal, model: "Model", system: str, schemas: list[JSON], budget: Budget | None
) -> None:
    """Send the prompt view and record the assistant message that comes back."""
    view = journal.history.view
    if budget and _surely(view, budget) > budget.window:
        raise ContextFull(_no_room(journal, budget))
    head: list[Message] = [{"role": "system", "content": system}] if system else []
    messages = [*head, *view.messages()]
    reply = model(messages, schemas)
    message = _recordable(journal, reply)
    details: JSON = {}
    if message.get("tool_calls") and reply.finish_reason == "length":
        details["finish_reason"] = "length"
    if budget and reply.usage:
        estimated = budget.fixed + view.estimated
        details["usage"] = {**plain(reply.usage), "estimated_tokens": estimated}
    journal.append(message_record(message, **details))


def _surely(view: View, budget: Budget) -> float:
    """The tokens of the next request, a count beyond belief left aside."""
    return min(view.tokens(budget.fixed), MOST * (budget.fixed + view.estimated))


def _recordable(journal: Journal, reply: "Reply") -> Message:
    """The message of a reply as it may stand in the log."""
    message = plain(reply.message)
    problem = malformed(message_record(message))
    if problem:
        raise RecordError(f"the model's message cannot be recorded: {problem}")
    message["role"] = "assistant"
    calls = message.get("tool_calls") or []
    if not calls and not text_of(message):
        raise EmptyReply(
            "the model answered with neither text nor a tool call; the turn is kept: try "
            "again, or choose another model"
        )
    known, taken = journal.history.ledger.calls, set()
    for raw in calls:
        raw["id"] = str(raw.get("id") or "")
        doubtful = journal.history.partial or raw["id"] in known or raw["id"] in taken
        if not raw["id"] or doubtful:
            raw["id"] = journal.new_id("call")
        taken.add(raw["id"])
    return message


def compact(journal: Journal, model: "Model", action: Compact, budget: Budget) -> None:
    """Ask for a summary and record the compaction. Raises :class:`CompactionRefused`."""
    try:
        summary, after = _summary(journal, model, action, budget)
    except CompactionRefused as refusal:
        journal.history.compaction_tried = True
        journal.history.refusals.append(str(refusal))
        raise
    offset_of, view = journal.session.offset_of, journal.history.view
    record: JSON = {
        "type": "compaction",
        "summary": summary,
        "first_kept": action.first_kept,
        "first_kept_offset": offset_of(action.first_kept),
        "pinned": list(action.pinned),
        "tokens_before": action.tokens,
        "tokens_after": after,
    }
    if view.scale != 1:
        record["scale"] = view.scale
    if action.resume < action.first_kept:
        record |= {"resume_line": action.resume, "resume_offset": offset_of(action.resume)}
    journal.append(record)


def _summary(journal: Journal, model: "Model", action: Compact, budget: Budget) -> tuple[str, int]:
    view = journal.history.view
    messages = request(view, action, budget)
    if view.scale * sum(map(estimate_message, messages)) > budget.window:
        raise CompactionRefused("what is to be summarised does not fit the window either")
    try:
        reply = model(messages, [])
        message, reason = plain(reply.message), reply.finish_reason
    except Exception as error:  # whatever stops a summary, the conversation goes on
        raise CompactionRefused(f"no summary was made: {words(error)}") from error
    summary = judged(message, reason)
    return summary, smaller(view, action, summary, budget)


def _no_room(journal: Journal, budget: Budget) -> str:
    view = journal.history.view
    refused = journal.history.refusals[-1:] if journal.history.compaction_tried else []
    tried = "".join(f" A compaction was tried: {cause}." for cause in refused)
    return (
        f"the next request takes about {view.tokens(budget.fixed):,} tokens and the context window "
        f"holds {budget.window:,}; {largest(view, budget)}.{tried} Nothing was sent, and the turn "
        "is kept. Set a bigger window (AGENT_CONTEXT_WINDOW), or close the turn with abandon() and "
        "go on with a shorter message or a compaction (/compact)."
    )
