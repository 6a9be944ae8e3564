"""Operations and all that can happen to them, simulated: the real worker, store, client, service.

Nothing of the library is replaced. A worker gets its store, its files and its client with a
point before and after each step, where its life may end or somebody else may come first.
What is judged (``promises_o``) is seen from outside: the rows that a second connection finds
committed, the requests that reach the service, and the service's own count of its effects.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx2
from far_side import BODY, START, Clock
from promises_o import OPEN, Arrival, Past, Row, Story
from sqlalchemy import text
from watched import Cut, WatchedFiles, WatchedService, WatchedStore

from lai.calls import arguments_sha256
from lai.faults import Crash
from lai.operations.client import Client
from lai.operations.outbox import Message, consume, relay
from lai.operations.records import Operation
from lai.operations.references import References
from lai.operations.service.profiles import PROFILES, Profile, contract
from lai.operations.service.provider import Delivery, Provider
from lai.operations.service.transport import transport_of
from lai.operations.store import ClaimLost, KeyConflict, Store
from lai.operations.work import Worker

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
OP = "op-report-001"
OTHER = {"title": "another", "lines": []}
LEASE, BRIEF, PATIENT = 30.0, 120.0, 4000.0  # seconds


class Bench:
    """The database and the files of one operation after the other, and a witness of both."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.folder = Path(tempfile.mkdtemp(prefix="lai-simulated-", dir=MEMORY))
        file = self.folder / "operations.sqlite"
        self.store = Store(f"sqlite:///{file}", now=self.clock)
        self.references = References(self.folder / "files")
        self.witness = sqlite3.connect(file, isolation_level=None)
        self.witness.row_factory = sqlite3.Row
        self.witness.execute("CREATE TABLE heard (message_id TEXT)")

    def clear(self) -> None:
        """Begin anew: no operation, no file, the first second."""
        for table in ("events", "outbox", "inbox", "heard", "operations"):
            self.witness.execute(f"DELETE FROM {table}")  # noqa: S608
        shutil.rmtree(self.references.folder, ignore_errors=True)
        self.clock.at = START

    def rows(self, table: str) -> list[Row]:
        """What is committed in a table, seen by another connection than the library's."""
        found = self.witness.execute(f"SELECT * FROM {table} ORDER BY rowid")  # noqa: S608
        return [dict(row) for row in found]

    def close(self) -> None:
        """Close it and leave nothing behind."""
        self.witness.close()
        self.store.database.close()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class World:
    """One service of a profile, with its mishaps, and any number of lives of workers."""

    def __init__(self, bench: Bench, profile: str, mishaps: Iterable[Row] = ()) -> None:
        bench.clear()
        self.bench, self.clock = bench, bench.clock
        self.profile: Profile = PROFILES[profile]
        self.contract = contract(self.profile)
        # An absence that can become final is waited for.
        self.patience = BRIEF if self.contract.absent_final_after is None else PATIENT
        self.provider = Provider(":memory:", self.profile, self.clock)
        self.provider.plan_mishaps(mishaps)
        self.late: list[Delivery] = []
        self.client = Client(Tapped(self))
        self.past: dict[str, Past] = {}
        self.about = ""  # the operation that a request is made for
        self.on_the_way: Callable[[], object] | None = None  # while a request is on its way

    def of(self, operation_id: str = OP) -> Past:
        """The past of an operation."""
        return self.past.setdefault(operation_id, Past())

    def row(self, operation_id: str = OP) -> Row | None:
        """The operation as it is committed now."""
        self.look()
        rows = self.of(operation_id).rows
        return rows[-1] if rows else None

    def look(self) -> None:
        """Note what has been committed since; each step takes a moment."""
        self.clock.at += 0.01
        for row in self.bench.rows("operations"):
            rows = self.of(row["operation_id"]).rows
            if not rows or rows[-1]["version"] != row["version"]:
                rows.append({**row, "seen_at": self.clock.at})

    def worker(self, owner: str, cut: Cut | None = None) -> Worker:
        """A worker whose steps are points."""
        watched = (self, cut or Cut())
        return Worker(
            store=WatchedStore(*watched),
            references=WatchedFiles(*watched),
            service=WatchedService(*watched),
            contract=self.contract,
            owner=owner,
            lease=LEASE,
        )

    def live(self, owner: str, cut: Cut | None = None, operation_id: str = OP) -> None:
        """A life: it plans what is not planned yet, or takes up what is due."""
        worker = self.worker(owner, cut)
        try:
            if self.row(operation_id) is None:
                self.plan(worker, operation_id)
                worker.work_on(operation_id)
            else:
                worker.work_once()
        except Crash:
            self.of(operation_id).crashes += 1
        except ClaimLost:
            pass  # somebody else has gone on with it
        self.look()

    def plan(self, worker: Worker, operation_id: str = OP, body: Any = None) -> Operation:
        """Plan a report under an id."""
        about = {"run_id": "run-demo", "tool_name": "create_report"}
        return worker.plan(operation_id, body or BODY, patience=self.patience, **about)

    def wait(self, operation_id: str = OP) -> None:
        """Time passes until somebody may claim the operation."""
        row = self.row(operation_id) or {}
        due = (row.get("lease_until") or 0.0, row.get("next_query_at") or 0.0)
        self.clock.at = max(self.clock.at, *due) + 0.01

    def rest(self, cut: Cut | None = None, operation_id: str = OP) -> Row:
        """Other workers go on until nothing is left for a scheduler; the row at the end."""
        cut = cut or Cut()
        for number in range(2, 60):
            row = self.row(operation_id)
            if row and row["state"] not in OPEN:
                return row
            self.wait(operation_id)
            self.live(f"worker-{number}", cut, operation_id)
        raise AssertionError(f"it does not come to rest: {self.row(operation_id)}")

    def contradict(self, operation_id: str = OP) -> None:
        """Somebody plans another input under the same id."""
        calls, past = len(self.provider.calls()), self.of(operation_id)
        rows = len(past.rows)
        try:
            self.plan(self.worker("rival"), operation_id, OTHER)
        except KeyConflict:
            self.look()
            made = (len(past.rows) - rows, len(self.provider.calls()) - calls)
            past.conflicts.append(made)
        else:
            raise AssertionError("another input under the same id was no conflict")

    def tell(self) -> None:
        """A relay tells a consumer, dies before it has marked the first message, and returns."""
        database = self.bench.store.database

        def publish(message: Message, *, dies: bool) -> None:
            add = text("INSERT INTO heard VALUES (:id)").bindparams(id=message.message_id)
            consume(database, "consumer", message, lambda connection: connection.execute(add))
            if dies:
                raise Crash

        with suppress(Crash):
            relay(self.bench.store, partial(publish, dies=True))
        relay(self.bench.store, partial(publish, dies=False))

    def story(self, operation_id: str = OP) -> Story:
        """All that is known of an operation, told from outside."""
        self.look()

        def about(table: str) -> list[Row]:
            rows = self.bench.rows(table)
            return [row for row in rows if row["operation_id"] == operation_id]

        def inside(what: str) -> list[Any]:  # what the service itself knows
            found = self.provider._database.execute(f"SELECT {what}", {"key": operation_id})
            return [value for (value,) in found]

        counted = self.provider.effects()
        messages = about("outbox")
        names = {one["message_id"] for one in messages}
        return Story(
            past=self.of(operation_id),
            profile=self.profile,
            promised=self.contract,
            patience=self.patience,
            events=about("events"),
            messages=messages,
            heard=[m for m in (r["message_id"] for r in self.bench.rows("heard")) if m in names],
            files=self.bench.references.folder,
            effects=counted["by_key"].get(operation_id, 0),
            anew=counted["anew"],
            reports={f"report-{job}" for job in inside("job FROM effects")},
            doubled=len(inside("number FROM jobs WHERE key = :key AND copies > 1")),
            refused=bool(inside("number FROM jobs WHERE key = :key AND ending = 'failed'")),
        )

    def close(self) -> None:
        """Close the service and the client."""
        self.client.close()
        self.provider.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Tapped(httpx2.BaseTransport):
    """The way to the service, with a note of what arrives there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.inner = transport_of(world.provider, world.late)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Pass it on."""
        self.world.look()
        past = self.world.of(self.world.about)
        posts = request.method == "POST"
        arrival = Arrival(
            request.method,
            request.headers["idempotency-key"] if posts else self.world.about,
            arguments_sha256(httpx2.Response(200, content=request.content).json()) if posts else "",
            int(request.headers["fencing-token"]),
            self.world.clock.at,
            len(past.rows),
        )
        past.arrivals.append(arrival)
        pause, self.world.on_the_way = self.world.on_the_way, None
        if pause:
            pause()
        try:
            return self.inner.handle_request(request)
        except httpx2.ConnectError:
            past.arrivals.remove(arrival)  # nothing has arrived
            raise
