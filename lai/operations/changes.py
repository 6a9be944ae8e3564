"""What a step writes into the record: the other half of the policy, as pure as the first.

``policy`` names the step; here stands which fields it changes, in one place, so that a
store, a test and a reader find the same.

It stores nothing, and it does not know whether the claim still holds.
"""

from dataclasses import dataclass, field

from lai.operations.answers import Answer, Contract
from lai.operations.policy import (
    Cancel,
    PersistReceipt,
    PollLater,
    RecordRejection,
    RequireReview,
    Step,
)
from lai.operations.records import Operation, State
from lai.records import JSON


@dataclass(frozen=True, slots=True)
class Change:
    """A new state, why, and the fields that go with it."""

    to: State
    evidence: str
    values: JSON = field(default_factory=dict)


def crossing(record: Operation, contract: Contract, now: float) -> Change:
    """Before anything is sent: what is promised in seconds becomes points in time.

    The key grows old from the first send; "not found" becomes final after the last.
    """
    expires, final = record.key_expires_at, None
    if record.sent_at is None and contract.retention is not None:
        expires = now + contract.retention - contract.margin
    if contract.absent_final_after is not None:
        final = now + contract.absent_final_after + contract.margin
    values: JSON = {
        "attempt": record.attempt + 1,
        "sent_at": now if record.sent_at is None else record.sent_at,
        "key_expires_at": expires,
        "absent_final_at": final,
    }
    return Change(State.PENDING, "about to send", values)


def following(record: Operation, step: Step, answer: Answer | None, planned: Operation) -> Change:
    """What ``step`` writes; ``planned`` is the record before the sending boundary.

    A receipt's own reference is added by whoever stores it.
    """
    heard, learnt = "nobody was asked", {}
    if answer is not None:
        heard = answer.evidence
        learnt["remote_job_id"] = answer.job_id or record.remote_job_id
        learnt["last_said"] = answer.said or record.last_said
    match step:
        case PersistReceipt():
            return Change(State.SUCCEEDED, heard, learnt)
        case RecordRejection():
            return Change(State.REJECTED, heard, learnt)
        case PollLater(at, State.PLANNED):  # no byte left: as before, but the attempt is counted
            times = ("sent_at", "key_expires_at", "absent_final_at")
            unsent = {name: getattr(planned, name) for name in times}
            return Change(State.PLANNED, heard, unsent | _again(record, at))
        case PollLater(at, state):
            return Change(state, heard, learnt | _again(record, at))
        case RequireReview(missing):
            return Change(State.REVIEW_REQUIRED, heard, learnt | {"review_reason": missing})
        case Cancel():
            return Change(State.CANCELLED, "its time ran out before anything was sent")
        case _:
            raise AssertionError(f"{step} is done, not written down")


def _again(record: Operation, at: float) -> JSON:
    return {"next_query_at": at, "query_count": record.query_count + 1}
