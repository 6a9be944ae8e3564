"""One business action at a remote service, as a value: what is known, and what may follow.

A timeout says that an answer is missing. It does not say that nothing was done, so an
operation keeps what a later process needs to find out: its identity, its unchanged input,
and how far it got. ``pending`` is committed before a byte may leave; from then on the
service may have acted, whatever happens to this process.

Rules that live here and nowhere else:

1. ``MAY_FOLLOW`` is the whole transition table, with who may use each edge. An edge that
   is not in it does not exist; nothing leaves a terminal state, and only a person takes an
   operation out of ``review_required``.
2. ``operation_id`` is the business identity and ``idempotency_key`` what the service is
   told; both stay the same for life, like the input and its hash. ``attempt`` counts
   crossings of the sending boundary and identifies nothing.
3. What a service has promised in days or seconds stands in the record as points in time,
   fixed when the first byte may have left. A worker that starts later needs no contract
   to know them.

It knows no database, no network and no clock. Times are seconds since the epoch.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

from lai.records import JSON, LaiError

SCHEMA_VERSION = 1
SENDABLE = re.compile(r"[!-~]{1,255}")  # a key that a header carries unchanged everywhere


class OperationError(LaiError):
    """What went wrong with an operation; it is unchanged."""


class IllegalChange(OperationError):
    """There is no such edge in ``MAY_FOLLOW``, or it is not this one's to use."""


class State(StrEnum):
    """What is known of an operation (the article's five, and three for people)."""

    PLANNED = "planned"  # an intent; not a byte has left
    PENDING = "pending"  # the sending boundary may have been crossed
    UNKNOWN = "unknown"  # it was crossed, and the outcome is open
    SUCCEEDED = "succeeded"  # a receipt is stored
    REJECTED = "rejected"  # the service says for certain that it did not and will not do it
    CANCELLED = "cancelled"  # never sent, and never will be
    REVIEW_REQUIRED = "review_required"  # evidence is missing; only a person goes on
    ABANDONED = "abandoned"  # a person gave up finding out


TERMINAL = frozenset({State.SUCCEEDED, State.REJECTED, State.CANCELLED, State.ABANDONED})
RECOVERABLE = (State.PLANNED, State.PENDING, State.UNKNOWN)  # what a scheduler may claim


class Who(StrEnum):
    """Who changes a record."""

    OWNER = "owner"  # whoever holds the claim
    PERSON = "person"


_OWNER, _PERSON = frozenset({Who.OWNER}), frozenset({Who.PERSON})
_BOTH = _OWNER | _PERSON
_EDGES: dict[State, dict[State, frozenset[Who]]] = {
    State.PLANNED: {
        State.PLANNED: _OWNER,  # not yet: the service could not be reached
        State.PENDING: _OWNER,
        State.CANCELLED: _BOTH,
        State.REVIEW_REQUIRED: _OWNER,
    },
    State.PENDING: {
        State.PLANNED: _OWNER,  # only where the transport proves that no byte left
        State.UNKNOWN: _OWNER,
        State.SUCCEEDED: _OWNER,
        State.REJECTED: _OWNER,
        State.REVIEW_REQUIRED: _OWNER,
    },
    State.UNKNOWN: {
        State.UNKNOWN: _OWNER,
        State.SUCCEEDED: _OWNER,
        State.REJECTED: _OWNER,
        State.REVIEW_REQUIRED: _OWNER,
    },
    State.REVIEW_REQUIRED: {
        State.PLANNED: _PERSON,  # send again, with the risk shown; the key stays
        State.UNKNOWN: _PERSON,  # keep asking
        State.SUCCEEDED: _PERSON,
        State.REJECTED: _PERSON,
        State.ABANDONED: _PERSON,
        State.CANCELLED: _PERSON,  # it waits, and was never sent
    },
}
MAY_FOLLOW: Mapping[State, Mapping[State, frozenset[Who]]] = MappingProxyType(
    {state: MappingProxyType(_EDGES.get(state, {})) for state in State}
)
# The mark ``resume_action``: what whoever finds the record has to do. It does nothing by itself.
RESUME: Mapping[State, str | None] = MappingProxyType(
    {
        State.PLANNED: "send",
        State.PENDING: "query_or_review",
        State.UNKNOWN: "query_or_review",
        State.REVIEW_REQUIRED: "review",
        State.SUCCEEDED: "reuse_result",
        State.REJECTED: None,
        State.CANCELLED: None,
        State.ABANDONED: None,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation as its row has it.

    The first eleven fields are the article's. ``remote_job_id`` None: no number came back,
    which does not say that there is no job. ``resume_action`` is a mark for whoever reads
    the record, not something that was done.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    operation_id: str
    tool_name: str
    tool_version: str
    input_ref: str  # where the input lies; never the input itself
    state: State = State.PLANNED
    attempt: int = 0
    remote_job_id: str | None = None
    result_ref: str | None = None
    resume_action: str | None = None

    input_sha256: str
    scope: str  # account, endpoint and environment in which the key is one action
    idempotency_key: str
    result_sha256: str | None = None
    version: int = 1  # one more with every change
    fence: int = 0  # one more with every claim
    owner: str | None = None
    lease_until: float | None = None
    next_query_at: float | None = None
    query_count: int = 0
    deadline_at: float  # from here on a person, not another question
    sent_at: float | None = None  # when a byte may first have left
    absent_final_at: float | None = None  # from here on "not found" says: never done
    key_expires_at: float | None = None  # from here on the service may take the key as new
    last_said: str | None = None  # the service's own last word, to notice that it takes it back
    review_reason: str | None = None  # which evidence is missing

    def require(self, after: State, who: Who) -> None:
        """Raise :class:`IllegalChange` unless ``who`` may take the operation to ``after``."""
        if who not in MAY_FOLLOW[self.state].get(after, frozenset()):
            raise IllegalChange(
                f"{self.operation_id}: {who} may not take it from {self.state} to {after}"
            )
        if after is State.CANCELLED and self.sent_at is not None:
            raise IllegalChange(
                f"{self.operation_id} was sent before; cancelled would say that it never was"
            )

    @property
    def terminal(self) -> bool:
        """Whether it has ended for good."""
        return self.state in TERMINAL

    @classmethod
    def read(cls, record: Mapping[Any, Any]) -> Self:
        """An operation from a row or a JSON object; raises :class:`OperationError`.

        The article's record, with its eleven fields, is read too: what it does not say is
        filled in so that nothing is sent because of it.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(record) - known):
            raise OperationError(f"a record of another version: it has {', '.join(unknown)}")
        if record.get("schema_version") != SCHEMA_VERSION:
            raise OperationError(
                f"a record of schema version {record.get('schema_version')!r}; this program "
                f"reads {SCHEMA_VERSION}. Use the program that wrote it."
            )
        filled: JSON = {
            "input_sha256": "",
            "scope": "",
            "idempotency_key": record.get("operation_id"),
            "deadline_at": 0.0,
        }
        try:
            return cls(**{**filled, **record, "state": State(record["state"])})
        except (KeyError, TypeError, ValueError) as error:
            raise OperationError(f"not a record of an operation: {error}") from error

    def record(self) -> JSON:
        """The article's record: its eleven fields, in its order."""
        names = [field.name for field in fields(self)][:11]
        return {name: _plain(getattr(self, name)) for name in names}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, State) else value
