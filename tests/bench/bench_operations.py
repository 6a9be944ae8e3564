"""What an operation costs in the database, by python tests/bench/bench_operations.py [operations].

Two questions, for SQLite and PostgreSQL. How many operations a second do 1, 2 and 4 workers
carry through, each from its claim to its receipt, when the service answers at once? And what
does one cost beyond its commits: the same rows, written by the driver alone, in as many
transactions? Both sides run in turn; ratios count. It prints figures and never fails.
"""

import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from lai.course.postgres import Server
from lai.operations.answers import Answer, Contract, Remote
from lai.operations.records import Operation
from lai.operations.references import References
from lai.operations.store import Store
from lai.operations.work import Worker
from lai.records import JSON

OPERATIONS, SINGLE = 400, 150
BODY: JSON = {"title": "报告", "lines": ["一", "二"]}
# What one operation writes, in four transactions: plan, claim, pending, succeeded.
ROW = "INSERT INTO bare VALUES ({0}, {0})", "UPDATE bare SET v = {0} WHERE k = {0}"
NOTE = "INSERT INTO notes VALUES ({0}, {0})"
WRITES = ((ROW[0], NOTE), (ROW[1],), (ROW[1], NOTE), (ROW[1], NOTE, NOTE))


class AtOnce:
    """A service that has done it before it is asked."""

    def send(self, operation: Operation, _: JSON) -> Answer:
        """A receipt."""
        receipt = {"idempotency_key": operation.idempotency_key}
        return Answer(Remote.COMPLETED, "done", "job-1", receipt, said="completed")

    def ask(self, operation: Operation) -> Answer:
        """The same."""
        return self.send(operation, {})


@contextmanager
def worker(url: str, folder: Path, owner: str) -> Iterator[Worker]:
    """A worker whose receipts are all one file, so that files are no part of the measure."""
    promise = Contract(scope="bench", tool_version="v1")
    with Store(url) as store:
        made = References(folder)
        yield Worker(store=store, references=made, service=AtOnce(), contract=promise, owner=owner)


def plan(url: str, folder: Path, names: list[str]) -> None:
    """Store the intents."""
    with worker(url, folder, "planner") as at:
        for name in names:
            at.plan(name, BODY, run_id="bench", tool_name="create_report")


def throughput(url: str, folder: Path, workers: int, operations: int) -> float:
    """Operations a second of so many processes; their start is not counted."""
    plan(url, folder, [f"{workers}-{n}" for n in range(operations)])
    command = [sys.executable, __file__, "--worker", url, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started: list[Any] = [subprocess.Popen(command, **pipes) for _ in range(workers)]
    for process in started:
        process.stdout.readline()  # it is ready
    begin = time.perf_counter()
    for process in started:
        process.stdin.close()  # go
    done = sum(json.loads(process.stdout.read()) for process in started)
    seconds = time.perf_counter() - begin
    for process in started:
        process.wait()
        process.stdout.close()
    assert done == operations
    return operations / seconds


def work(url: str, folder: str) -> None:
    """The child: wait for the word, carry through what is due, say how many."""
    with worker(url, Path(folder), f"worker-{time.monotonic_ns()}") as at:
        at.store.all([])
        print("ready", flush=True)
        sys.stdin.read()
        done = 0
        while at.work_once() is not None:
            done += 1
    print(done, flush=True)


def one_operation(url: str, folder: Path) -> Iterator[float]:
    """Seconds for an operation, one after the other, from its plan to its receipt."""
    with worker(url, folder, "single") as at:
        for number in range(SINGLE):
            name = f"single-{number}"
            begin = time.perf_counter()
            at.plan(name, BODY, run_id="bench", tool_name="create_report")
            at.work_on(name)
            yield time.perf_counter() - begin


def bare(execute: Callable[[str], object], commit: Callable[[], object]) -> Iterator[float]:
    """Seconds for the same number of rows and commits, by the driver alone."""
    for table in ("bare", "notes"):
        execute(f"CREATE TABLE {table} (k INTEGER, v INTEGER)")
    commit()
    for number in range(SINGLE):
        begin = time.perf_counter()
        for transaction in WRITES:
            for statement in transaction:
                execute(statement.format(number))
            commit()
        yield time.perf_counter() - begin


@contextmanager
def driver(url: str, folder: Path) -> Iterator[Iterator[float]]:
    """The floor: SQLite's and PostgreSQL's own modules, as durable as the store."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(folder / "bare.sqlite")) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            yield bare(connection.execute, connection.commit)
        return
    import psycopg

    with psycopg.connect(url) as server:
        yield bare(lambda text: server.execute(text.encode()), server.commit)


def measure(name: str, url: str, folder: Path, operations: int) -> None:
    """Print both answers for one database."""
    with driver(url, folder) as floor:
        pairs = list(zip(one_operation(url, folder), floor, strict=True))
    ours, floors = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"{name}: an operation {ours * 1e3:.2f} ms, its rows alone {floors * 1e3:.2f} ms", end="")
    print(f": ratio {ours / floors:.1f}")
    rates = {n: throughput(url, folder, n, operations) for n in (1, 2, 4)}
    for workers, rate in rates.items():
        print(f"  {workers} worker(s): {rate:5.0f} operations/s, {rate / rates[1]:.2f} of one's")


def main(operations: int) -> None:
    """Measure what is here."""
    folder = Path(tempfile.mkdtemp(prefix="lai-bench-"))
    try:
        measure("SQLite", f"sqlite:///{folder / 'bench.sqlite'}", folder, operations)
        with suppress(ImportError):
            server = Server()
            try:
                measure("PostgreSQL", server.create(), folder / "pg", operations)
            finally:
                server.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else OPERATIONS)
