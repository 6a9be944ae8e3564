"""What has arrived at the service, and what is planned to go wrong: two lists, one number.

Every request to ``/reports`` gets the next number, from 1. Plans name these numbers, and
both lists live in the service's database, so a restart goes on where it was killed.

A connection that does not come about uses up its number and is not listed: nothing arrived.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from lai.operations.records import OperationError
from lai.operations.service.mishaps import MISHAPS, Mishap, read_plan
from lai.records import JSON

TABLES = """
CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, method TEXT NOT NULL, path TEXT NOT NULL, key TEXT,
    arrived INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS mishaps (
    call INTEGER NOT NULL, mishap TEXT NOT NULL, variant TEXT NOT NULL,
    PRIMARY KEY (call, mishap)
);
CREATE TABLE IF NOT EXISTS lasting (mishap TEXT PRIMARY KEY, variant TEXT NOT NULL);
"""
LASTING = frozenset({Mishap.CLOCK_OFF, Mishap.NEW_VERSION})  # they stay from their call on
Variants = Mapping[Mishap, str]  # what befalls a call, and how


class Arrivals:
    """The lists in an open database with ``TABLES``. The caller keeps the transactions."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._sql = database.execute

    def count(self, method: str, path: str, key: str | None) -> Variants:
        """Give the call its number; what befalls it."""
        number = self._next()
        rows = self._sql("SELECT mishap, variant FROM mishaps WHERE call = ?", (number,))
        planned = {Mishap(name): variant for name, variant in rows}
        befalls = {one: how for one, how in planned.items() if method in MISHAPS[one].methods}
        arrived = Mishap.UNREACHABLE not in befalls
        row = (number, method, path, key, arrived)
        self._sql("INSERT INTO calls VALUES (?, ?, ?, ?, ?)", row)
        for mishap in LASTING & befalls.keys() if arrived else ():
            self._sql("INSERT OR REPLACE INTO lasting VALUES (?, ?)", (mishap, befalls[mishap]))
        return befalls

    def lasting(self) -> Variants:
        """What has begun with an earlier call, or this one, and stays."""
        rows = self._sql("SELECT mishap, variant FROM lasting")
        return {Mishap(mishap): variant for mishap, variant in rows}

    def calls(self) -> list[JSON]:
        """What arrived, in order: ``{"call", "method", "path", "key"}`` each."""
        rows = self._sql("SELECT number, method, path, key FROM calls WHERE arrived")
        return [dict(zip(("call", "method", "path", "key"), row, strict=True)) for row in rows]

    def plan(self, raw: Iterable[Mapping[str, Any]]) -> None:
        """Replace what is planned; ``raw`` as ``read_plan`` has it.

        Raises :class:`OperationError` for nonsense and for a call that is over.
        """
        plan, first = read_plan(raw), self._next()
        if over := [one.call for one in plan if 0 < one.call < first]:
            raise OperationError(f"call {over[0]} is over; the next one is call {first}")
        self._sql("DELETE FROM mishaps")
        for one in plan:
            row = (one.call or first, one.mishap, one.variant)
            self._sql("INSERT OR REPLACE INTO mishaps VALUES (?, ?, ?)", row)

    def _next(self) -> int:
        number: int = self._sql("SELECT coalesce(max(number), 0) + 1 FROM calls").fetchone()[0]
        return number
