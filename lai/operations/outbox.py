"""Telling others what became of an operation: at least once sent, once done.

The message is a row written in the transaction of the change itself, so it is there if and
only if the change is. A relay reads such rows, hands each on, and marks it. It may die
between the two and hand it on again; the consumer keeps the numbers of what it has done,
in the transaction of the doing, and does nothing twice.

Rules that live here and nowhere else:

1. Unsent is what is not marked. "The last number I saw" would skip a row: numbers are given
   out in another order than transactions commit.
2. Handed on first, marked second. The other order loses messages.
3. What a consumer does for a message must be in its own database, in one transaction with
   the number. If it is not, nothing here can keep it from being done twice.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, update

from lai.operations.databases import Database, insert_new
from lai.operations.schema import inbox, outbox
from lai.operations.store import Store


@dataclass(frozen=True, slots=True)
class Message:
    """``operation_id`` reached ``state``. Sent again, it has the same ``message_id``."""

    message_id: str
    operation_id: str
    state: str


def relay(store: Store, publish: Callable[[Message], object], most: int = 100) -> int:
    """Hand on at most ``most`` messages, oldest first, and mark them. Returns how many."""
    row = outbox.c
    waiting = (
        select(row.message_id, row.operation_id, row.state)
        .where(row.published_at.is_(None))
        .order_by(row.made_at, func.length(row.message_id), row.message_id)  # :9 before :10
        .limit(most)
    )
    messages = [Message(*m) for m in store.database.read(lambda c: c.execute(waiting).all())]
    for message in messages:
        publish(message)  # outside of any transaction: it may take its time, or fail
        _mark(store, message)
    return len(messages)


def _mark(store: Store, message: Message) -> None:
    mine = update(outbox).where(outbox.c.message_id == message.message_id)
    sent = mine.values(published_at=store.now())
    store.database.write(lambda connection: connection.execute(sent))


def consume(
    database: Database, consumer: str, message: Message, act: Callable[[Connection], object]
) -> bool:
    """Do ``act`` for a message that ``consumer`` has not had; whether it was done now."""

    def write(connection: Connection) -> bool:
        values = {"consumer": consumer, "message_id": message.message_id}
        new = insert_new(connection, inbox, **values)
        if new:
            act(connection)
        return new

    return database.write(write)
