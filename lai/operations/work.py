"""The loop of the second article: claim, schedule, do, record. Recovery is the same loop.

A first send and a recovery a week later differ in what the record says, and in nothing
else: ``policy.schedule`` looks at it and names one step, and this module does it. A
process that dies anywhere in here leaves a record from which the next one goes on.

Rules that live here and nowhere else:

1. ``pending`` is committed before the client is called, and the receipt is in its file
   before ``succeeded`` is committed.
2. What is sent is the input that was stored, checked against its hash. An input that
   cannot be read, or a program of another version, sends nothing and asks a person.
3. The claim ends with the step. Nobody holds one while waiting for a job to finish.

It does not choose, and it does not know who calls: an agent's tool, a worker, a test.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Protocol

from lai.operations.answers import Answer, Contract, Remote
from lai.operations.changes import Change, crossing, following
from lai.operations.databases import storable
from lai.operations.policy import Keep, Query, RequireReview, Send, Step, schedule
from lai.operations.records import SENDABLE, Operation, OperationError, State
from lai.operations.references import References, Unreadable
from lai.operations.store import ClaimLost, Said, Store
from lai.outcome import DEEPEST, deeper
from lai.records import JSON

LEASE = 30.0  # seconds; longer than a send or a question may take
PATIENCE = 24 * 3600.0  # seconds from the intent until a person is asked


class Service(Protocol):
    """The far side, as a client shows it. It raises nothing: silence is an answer too."""

    def send(self, operation: Operation, body: JSON) -> Answer:
        """Ask for the action, under the operation's key."""

    def ask(self, operation: Operation) -> Answer:
        """Ask what became of it."""


def about_the_question(answer: Answer) -> Answer:
    """An answer to a question. That a question did not leave says nothing about the action."""
    return replace(answer, status=Remote.NO_ANSWER) if answer.status is Remote.NOT_SENT else answer


def _key(operation_id: str) -> str:
    """The id itself where a header carries it unchanged everywhere, else a hash of it."""
    if SENDABLE.fullmatch(operation_id):
        return operation_id
    return f"sha256:{hashlib.sha256(operation_id.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker at one store and one service.

    ``owner`` is a name that no other process uses at the same time. ``watch`` is told each
    step before it is done.
    """

    store: Store
    references: References
    service: Service
    contract: Contract
    owner: str
    lease: float = LEASE
    watch: Callable[[Operation, Step], object] = lambda *_: None

    def __post_init__(self) -> None:
        if not 0 < self.lease < inf:
            raise OperationError(f"a lease is a number of seconds; got {self.lease!r}")

    def plan(
        self,
        operation_id: str,
        body: JSON,
        *,
        run_id: str,
        tool_name: str,
        patience: float = PATIENCE,
    ) -> Operation:
        """Store the input and the intent; the same again finds it. Nothing is sent.

        Raises :class:`~lai.operations.store.KeyConflict` for another input under the id,
        and :class:`OperationError` for an id or an input that cannot be kept.
        """
        if not operation_id or storable(operation_id) != operation_id or not isfinite(patience):
            raise OperationError("an operation has an id that can be written, and a deadline")
        if deeper(body, DEEPEST):
            raise OperationError(f"{operation_id}: the input is nested too deep to be kept")
        stored = self.references.put("inputs", body)
        intent = Operation(
            run_id=run_id,
            operation_id=operation_id,
            tool_name=tool_name,
            tool_version=self.contract.tool_version,
            input_ref=stored.ref,
            input_sha256=stored.sha256,
            scope=self.contract.scope,
            idempotency_key=_key(operation_id),
            deadline_at=self.store.now() + patience,
        )
        return self.store.plan(intent)

    def work_on(self, operation_id: str) -> Operation:
        """Do what can be done about one operation now, due or not; as it then is.

        Raises :class:`OperationError` for one of another scope.
        """
        held = self.store.claim(self.owner, self.lease, operation_id, self.contract.scope)
        if held:
            return self.proceed(held)
        known = self.store.get(operation_id)
        if known.scope != self.contract.scope:
            raise OperationError(f"{operation_id} belongs to {known.scope!r}, not to this service")
        return known

    def work_once(self) -> Operation | None:
        """Claim one operation that is due and do what can be done; None if none is due."""
        held = self.store.claim(self.owner, self.lease, scope=self.contract.scope)
        return self.proceed(held) if held else None

    def receipt(self, known: Operation) -> JSON | None:
        """The service's receipt as it is stored, None while there is none.

        Raises :class:`~lai.operations.references.Unreadable` if it is not what was stored.
        """
        if known.result_ref is None or known.result_sha256 is None:
            return None
        return self.references.get(known.result_ref, known.result_sha256)

    def proceed(self, held: Operation) -> Operation:
        """Take a claimed operation as far as it goes now.

        Raises :class:`~lai.operations.store.ClaimLost` if somebody else took it meanwhile.
        """
        planned, answer = held, None
        while True:
            step = self._next(held, answer)
            self.watch(held, step)
            match step:
                case Send():
                    body = self.references.get(held.input_ref, held.input_sha256)
                    crossed = crossing(held, self.contract, self.store.now())
                    held = self._change(held, crossed)
                    self._require_time(held)
                    answer = self.service.send(held, body)
                case Query():
                    answer = about_the_question(self.service.ask(held))
                case Keep():
                    return held
                case _:
                    return self._write_down(held, step, answer, planned)

    def _next(self, held: Operation, answer: Answer | None) -> Step:
        step = schedule(held, answer, self.store.now())
        if not isinstance(step, Send | Query):
            return step
        if held.tool_version != self.contract.tool_version:
            return RequireReview(f"a program that speaks {held.tool_name} {held.tool_version}")
        if isinstance(step, Send):
            try:
                self.references.get(held.input_ref, held.input_sha256)
            except Unreadable as error:
                return RequireReview(f"the input: {error}")
        return step

    def _write_down(
        self, held: Operation, step: Step, answer: Answer | None, planned: Operation
    ) -> Operation:
        change = following(held, step, answer, planned)
        if answer and answer.alarm:
            self.store.note(held, Said("alarm", answer.alarm, self.owner))
        if answer and answer.receipt is not None and change.to is State.SUCCEEDED:
            kept = self.references.put("receipts", answer.receipt)
            change.values.update(result_ref=kept.ref, result_sha256=kept.sha256)
        try:
            return self._change(held, change)
        except ClaimLost:
            if answer:
                self._alarm(held, answer)
            raise

    def _require_time(self, held: Operation) -> None:
        """Send nothing with a claim that is over: others may have concluded from silence."""
        if held.lease_until is not None and self.store.now() >= held.lease_until:
            raise ClaimLost(f"{held.operation_id}: the lease ended before anything was sent")

    def heard_late(self, about: Operation, answer: Answer) -> None:
        """Keep an answer that came when nobody waited any more: evidence, and no change."""
        said = answer.evidence
        if answer.receipt is not None:
            said += f"; receipt {self.references.put('receipts', answer.receipt).ref}"
        self.store.note(about, Said("late", f"after the time was over: {said}", self.owner))
        self._alarm(about, answer)

    def _alarm(self, about: Operation, answer: Answer) -> None:
        step = schedule(self.store.get(about.operation_id), answer, self.store.now())
        if isinstance(step, Keep) and step.alarm:
            self.store.note(about, Said("alarm", step.alarm, self.owner))

    def _change(self, held: Operation, change: Change) -> Operation:
        return self.store.change(held, change.to, change.evidence, **change.values)
