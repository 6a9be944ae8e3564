"""``create_report`` and ``read_report``: a remote service as tools of the agent.

The same loop, the same ledger. The operation's record stands beside the ledger and knows
more: what was sent, under which key, and whom to ask. A call is one operation, named by the
call's own key, so a second attempt at the call finds the first one's record.

==========================  =======================  ====================================
the operation is            ``run`` says             ``lookup`` says
==========================  =======================  ====================================
succeeded                   the receipt              found
rejected, cancelled         ToolError                found, and failed
planned, or has no record   Unconfirmed              absent: our own record says unsent
anything else               Unconfirmed              inconclusive, with what is missing
==========================  =======================  ====================================

"Absent" is our store's word, never the service's: that one's "not found" is inconclusive.
``read_report`` is the dependent step: it knows only what a stored receipt says.
"""

import time

from lai.operations.records import Operation, State
from lai.operations.references import Unreadable
from lai.operations.shelf import NoSuchOperation
from lai.operations.store import ClaimLost
from lai.operations.work import Worker
from lai.records import JSON
from lai.tools import Answer, Arguments, Effect, Finding, Run, Tool, ToolError, Unconfirmed

CREATE, READ = "create_report", "read_report"
SECONDS = 5.0  # that a look-up may wait for a job that is running


class Report(Arguments):
    """What the service makes a report of."""

    title: str
    lines: list[str]


class Named(Arguments):
    """An operation by its id, as ``create_report`` gave it."""

    operation_id: str


def report_tools(worker: Worker, run_id: str, wait: float = SECONDS) -> tuple[Tool, Tool]:
    """The two tools; ``wait`` is in seconds. ``run_id`` says which agent's run it is."""

    def create(arguments: JSON, run: Run) -> JSON:
        worker.plan(run.key, arguments, run_id=run_id, tool_name=CREATE)
        return _told(worker, _advanced(worker, run.key))

    def lookup(_: JSON, key: str) -> Answer:
        try:
            known = worker.store.get(key)
        except NoSuchOperation:
            return Answer(Finding.ABSENT, "there is no record of it, so nothing was sent")
        if known.state is State.PLANNED and known.sent_at is None:
            return Answer(Finding.ABSENT, "our record says that it was not sent")
        return _answer(worker, _settled(worker, known, wait))

    def read(arguments: JSON, _: Run) -> JSON:
        return {"report": _receipt(worker, worker.store.get(arguments["operation_id"]))}

    return (
        Tool(
            name=CREATE,
            description="Have the report service make a report. Returns its receipt.",
            arguments=Report,
            run=create,
            effect=Effect.QUERYABLE,
            lookup=lookup,
            absent_is_final=True,
        ),
        Tool(
            name=READ,
            description="Read the receipt of a report that create_report has made.",
            arguments=Named,
            run=read,
            effect=Effect.READ_ONLY,
        ),
    )


def _advanced(worker: Worker, operation_id: str) -> Operation:
    try:
        return worker.work_on(operation_id)
    except ClaimLost:  # somebody else is at it; what they find out counts
        return worker.store.get(operation_id)


def _settled(worker: Worker, known: Operation, wait: float) -> Operation:
    """Ask, and go on asking at the times that the record names, for ``wait`` seconds."""
    known = _advanced(worker, known.operation_id)
    end = time.monotonic() + wait
    while known.state is State.UNKNOWN and known.last_said == "running":
        due = max(0.0, (known.next_query_at or 0.0) - worker.store.now())
        if time.monotonic() + due > end:
            break
        time.sleep(due)
        known = _advanced(worker, known.operation_id)
    return known


def _told(worker: Worker, known: Operation) -> JSON:
    match known.state:
        case State.SUCCEEDED:
            return {"operation_id": known.operation_id, "report": _receipt(worker, known)}
        case State.REJECTED | State.CANCELLED:
            raise ToolError(_story(worker, known), operation_id=known.operation_id)
        case _:
            raise Unconfirmed(_story(worker, known), operation_id=known.operation_id)


def _answer(worker: Worker, known: Operation) -> Answer:
    said, result = _story(worker, known), {"operation_id": known.operation_id}
    match known.state:
        case State.SUCCEEDED:
            return Answer(Finding.FOUND, said, result | {"report": _receipt(worker, known)})
        case State.REJECTED | State.CANCELLED:
            return Answer(Finding.FOUND, said, result, succeeded=False)
        case _:
            return Answer(Finding.INCONCLUSIVE, said)


def _receipt(worker: Worker, known: Operation) -> JSON:
    try:
        found = worker.receipt(known)
    except Unreadable as error:
        raise ToolError(f"{known.operation_id}: its receipt cannot be read: {error}") from error
    if found is None:
        raise ToolError(f"{known.operation_id} is {known.state}: there is no receipt to read")
    return found


def _story(worker: Worker, known: Operation) -> str:
    """The state, and what was heard last."""
    heard = worker.store.events(known.operation_id)[-1]["evidence"]
    missing = f"; missing: {known.review_reason}" if known.review_reason else ""
    return f"{known.operation_id} is {known.state}: {heard}{missing}"
