"""What a person is told about an operation that waits for them, and what they may decide.

Rules that live here and nowhere else:

1. The person sees what is missing before what can be done; no answer is suggested.
2. A decision has evidence in words and a name. "It happened" makes those words the receipt.
3. Sending again keeps the key, and is allowed only after the risk was read.

It does not send: a permitted resend is done by whoever works on the operation next.
"""

from dataclasses import dataclass
from enum import StrEnum

from lai.operations.records import Operation, OperationError, State
from lai.operations.references import References
from lai.operations.store import Store
from lai.operations.work import PATIENCE


class Outcome(StrEnum):
    """What a person may decide."""

    HAPPENED = "happened"  # seen elsewhere: the evidence is the receipt
    NOT_HAPPENED = "not_happened"  # for certain, and it will not be done
    ASK_AGAIN = "ask_again"  # the service may know more by now
    SEND_AGAIN = "send_again"  # on the person's own risk, under the same key
    ABANDONED = "abandoned"  # nobody will find out
    CANCELLED = "cancelled"  # never sent, and not wanted any more


_STATES = {
    Outcome.HAPPENED: State.SUCCEEDED,
    Outcome.NOT_HAPPENED: State.REJECTED,
    Outcome.ASK_AGAIN: State.UNKNOWN,
    Outcome.SEND_AGAIN: State.PLANNED,
    Outcome.ABANDONED: State.ABANDONED,
    Outcome.CANCELLED: State.CANCELLED,
}
RISK = (
    "The first request may have been acted on. If the service does not honour the key, or has "
    "forgotten it, sending again does the action twice."
)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word on one operation."""

    outcome: Outcome
    evidence: str
    by: str
    risk_read: bool = False


def question(operation: Operation) -> list[str]:
    """What is known and what is missing, in lines for a person."""
    known = operation
    return [
        f"{known.operation_id}: result not confirmed",
        f"  missing  {known.review_reason or 'nothing: it does not wait for a person'}",
        f"  sent     {known.attempt} attempt(s), key {known.idempotency_key!r} in {known.scope!r}",
        f"  job      {known.remote_job_id or 'no number came back, which does not mean no job'}",
        f"  asked    {known.query_count} time(s); its last word: {known.last_said or 'none'}",
        f"  input    {known.input_ref}",
    ]


def resolve(
    store: Store, references: References, operation: Operation, decision: Decision
) -> Operation:
    """Record a person's decision about the operation as they saw it.

    Raises :class:`OperationError` without evidence, without a needed look at the risk,
    for an edge that persons do not have, and if the operation has changed since.
    """
    to = _STATES[decision.outcome]
    if decision.outcome is Outcome.SEND_AGAIN and not decision.risk_read:
        raise OperationError(f"{operation.operation_id}: {RISK} Say that you have read this.")
    if decision.outcome is Outcome.ASK_AGAIN and operation.sent_at is None:
        raise OperationError(
            f"{operation.operation_id} was never sent, so there is nothing to ask about: "
            "decide send_again or cancelled"
        )
    values: dict[str, object] = {}
    match decision.outcome:
        case Outcome.HAPPENED:
            receipt = {"evidence": decision.evidence, "by": decision.by}
            about = {"idempotency_key": operation.idempotency_key}
            kept = references.put("receipts", receipt | about)
            values = {"result_ref": kept.ref, "result_sha256": kept.sha256}
        case Outcome.ASK_AGAIN | Outcome.SEND_AGAIN:
            again = store.now() + PATIENCE
            values = {"deadline_at": again, "next_query_at": None, "query_count": 0}
            values |= {"last_said": None}  # a contradiction was seen; it is not one for ever
        case Outcome.NOT_HAPPENED | Outcome.ABANDONED | Outcome.CANCELLED:
            pass
    return store.decide(operation, to, decision.evidence, decision.by, **values)
