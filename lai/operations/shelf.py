"""What is stored, read as it is now: operations, and what was heard about them.

Readers wait for nobody and change nothing. ``store.Store`` is a shelf that can be written to.
"""

from collections.abc import Collection

from sqlalchemy import ColumnElement, select

from lai.operations.databases import Database, storable
from lai.operations.records import Operation, OperationError, State
from lai.operations.schema import events, operations
from lai.records import JSON


class NoSuchOperation(OperationError):
    """Nothing is stored under this id."""


class Shelf:
    """The operations of a database whose tables are there."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def get(self, operation_id: str) -> Operation:
        """The operation as it is now; raises :class:`NoSuchOperation` if there is none."""
        known = storable(operation_id) == operation_id  # no other id was ever stored
        found = self.select(operations.c.operation_id == operation_id) if known else []
        if not found:
            raise NoSuchOperation(f"there is no operation {operation_id!r} in this database")
        return found[0]

    def all(self, states: Collection[State] = tuple(State)) -> list[Operation]:
        """The operations in these states, by id."""
        return self.select(operations.c.state.in_(states))

    def select(self, condition: ColumnElement[bool]) -> list[Operation]:
        """The operations for which a condition on their rows holds, by id."""
        query = select(operations).where(condition).order_by(operations.c.operation_id)
        rows = self.database.read(lambda connection: connection.execute(query).mappings().all())
        return [Operation.read(row) for row in rows]

    def events(self, operation_id: str) -> list[JSON]:
        """All that was heard and decided about an operation, in order."""
        query = select(events).where(events.c.operation_id == operation_id)
        query = query.order_by(events.c.number)
        rows = self.database.read(lambda connection: connection.execute(query).mappings().all())
        return [dict(row) for row in rows]

    def alarms(self) -> set[str]:
        """The ids of operations about which something was heard that a person must hear."""
        query = select(events.c.operation_id).where(events.c.kind == "alarm").distinct()
        return set(self.database.read(lambda connection: connection.execute(query).scalars().all()))
