"""One attempt at a tool call, and how each record changes what is known about it.

Three identities meet here and are never mixed (reliability article, section 3):
``tool_call_id`` says which request of the model a result answers, ``execution_id`` which
real attempt may have acted, ``idempotency_key`` which business action is meant.

It does not know which change is legal (``ledger.LEGAL``) or what should follow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lai.calls import Call
from lai.records import EXECUTION_KEYS, JSON, Outcome, Record, Status


@dataclass(frozen=True, slots=True)
class Execution:
    """One real attempt at a tool call, as its latest record leaves it.

    ``call`` is None for an attempt that belongs to no call of the log. ``started`` says
    that it reached ``running``: from then on an effect is possible. ``details`` are the
    fields beyond the format's own, earlier ones kept. ``line`` is that latest record's.
    """

    id: str
    call_id: str
    call: Call | None
    status: Status
    tool_name: str | None
    key: str | None
    sha256: str | None
    result: JSON | None
    details: Mapping[str, Any]
    started: bool
    line: int

    @property
    def unresolved(self) -> bool:
        """Nobody knows what happened, and no person has said."""
        return self.status is Status.UNKNOWN and "verdict" not in self.details


_STATUS = {str(status): status for status in Status}
_NO_DETAILS: Mapping[str, Any] = MappingProxyType({})
_NOT_STARTED = (Status.APPROVED, Status.REJECTED)


def after(record: Record, line: int, earlier: Execution | None, call: Call | None) -> Execution:
    """The attempt once ``record``, on that line, is read; ``earlier`` is what was known before."""
    status = _STATUS[record["status"]]
    known = earlier.details if earlier else _NO_DETAILS
    added = record.keys() - EXECUTION_KEYS
    if added:
        known = MappingProxyType({**known, **{k: v for k, v in record.items() if k in added}})
    return Execution(
        id=record["execution_id"],
        call_id=record["tool_call_id"],
        call=call,
        status=status,
        tool_name=record.get("tool_name", earlier and earlier.tool_name),
        key=record.get("idempotency_key", earlier and earlier.key),
        sha256=record.get("arguments_sha256", earlier and earlier.sha256),
        result=record.get("result"),
        details=known,
        started=status not in _NOT_STARTED or bool(earlier and earlier.started),
        line=line,
    )


def as_record(execution: Execution) -> Record:
    """What a verdict needs of an attempt's latest record: whose it is, and its result."""
    return {
        "type": "tool_execution",
        "execution_id": execution.id,
        "tool_call_id": execution.call_id,
        "status": str(execution.status),
        "result": execution.result,
    }


def resolved(record: Record, resolution: Record) -> Record:
    """What a ledger record says once a person's verdict is read together with it."""
    verdict = {"verdict": resolution["outcome"], "evidence": str(resolution.get("evidence", ""))}
    if resolution["outcome"] == Outcome.NOT_HAPPENED:
        return {**record, **verdict}
    result = {
        **(record.get("result") or {}),
        "status": str(Status.SUCCEEDED),
        **verdict,
    }
    return {**record, "status": str(Status.SUCCEEDED), "result": result, **verdict}
