"""What happens next: one pure function over the log, and the policy table behind it.

A restart is not a special case. The loop asks ``decide`` after every record, and a
process that died simply asks again with a longer log.

Rules that live here and nowhere else:

1. ``POLICY`` decides by where the call stands and by the tool's promise, never by the
   status alone: the same ``unknown`` is retried, looked up or put to a person.
2. Before any row of the table, the ledger must fit the call. A conflict runs nothing
   and reuses nothing.
3. ``running`` in the log means interrupted: the log has one writer, and that writer
   never leaves an attempt without an outcome. This rests on the session's lock.
4. Calls are taken in their order, one at a time, and no model is called meanwhile.
5. What cannot be run at all (no such tool, broken arguments, a reply cut short) gets one
   plain result and leaves no ledger line.

This module reaches no file, process, clock or random source.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from lai.actions import (
    Action,
    Ask,
    AskVerdict,
    Attempt,
    CallModel,
    Done,
    LookUp,
    Publish,
    Settle,
)
from lai.budget import Budget
from lai.calls import ArgumentsError, Call, parse_arguments
from lai.compaction import planned
from lai.executions import Execution
from lai.history import History
from lai.ledger import conflict
from lai.receipts import conflicting, receipt, refused
from lai.records import Status
from lai.tools import Effect, Tool, find


class Standing(StrEnum):
    """Where a call stands: the rows of the policy table."""

    NEW = "no attempt"
    APPROVED = "approved by this process"
    LEFT_APPROVED = "approved earlier, never started"
    LEFT_RETRY = "a retry approved earlier, never started"
    LEFT_IN_DOUBT = "approved earlier, then a line was lost"
    RUNNING = "running, so interrupted"
    UNKNOWN = "unknown, attempts left"
    UNDECIDED = "unknown, nothing left to try"
    ABSENT = "the authority says it did not happen"
    NOT_HAPPENED = "a person says it did not happen"
    REJECTED = "rejected"
    CONCLUDED = "succeeded or failed"


class Move(StrEnum):
    """The cells of the policy table."""

    ASK = "ask"
    ATTEMPT = "attempt"
    SETTLE = "settle as unknown"
    LOOK_UP = "look up"
    VERDICT = "ask for a verdict"
    PUBLISH = "publish"


def _row(*moves: Move) -> Mapping[Effect, Move]:
    return MappingProxyType(dict(zip(Effect, moves, strict=True)))


_ask, _attempt, _settle, _look_up, _verdict, _publish = Move
POLICY: Mapping[Standing, Mapping[Effect, Move]] = MappingProxyType(
    {
        #                           read-only  idempotent keyed     queryable  opaque
        Standing.NEW: _row(_attempt, _ask, _ask, _ask, _ask),
        Standing.APPROVED: _row(_attempt, _attempt, _attempt, _attempt, _attempt),
        Standing.LEFT_APPROVED: _row(_attempt, _ask, _ask, _ask, _ask),
        Standing.LEFT_RETRY: _row(_attempt, _attempt, _attempt, _ask, _ask),
        Standing.LEFT_IN_DOUBT: _row(_attempt, _ask, _settle, _settle, _settle),
        Standing.RUNNING: _row(_settle, _settle, _settle, _settle, _settle),
        Standing.UNKNOWN: _row(_attempt, _attempt, _attempt, _look_up, _verdict),
        Standing.UNDECIDED: _row(_attempt, _verdict, _verdict, _verdict, _verdict),
        Standing.ABSENT: _row(_attempt, _ask, _ask, _attempt, _ask),
        Standing.NOT_HAPPENED: _row(_attempt, _ask, _ask, _ask, _ask),
        Standing.REJECTED: _row(_publish, _publish, _publish, _publish, _publish),
        Standing.CONCLUDED: _row(_publish, _publish, _publish, _publish, _publish),
    }
)

# Details of an `unknown` after which trying again would be somebody's guess.
_STOPPED = (("cause", "interrupt"), ("target", "moved"), ("key", "expired"))


def decide(history: History, tools: Sequence[Tool], budget: Budget | None = None) -> Action:
    """The single next action. Pure: the same history, tools and budget give the same answer."""
    call = history.ledger.first_open()
    if call is not None:
        return _next_for(call, find(tools, call.name), tools, history)
    final = history.view.final
    if final is not None:
        return Done(final)
    return (planned(history, budget) if budget else None) or CallModel()


def standing(call: Call, tool: Tool | None, history: History) -> tuple[Standing, Execution | None]:
    """Where a call stands, and the attempt that says so."""
    attempts = history.ledger.attempts(call)
    concluded = [e for e in attempts if e.status in (Status.SUCCEEDED, Status.FAILED)]
    if not attempts:
        return Standing.NEW, None
    if concluded:
        return Standing.CONCLUDED, concluded[-1]
    last = attempts[-1]
    match last.status:
        case Status.APPROVED:
            return _approved(last, history)
        case Status.RUNNING:
            return Standing.RUNNING, last
        case Status.REJECTED:
            doubtful = [e for e in attempts if e.unresolved]
            return (Standing.UNDECIDED, doubtful[-1]) if doubtful else (Standing.REJECTED, last)
        case _:
            return _unknown(last, attempts, tool), last


def _approved(last: Execution, history: History) -> tuple[Standing, Execution | None]:
    origin = history.ledger.executions.get(last.details.get("approval_of", ""))
    if origin is not None and "verdict" in origin.details:
        return Standing.NOT_HAPPENED, origin
    if origin is not None and _stopped(origin):
        return Standing.UNDECIDED, origin
    if last.line > history.opened_at:
        return Standing.APPROVED, last
    if history.ledger.lost_since(last.line):
        return Standing.LEFT_IN_DOUBT, last  # the lost line may have started it
    return (Standing.LEFT_APPROVED if origin is None else Standing.LEFT_RETRY), last


def _unknown(last: Execution, attempts: list[Execution], tool: Tool | None) -> Standing:
    if last.details.get("verdict"):
        return Standing.NOT_HAPPENED
    granted = sum("verdict" in e.details for e in attempts)
    allowed = (tool.max_attempts if tool else 1) + granted
    if _stopped(last) or sum(e.started for e in attempts) >= allowed:
        return Standing.UNDECIDED
    match last.details.get("lookup"):
        case None:
            return Standing.UNKNOWN
        case "absent":
            return Standing.ABSENT
        case _:
            return Standing.UNDECIDED


def _stopped(execution: Execution) -> bool:
    return any(execution.details.get(name) == value for name, value in _STOPPED)


def _next_for(call: Call, tool: Tool | None, tools: Sequence[Tool], history: History) -> Action:
    attempts = history.ledger.attempts(call)
    problem = next(filter(None, (conflict(call, e) for e in attempts)), None)
    if problem is not None:
        return Publish(call, conflicting(call, problem, attempts))
    where, execution = standing(call, tool, history)
    move = POLICY[where][tool.effect if tool else Effect.OPAQUE]
    wants_to_run = move in (Move.ASK, Move.ATTEMPT, Move.LOOK_UP)
    refusal = refusal_of(call, tool, tools) if wants_to_run else None
    if refusal:
        doubtful = [attempt for attempt in attempts if attempt.unresolved]
        if not doubtful:
            return Publish(call, refused(refusal))
        move, execution = Move.VERDICT, doubtful[-1]
    return _action(move, where, call, execution, history)


def _action(
    move: Move, where: Standing, call: Call, execution: Execution | None, history: History
) -> Action:
    if execution is None:
        caution = _LOST if history.ledger.lost_since(call.line) else ""
        return Ask(call, caution=caution) if move is Move.ASK else Attempt(call)
    match move:
        case Move.ASK:
            return Ask(call, execution, _caution(where, execution, history))
        case Move.ATTEMPT if execution.status is Status.APPROVED:
            return Attempt(call, approved=execution)
        case Move.ATTEMPT:
            return Attempt(call, retry_of=execution)
        case Move.SETTLE:
            return Settle(call, execution)
        case Move.LOOK_UP:
            return LookUp(call, execution)
        case Move.VERDICT if execution.id not in history.declined:
            return AskVerdict(call, execution)
        case Move.VERDICT | Move.PUBLISH:
            return Publish(call, receipt(execution, doubt_about(call, history)))
        case _:
            assert_never(move)


_LOST = "a line of the session after this call cannot be read: it may have run already"


def _caution(where: Standing, execution: Execution, history: History) -> str:
    if where is Standing.NOT_HAPPENED:
        return f"an earlier attempt did not happen: {execution.details.get('evidence', '')}"
    if history.ledger.lost_since(execution.line):
        return _LOST
    return "it was approved before and never started"


def doubt_about(call: Call, history: History) -> str:
    """Why a call may have acted although its last attempt did not; empty if it cannot have."""
    doubtful = [e.id for e in history.ledger.attempts(call) if e.unresolved]
    if doubtful:
        return f"attempt {doubtful[-1]} may have happened"
    return _LOST if history.ledger.lost_since(call.line) else ""


def refusal_of(call: Call, tool: Tool | None, tools: Sequence[Tool]) -> str | None:
    """Why this call cannot be run at all, in words for the model; None if it can."""
    if call.cut:
        return "The reply was cut at its length limit, so these arguments may be incomplete"
    if tool is None:
        return f"There is no tool {call.name!r}; the tools are {', '.join(t.name for t in tools)}"
    try:
        tool.validate(parse_arguments(call.text))
    except ArgumentsError as error:
        return f"The arguments of {call.name} cannot be used: {error}"
    return None
