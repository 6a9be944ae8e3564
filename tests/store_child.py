"""Real processes at one store: a child does jobs as told, and can be stopped and killed.

``serve`` is the child. It reads jobs from its input, one JSON list a line, and answers each
with a line. :class:`Child` is the other end; above it stands what both sides use.
"""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lai.operations import databases
from lai.operations.answers import Answer, Contract, Remote
from lai.operations.records import Operation, State
from lai.operations.references import References
from lai.operations.store import ClaimLost, Store
from lai.operations.work import Worker
from lai.records import JSON

# A child loads the modules that it works with, and not all that the packages show to others:
# the client of a model takes longer to load than most of what a child is told to do.
START = """
import sys, types
for name in ("lai", "lai.operations"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + "/" + name.replace(".", "/")]
from store_child import serve
serve()
"""
LIMIT = 120.0  # seconds after which something never happens
BODY = {"title": "书 \u2028 report", "lines": ["first 🙂", "\u0085"]}
CONTRACT = Contract(scope="report-service", tool_version="v1")
RECEIPT: JSON = {"result_ref": "receipts/r.json", "result_sha256": "5" * 64}


def intent(operation_id: str = "op-书", **changed: Any) -> Operation:
    """A report that is to be made."""
    fields: JSON = {
        "run_id": "run-demo",
        "operation_id": operation_id,
        "tool_name": "create_report",
        "tool_version": "v1",
        "input_ref": "inputs/report-001.json",
        "input_sha256": "1" * 64,
        "scope": "report-service",
        "idempotency_key": operation_id,
        "deadline_at": 4e9,
    }
    return Operation(**fields | changed)


def until(done: Callable[[], Any]) -> Any:
    """What ``done`` says, as soon as it says something."""
    end = time.monotonic() + LIMIT
    while not (found := done()):
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.002)
    return found


def kill() -> None:
    """End this process as a power switch would."""
    os.kill(os.getpid(), signal.SIGKILL)


def append(file: Path, line: str) -> None:
    """Add a line; another process sees all of it or nothing."""
    with file.open("ab", buffering=0) as opened:
        opened.write(line.encode() + b"\n")


def lines(file: Path) -> list[str]:
    """The whole lines of a file, which need not exist yet."""
    return file.read_text("utf-8").split("\n")[:-1] if file.exists() else []


def together(gate: str, number: int) -> None:
    """Go on when ``number`` processes have come to this gate, a folder."""
    (Path(gate) / str(os.getpid())).touch()
    until(lambda: len(list(Path(gate).iterdir())) >= number)


class Stub:
    """A service that notes each send in a file, and may be the death of who sends."""

    def __init__(self, sends: Path, dies: str) -> None:
        self.sends, self.dies = sends, dies

    def send(self, operation: Operation, body: JSON) -> Answer:
        """Make the report."""
        assert body == BODY
        if self.dies == "before a byte left":
            kill()
        append(self.sends, f"{os.getpid()} {operation.operation_id}")
        if self.dies == "after it was sent":
            kill()
        return self.ask(operation)

    def ask(self, operation: Operation) -> Answer:
        """What became of it: done if it was sent, else nothing that is certain."""
        if not lines(self.sends):
            return Answer(Remote.NOT_FOUND, "nobody knows it")
        receipt = {"idempotency_key": operation.idempotency_key}
        return Answer(Remote.COMPLETED, "completed", "job-1", receipt, said="completed")


def stub_worker(store: Store, folder: Path, dies: str, lease: float, other: Any = None) -> Worker:
    """A worker at the stub; its references and the list of sends are in ``folder``."""
    service, owner = other or Stub(folder / "sends", dies), f"worker-{os.getpid()}"
    kept = References(folder / "kept")
    return Worker(
        store=store, references=kept, service=service, contract=CONTRACT, owner=owner, lease=lease
    )


def finish(store: Store, held: Operation) -> str:
    """Take a claimed operation to its end; what became of that."""
    try:
        if held.state is State.PLANNED:
            held = store.change(held, State.PENDING, "about to send", sent_at=1.0, attempt=1)
        store.change(held, State.SUCCEEDED, f"by {os.getpid()}", **RECEIPT)
    except ClaimLost:
        return "lost"
    return "done"


class Jobs:
    """What a child can be told."""

    store: Any = None
    held: Operation

    def open(self, url: str, gate: str = "", number: int = 1) -> int:
        """Open the store, perhaps at the same moment as others."""
        if self.store:
            self.store.database.close()
        if gate:
            together(gate, number)
        self.store = Store(url)
        return os.getpid()

    def insert(self, ids: list[str], gate: str, number: int) -> list[str]:
        """Plan all of these; which of them this process was the first to plan."""
        together(gate, number)
        run = f"run-{os.getpid()}"
        return [i for i in ids if self.store.plan(intent(i, run_id=run)).run_id == run]

    def work(self, gate: str, number: int, lease: float, stalls: bool) -> list[list[Any]]:
        """Claim and finish until all is done: each claim's id, fence, and what became of it."""
        together(gate, number)
        did: list[list[Any]] = []
        while self.store.all((State.PLANNED, State.PENDING)):
            held = self.store.claim(f"worker-{os.getpid()}", lease)
            if held is None:
                continue
            if stalls and not did:  # until its lease is over and somebody else has it
                until(partial(self._taken, held))
            did.append([held.operation_id, held.fence, finish(self.store, held)])
        return did

    def _taken(self, held: Operation) -> bool:
        return bool(self.store.get(held.operation_id).fence > held.fence)

    def claim(self, lease: float) -> int:
        """Claim what is due and keep it."""
        self.held = until(lambda: self.store.claim(f"worker-{os.getpid()}", lease))
        return self.held.fence

    def finish(self) -> str:
        """Finish what was claimed."""
        return finish(self.store, self.held)

    def send(self, folder: str, dies: str) -> str:
        """Plan one report and work on it, up to the planned death."""
        worker = stub_worker(self.store, Path(folder), dies, lease=0.2)
        worker.plan("op-书", BODY, run_id="run-demo", tool_name="create_report")
        if dies == "before pending":
            assert worker.store.claim(worker.owner, worker.lease)
            kill()
        return worker.work_on("op-书").state

    def write(self, acknowledged: str) -> None:
        """Plan, claim and finish one operation after another; note each when it is committed."""
        databases.RECONNECT = LIMIT
        for number in itertools.count():
            name = f"op-{os.getpid()}-{number}"
            self.store.plan(intent(name))
            held = until(partial(self.store.claim, f"worker-{os.getpid()}", 1e9, name))
            append(Path(acknowledged), f"{name} {finish(self.store, held)}")


class Child:
    """A process of its own, idle until it is told something."""

    def __init__(self) -> None:
        here = Path(__file__).parent
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(here.parent)],
            env={**os.environ, "PYTHONPATH": str(here)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, job: str, *arguments: Any) -> None:
        """Have it begin a job."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([job, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What came of the job it was told first."""
        (value,) = answers([self])
        return value

    def do(self, job: str, *arguments: Any) -> Any:
        """Both."""
        self.tell(job, *arguments)
        return self.answer()

    def end(self) -> int:
        """End it with SIGKILL, unless it has ended; how it went."""
        self.process.kill()
        with self.process:
            return self.process.wait(LIMIT)


def answers(born: list[Child]) -> list[Any]:
    """What came of the job that each was told first."""
    said = [_line(child) for child in born]  # all of them, also where one has failed
    assert [value for kind, value in said if kind != "answer"] == []
    return [value for _, value in said]


def _line(child: Child) -> Any:
    assert child.process.stdout is not None
    assert select.select([child.process.stdout], [], [], LIMIT)[0], "it never answered"
    return json.loads(child.process.stdout.readline() or '["ended", "without an answer"]')


@contextmanager
def children(number: int) -> Iterator[list[Child]]:
    """So many children, for as long as the ``with`` lasts."""
    born = [Child() for _ in range(number)]
    try:
        yield born
    finally:
        for child in born:
            child.end()


def serve() -> None:
    """Do jobs until the input ends."""
    jobs = Jobs()
    for line in sys.stdin:
        job, *arguments = json.loads(line)
        try:
            answer = ["answer", getattr(jobs, job)(*arguments)]
        except Exception:  # noqa: BLE001 (the other end shows it)
            answer = ["failed", traceback.format_exc()]
        print(json.dumps(answer), flush=True)
