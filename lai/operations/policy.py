"""What may be done about an operation: two pure functions of the record, the answer, the time.

``recovery_action`` is the article's, with its four answers. It knows no time.
``schedule`` is the scheduler's: it adds ages and deadlines, and says exactly one step.

Rules that live here and nowhere else:

1. ``Send`` comes from ``planned`` alone. Nothing here sends from ``pending`` or
   ``unknown``: no lease that ran out, no "not found", no timeout is a permission.
2. Evidence counts at any age. A receipt that arrives after the deadline is a receipt.
3. "Not found" ends an operation only between the two times that the contract gives: after
   the service must have it in view, before it may have forgotten it.
4. Without evidence the next question has a time, and the last one a deadline. After that
   the operation waits for a person, and no scheduler touches it.

It does not ask, send or store anything.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from lai.operations.answers import Answer, Remote
from lai.operations.records import Operation, State

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0  # seconds between two questions; doubled each time


class RecoveryAction(StrEnum):
    """The article's four answers."""

    REUSE_RESULT = "reuse_result"
    PERSIST_RECEIPT = "persist_receipt"
    POLL_LATER = "poll_later"
    REVIEW_REQUIRED = "review_required"


def recovery_action(record: Operation, remote_status: str | None) -> RecoveryAction:
    """What recovery is to do, by the article's rule; anything it does not name is reviewed."""
    if record.state is State.SUCCEEDED:
        return RecoveryAction.REUSE_RESULT
    match remote_status:
        case Remote.COMPLETED:
            return RecoveryAction.PERSIST_RECEIPT
        case Remote.RUNNING:
            return RecoveryAction.POLL_LATER
        case _:
            return RecoveryAction.REVIEW_REQUIRED


@dataclass(frozen=True, slots=True)
class Send:
    """Cross the sending boundary, for the first time or on a person's word."""


@dataclass(frozen=True, slots=True)
class Query:
    """Ask the service about this operation."""


@dataclass(frozen=True, slots=True)
class PersistReceipt:
    """Store the receipt, then say ``succeeded``."""


@dataclass(frozen=True, slots=True)
class RecordRejection:
    """Record that the service has not done it and never will."""


@dataclass(frozen=True, slots=True)
class PollLater:
    """Nothing to do until ``at``, seconds since the epoch. ``state`` is what is known."""

    at: float
    state: State


@dataclass(frozen=True, slots=True)
class RequireReview:
    """Stop, and tell a person which evidence is missing."""

    missing: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """Its time ran out before anything was sent."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Change nothing. ``alarm`` says that the answer contradicts what is recorded."""

    alarm: str = ""


# What a service said before, and an answer that does not agree with it.
_TAKEN_BACK = {
    ("completed", Remote.RUNNING),
    ("completed", Remote.FAILED),
    ("completed", Remote.NOT_FOUND),
    ("running", Remote.NOT_FOUND),
    ("failed", Remote.RUNNING),
    ("failed", Remote.COMPLETED),
}

Step = Send | Query | PersistReceipt | RecordRejection | PollLater | RequireReview | Cancel | Keep


def schedule(record: Operation, answer: Answer | None, now: float) -> Step:
    """The next step for ``record``; ``answer`` None: nobody was asked yet."""
    match record.state:
        case State.PLANNED:
            return _start(record, now)
        case State.PENDING | State.UNKNOWN:
            return Query() if answer is None else _weigh(record, answer, now)
        case _:  # it has ended, or it waits for a person
            return Keep(_news(record, answer))


def _start(record: Operation, now: float) -> Step:
    if now >= record.deadline_at:
        return Cancel() if record.sent_at is None else RequireReview(_overdue("a permitted resend"))
    if _passed(record.key_expires_at, now):
        return RequireReview("the service may have forgotten the key: sent now, it may act again")
    return Send()


def _weigh(record: Operation, answer: Answer, now: float) -> Step:
    if (record.last_said, answer.status) in _TAKEN_BACK:
        return RequireReview(
            f"which answer is true: the service said {record.last_said}, now {answer.status}"
        )
    match answer.status:
        case Remote.COMPLETED:
            return PersistReceipt()
        # A refusal is about one request; a failed job is about all of them only under one key.
        case Remote.FAILED if record.attempt > 1 and not (answer.said and record.key_expires_at):
            return RequireReview("what became of the first request; only the last one failed")
        case Remote.FAILED:
            return RecordRejection()
        case Remote.MISMATCH:
            return RequireReview(f"an answer about this operation; got {answer.evidence}")
        case Remote.NOT_SENT if record.state is State.PENDING:
            return PollLater(_next(record, answer, now), State.PLANNED)
        case Remote.NOT_FOUND if _passed(record.absent_final_at, now) and not _passed(
            record.key_expires_at, now
        ):
            return RecordRejection()
        case Remote.RUNNING | Remote.NOT_FOUND | Remote.BUSY | Remote.NO_ANSWER | Remote.NOT_SENT:
            return _ask_again(record, answer, now)
        case _:
            assert_never(answer.status)


def _ask_again(record: Operation, answer: Answer, now: float) -> Step:
    if now >= record.deadline_at:
        return RequireReview(_overdue(f"an outcome: the last answer was {answer.status}"))
    if answer.status is not Remote.RUNNING and _passed(record.key_expires_at, now):
        return RequireReview("an outcome; the service may have forgotten the key since")
    return PollLater(_next(record, answer, now), State.UNKNOWN)


def _next(record: Operation, answer: Answer, now: float) -> float:
    """When to ask again: as the service wishes or doubled, and once more at the deadline."""
    doubled = FIRST_WAIT * 2.0 ** min(record.query_count, 30)
    wait = max(min(doubled, LONGEST_WAIT), answer.retry_after or 0.0)
    return min(now + wait, max(record.deadline_at, now + FIRST_WAIT))


def _passed(moment: float | None, now: float) -> bool:
    return moment is not None and now >= moment


def _overdue(what: str) -> str:
    return f"{what}, and the time allowed for it is over"


def _news(record: Operation, answer: Answer | None) -> str:
    """What an answer says against a record that nobody works on any more; empty if nothing."""
    if answer is None:
        return ""
    against = {
        State.SUCCEEDED: {Remote.FAILED, Remote.MISMATCH},
        State.REJECTED: {Remote.COMPLETED, Remote.RUNNING},
        State.CANCELLED: {Remote.COMPLETED, Remote.RUNNING, Remote.FAILED},
        State.ABANDONED: {Remote.COMPLETED},
        State.REVIEW_REQUIRED: {Remote.COMPLETED, Remote.FAILED},
    }
    another = answer.job_id is not None and answer.job_id != record.remote_job_id
    second = record.state is State.SUCCEEDED and answer.status is Remote.COMPLETED and another
    if second or answer.status in against[record.state]:
        return f"recorded as {record.state}, but the service says: {answer.evidence}"
    return ""
