"""Two workers at one operation, step by step, in an order that is written down.

A race that is run shows something else each time. Here the order is a script: who does what,
one step after the other, with a clock that goes on when the script says so. What came of it
is counted where it happened, in a database of the resource's own.

Rules that live here and nowhere else:

1. A worker is what it remembers: the row as it was when it looked. Nothing tells it that
   time has passed.
2. The resource knows nothing of claims. It takes what it is given, unless its own rule
   refuses: a fencing token smaller than one it has seen, a second row for one operation.
"""

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from lai.course.reporting import PATIENCE, Clock, marked
from lai.faults import Crash, Fault
from lai.operations.records import Operation, State
from lai.operations.store import ClaimLost, Store

LEASE = 30.0  # seconds
NAME = "op-发货-1"
RECEIPT: dict[str, Any] = {"result_ref": "receipts/r.json", "result_sha256": "-"}


class Rule(StrEnum):
    """What a resource refuses."""

    NOTHING = "nothing"
    FENCE = "smaller tokens"
    UNIQUE = "smaller tokens and second rows"


class Resource:
    """Where the effects are: a table in a database of its own, with a rule."""

    def __init__(self, folder: Path, rule: Rule) -> None:
        self._file, self._rule = folder / f"{rule.name.lower()}.sqlite", rule
        unique = "UNIQUE" if rule is Rule.UNIQUE else ""
        with self._open() as database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS effects (operation_id TEXT {unique}, fence INTEGER)"
            )

    def act(self, operation_id: str, fence: int) -> str:
        """Do it; what the resource says, in one word."""
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # look and act in one transaction
            highest = "SELECT coalesce(max(fence), 0) FROM effects WHERE operation_id = ?"
            (seen,) = database.execute(highest, (operation_id,)).fetchone()
            if self._rule is not Rule.NOTHING and fence < seen:
                return "refused"
            row = (operation_id, fence)
            done = database.execute("INSERT OR IGNORE INTO effects VALUES (?, ?)", row)
            return "done" if done.rowcount else "refused"

    def count(self) -> int:
        """How often it was really done."""
        with self._open() as database:
            return int(database.execute("SELECT count(*) FROM effects").fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file, timeout=60)) as database, database:
            yield database


@dataclass
class Racer:
    """A worker by name, and the row as it saw it last."""

    name: str
    store: Store
    resource: Resource
    held: Operation | None = None

    def look(self) -> str:
        """Read the row, and claim nothing."""
        self.held = self.store.get(NAME)
        return f"sees {marked(self.held.state)}"

    def claim(self) -> str:
        """Claim it, if it is free."""
        self.held = self.store.claim(self.name, LEASE, NAME)
        return f"claims it, fence {self.held.fence}" if self.held else "gets no claim"

    def act(self) -> str:
        """Do the effect, with the token of the row it remembers."""
        if self.held is None:
            return "does nothing"
        return f"acts with fence {self.held.fence}: {self.resource.act(NAME, self.held.fence)}"

    def cross(self) -> str:
        """Commit ``pending``."""
        return self._change(State.PENDING, sent_at=self.store.now(), attempt=1)

    def finish(self) -> str:
        """Say that it is done."""
        return self._change(State.SUCCEEDED, **RECEIPT)

    def _change(self, to: State, **values: Any) -> str:
        if self.held is None:
            return "says nothing"
        try:
            self.held = self.store.change(self.held, to, f"{self.name} was here", **values)
        except ClaimLost:
            return f"too late to say {marked(to)}"
        return f"says {marked(to)}"


@dataclass
class Race:
    """Two racers, A and B, one operation, and a script of steps like ``"A claim"``."""

    url: str
    resource: Resource
    told: list[dict[str, str]] = field(default_factory=list)
    left: Operation | None = None
    log: list[str] = field(default_factory=list)

    def run(self, script: Sequence[str]) -> "Race":
        """Play the script from a new operation on; ``"time"`` lets more than a lease pass."""
        clock = Clock()
        with Store(self.url, now=clock) as store:
            store.plan(intent())
            racers = {name: Racer(name, store, self.resource) for name in "AB"}
            for step in script:
                if step == "time":
                    clock.forward(LEASE + 1)
                    self.told.append({"A": "", "B": "", "clock": f"+{LEASE + 1:.0f} s"})
                    continue
                name, verb = step.split()
                said: Callable[[], str] = getattr(racers[name], verb)
                self.told.append({"A": "", "B": "", "clock": "", name: said()})
            self.left = store.get(NAME)
            self.log = [f"{e['kind']}: {e['evidence']}" for e in store.events(NAME)]
        return self


# The window between an effect and its record, in one database.


def deliver(store: Store, fault: Fault, *, together: bool) -> None:
    """Claim the delivery, make it, and say so: in two transactions, or in one."""
    held = store.claim("A", LEASE, NAME)
    if held is None:  # it has ended
        return
    if held.state is State.PLANNED:
        held = store.change(held, State.PENDING, "about to begin", sent_at=store.now())
    say = partial(store.change, held, State.SUCCEEDED, "delivered", **RECEIPT)
    if not together:
        fault.around("the effect", store.database.write)(_make)
        fault.around("the record", say)()
        return

    def effect(connection: Connection) -> None:
        _make(connection)
        fault.point("inside, behind the effect")

    fault.around("the transaction", say)(effect)


def deaths(folder: Path, *, together: bool) -> list[dict[str, object]]:
    """Die at each point of a delivery, let the next process go on, and count deliveries."""
    alive = Fault()
    _die(folder / f"{together}-alive.sqlite", alive, together=together)
    rows: list[dict[str, object]] = []
    for number, point in enumerate(alive.points):
        file = folder / f"{together}-{number}.sqlite"
        record, made = _die(file, Fault(at=number), together=together)
        rows.append({"died": point, "record": record, "deliveries": made})
    return rows


def _die(file: Path, fault: Fault, *, together: bool) -> tuple[str, int]:
    clock = Clock()
    with Store(f"sqlite:///{file}", now=clock) as store:
        store.database.write(lambda c: c.execute(text("CREATE TABLE deliveries (id TEXT)")))
        store.plan(intent())
        with suppress(Crash):
            deliver(store, fault, together=together)
        clock.forward(LEASE + 1)  # the next process
        deliver(store, Fault(), together=together)
        count = text("SELECT count(*) FROM deliveries")
        made = store.database.read(lambda c: c.execute(count).scalar_one())
        return marked(store.get(NAME).state), int(made)


def _make(connection: Connection) -> None:
    connection.execute(text("INSERT INTO deliveries VALUES (:name)"), {"name": NAME})


def workers(number: int, url: str, files: Path, service: str) -> None:
    """So many real workers at one database, until every operation has come to its end."""
    command = [sys.executable, "-m", "lai.operations.worker", "--database", url]
    command += ["--files", str(files), "--service", service, "--timeout", str(PATIENCE)]
    quiet = subprocess.DEVNULL
    started = [subprocess.Popen(command, stdout=quiet) for _ in range(number)]
    try:
        with Store(url) as store:
            while not all(found.terminal for found in store.all()):
                time.sleep(0.05)
                ended = [process for process in started if process.poll() is not None]
                assert not ended, "a worker has ended by itself"
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def intent(name: str = NAME, body: str = "0" * 64) -> Operation:
    """A delivery that is to be made once; ``body`` is the hash of its input."""
    return Operation(
        run_id="run-demo",
        operation_id=name,
        tool_name="deliver",
        tool_version="v1",
        input_ref="inputs/delivery.json",
        input_sha256=body,
        scope="warehouse",
        idempotency_key=name,
        deadline_at=4e9,
    )
