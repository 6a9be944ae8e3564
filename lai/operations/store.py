"""Operations in a database: intents, claims, changes by compare-and-set, and what was heard.

Several processes work on the same rows, and each may stop for an hour between two lines of
its program. What it believed before is then no longer true, so no write rests on belief:

1. A claim is one statement. It takes a free or expired row and counts ``fence`` up; two
   claimants never get the same fence. An expired lease permits a claim and nothing else.
2. A change names owner, fence and version of the row it was decided on. If they are no
   longer the row's, nothing changes, and what was heard is kept as an event
   (:class:`ClaimLost`).
3. State, event and outgoing message are one transaction: all of it or none.

Time is the database's own on PostgreSQL, where several machines share it, and the host's
on SQLite. What may follow what is the records' business.
"""

import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from sqlalchemy import ColumnElement, Connection, exists, or_, select, true, update

from lai.operations.databases import CLOCK, Database, insert_new, storable
from lai.operations.records import (
    RECOVERABLE,
    RESUME,
    TERMINAL,
    IllegalChange,
    Operation,
    OperationError,
    State,
    Who,
)
from lai.operations.schema import events, operations, outbox, prepare
from lai.operations.shelf import Shelf

# What no change may touch: identity, key, input, and what the store counts by itself.
FIXED = frozenset(
    "schema_version run_id operation_id tool_name tool_version input_ref input_sha256 scope "
    "idempotency_key state resume_action version fence".split()
)
TOLD = TERMINAL | {State.REVIEW_REQUIRED}  # what others want to hear of
Effect = Callable[[Connection], object]


@dataclass(frozen=True, slots=True)
class Said:
    """One line of the log: a state that was reached, or ``late``, or ``alarm``."""

    kind: str
    evidence: str
    by: str


class KeyConflict(OperationError):
    """The same identity or key, for something else. Nothing was stored."""


class ClaimLost(OperationError):
    """Somebody else has claimed or changed the operation since. Nothing changed."""


class Store(Shelf):
    """The operations of one database; made on first use.

    ``now`` replaces the clock, in seconds since the epoch: for tests and for notebooks.
    """

    def __init__(self, url: str, *, now: Callable[[], float] | None = None) -> None:
        super().__init__(Database(url))
        self.now = now or self.database.now
        self._host_clock = now is not None or self.database.is_sqlite
        self.database.prepare(prepare)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def plan(self, intent: Operation) -> Operation:
        """Store an intent, or find it stored; raises :class:`KeyConflict` for another one."""
        if intent.state is not State.PLANNED:
            raise IllegalChange(f"{intent.operation_id}: an operation begins as planned")
        new, change_id = replace(intent, resume_action=RESUME[State.PLANNED]), _fresh()

        def write(connection: Connection) -> bool:
            stored = insert_new(connection, operations, **asdict(new))
            if stored:
                self._log(connection, change_id, new, Said(State.PLANNED, "intent", "planner"))
            return stored

        return new if self.database.write(write) else self._stored(new)

    def _stored(self, intent: Operation) -> Operation:
        """The row that was there first; read only now, after the transaction that lost."""
        same_key = (operations.c.scope == intent.scope) & (
            operations.c.idempotency_key == intent.idempotency_key
        )
        (found, *others) = self.select(
            or_(operations.c.operation_id == intent.operation_id, same_key)
        )
        names = ("operation_id", "scope", "idempotency_key", "tool_name", "input_sha256")
        differs = [n for n in names if getattr(found, n) != getattr(intent, n)]
        if differs or others:
            raise KeyConflict(
                f"{intent.operation_id}: {found.operation_id} is stored already and has another "
                f"{' and '.join(differs) or 'key'}. Nothing was stored and nothing was sent."
            )
        return found

    def claim(
        self, owner: str, lease: float, operation_id: str | None = None, scope: str | None = None
    ) -> Operation | None:
        """Claim what is due, or the one named, for ``lease`` seconds; None if there is none.

        The one named need not be due, and an owner may take its own claim again: the name
        of an owner is one process's at a time. With ``scope``, only what belongs to it.
        """
        now, row = self._moment(), operations.c
        free: ColumnElement[bool] = or_(row.lease_until.is_(None), row.lease_until <= now)
        due = or_(row.next_query_at.is_(None), row.next_query_at <= now)
        if operation_id is not None:
            free, due = or_(free, row.owner == owner), row.operation_id == operation_id
        first = (
            select(row.operation_id)
            .where(row.state.in_(RECOVERABLE), free, due)
            .where(true() if scope is None else row.scope == scope)
            .order_by(row.next_query_at.nulls_first(), row.operation_id)
            .limit(1)
            .with_for_update(skip_locked=True)  # PostgreSQL; SQLite has one writer anyway
        )
        taken = (
            update(operations)
            .where(row.operation_id == first.scalar_subquery())
            .values(owner=owner, lease_until=now + lease)
            .values(fence=row.fence + 1, version=row.version + 1)
            .returning(operations)
        )
        found = self.database.write(lambda c: c.execute(taken).mappings().first())
        return Operation.read(found) if found else None

    def change(
        self, held: Operation, to: State, evidence: str, effect: Effect | None = None, **values: Any
    ) -> Operation:
        """Take a claimed operation to ``to``; the claim ends, except by ``pending``.

        ``effect`` is done in the same transaction: an effect that lives in this database.
        Raises :class:`ClaimLost` if the claim is over; the evidence is kept as an event.
        """
        held.require(to, Who.OWNER)
        if to is not State.PENDING:
            values |= {"owner": None, "lease_until": None}
        owner = str(held.owner)
        mine = (operations.c.owner == owner) & (operations.c.fence == held.fence)
        try:
            return self._change(held, to, Said(to, evidence, owner), mine, effect, **values)
        except ClaimLost:
            self.note(held, Said("late", f"too late to say {to}: {evidence}", owner))
            raise

    def decide(
        self, seen: Operation, to: State, evidence: str, by: str, **values: Any
    ) -> Operation:
        """A person's change of an operation as they saw it; needs evidence in words."""
        if not evidence.strip():
            raise OperationError("a decision needs its evidence: what was seen, and where")
        seen.require(to, Who.PERSON)
        free = {"owner": None, "lease_until": None, "review_reason": None}
        return self._change(seen, to, Said(to, evidence, by), true(), **free | values)

    def _change(
        self,
        before: Operation,
        to: State,
        said: Said,
        mine: ColumnElement[bool],
        effect: Effect | None = None,
        **values: Any,
    ) -> Operation:
        change_id = _fresh()
        if fixed := sorted(FIXED & values.keys()):
            raise IllegalChange(f"{before.operation_id}: {', '.join(fixed)} stays for life")
        values = {name: _storable(value) for name, value in values.items()}
        values |= {"state": to, "resume_action": RESUME[to], "version": before.version + 1}
        after = replace(before, **values)
        row = operations.c
        unchanged = (row.operation_id == before.operation_id) & (row.version == before.version)

        def write(connection: Connection) -> None:
            changed = update(operations).where(unchanged, mine)
            if connection.execute(changed, values).rowcount != 1:
                if connection.scalar(ours):
                    return  # done before; it was the answer that got lost
                raise ClaimLost(f"{before.operation_id} was claimed or changed by somebody else")
            self._log(connection, change_id, after, said)
            if to in TOLD:
                message = {"message_id": f"{after.operation_id}:{after.version}", "state": to}
                about = {"operation_id": after.operation_id, "made_at": self._moment()}
                insert_new(connection, outbox, **message, **about)
            if effect:
                effect(connection)

        ours = select(exists().where(events.c.change_id == change_id))
        self.database.write(write)
        return after

    def note(self, about: Operation, said: Said) -> None:
        """Add what was heard to the log. It changes no operation, and needs no claim."""
        change_id = _fresh()
        self.database.write(lambda connection: self._log(connection, change_id, about, said))

    def _log(self, connection: Connection, change_id: str, about: Operation, said: Said) -> None:
        place = {"operation_id": about.operation_id, "fence": about.fence, "at": self._moment()}
        heard = {name: _storable(value) for name, value in asdict(said).items()}
        insert_new(connection, events, change_id=change_id, **place, **heard)

    def _moment(self) -> Any:
        """The time, as a value or as the database's own word for it."""
        return self.now() if self._host_clock else CLOCK


def _storable(value: Any) -> Any:
    return storable(value) if type(value) is str else value


def _fresh() -> str:
    return uuid.uuid4().hex
