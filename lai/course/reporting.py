"""A desk at the report service: what the notebook on timeouts works with.

    with running(fresh()) as service, desk(service.url) as at:
        at.worker.plan("op-report-001", REPORT, run_id="run-demo", tool_name=TOOL)

The service is a real process, the store a real database; only the clock of the store is
the notebook's, so that a day passes in no time and the tables stay the same.

As a program it is the agent that dies: ``python -m lai.course.reporting SESSION URL POINT``.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import httpx2

from lai.course.callers import Post
from lai.course.place import MORNING, agent_at, fresh, workspace_of
from lai.course.tables import SIGN as SIGNS
from lai.course.tables import Table
from lai.faults import Fault, kill
from lai.models import Model, scripted
from lai.operations.answers import Contract
from lai.operations.client import Client
from lai.operations.patience import Patient
from lai.operations.policy import PollLater, RequireReview, Step
from lai.operations.records import Operation, State
from lai.operations.references import References
from lai.operations.service import running
from lai.operations.show import STEPS
from lai.operations.store import Store
from lai.operations.tools import CREATE, READ, report_tools
from lai.operations.work import Service, Worker
from lai.records import JSON, Status
from lai.tools import Tool

TITLE = "测试报告"
REPORT: JSON = {"title": TITLE, "lines": ["通过 3 项", "失败 0 项"]}
PATIENCE = 0.3  # seconds for an answer; the service never needs so long
PROMISE = Contract(scope="report-service", tool_version="v1", retention=86_400.0, margin=3_600.0)
HOUR = 3_600.0
SIGN: Mapping[str, str] = MappingProxyType(
    {
        # These mean here what they mean in a session.
        **{known: SIGNS[Status(known)] for known in ("unknown", "succeeded", "rejected")},
        State.PLANNED: "○",
        State.PENDING: "●",
        State.CANCELLED: "–",
        State.REVIEW_REQUIRED: "?",
        State.ABANDONED: "…",
    }
)


class Clock:
    """A clock that goes on when it is told to. Calling it tells seconds since the epoch."""

    def __init__(self) -> None:
        self._now = MORNING

    def __call__(self) -> float:
        """The time."""
        return self._now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


@dataclass(frozen=True, slots=True)
class Desk:
    """A store, its clock, and one worker at it."""

    store: Store
    clock: Clock
    worker: Worker

    def tools(self) -> tuple[Tool, ...]:
        """The tools of an agent that works at this desk."""
        return report_tools(self.worker, "run-demo", wait=0.0)


@contextmanager
def desk(url: str, folder: Path | None = None, contract: Contract = PROMISE) -> Iterator[Desk]:
    """A desk at the service, with the database in ``folder`` (a new one by itself)."""
    folder, clock = folder or fresh(), Clock()
    database = f"sqlite:///{folder / 'operations.sqlite'}"
    with Client(url, timeout=PATIENCE) as client, Store(database, now=clock) as store:
        yield Desk(store, clock, at_service(client, store, folder, contract))


def at_service(
    service: Service, store: Store, folder: Path, contract: Contract = PROMISE
) -> Worker:
    """A worker; its inputs and receipts lie in ``folder``."""
    return Worker(
        store=store,
        references=References(folder / "files"),
        service=service,
        contract=contract,
        owner="worker-A",
    )


@contextmanager
def patient(at: Desk, url: str, seconds: float) -> Iterator[Worker]:
    """The desk's worker, but waiting ``seconds`` only; the answer that comes later is noted."""
    with Client(url, timeout=10.0) as client:
        yield replace(at.worker, service=Patient(client, seconds, at.worker.heard_late))


async def heard(at: Desk, operation_id: str, kind: str) -> None:
    """Wait until the log of an operation has an event of this kind."""
    async with asyncio.timeout(10.0):  # far longer than any answer here takes
        # The answer comes in a thread of its own, which knows no event of this loop.
        while all(e["kind"] != kind for e in at.store.events(operation_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def lose(service: running.Service, answers: int, mishap: str = "R1") -> None:
    """Let the answers to the next calls get lost, after the work is done; or what else befalls."""
    first = 1 + max((call["call"] for call in service.calls()), default=0)
    service.plan_mishaps({"mishap": mishap, "call": first + n} for n in range(answers))


def counted(service: running.Service, act: Callable[[], object]) -> tuple[list[str], int]:
    """What arrived at the service while ``act`` was done, and how many reports it made."""
    calls, made = len(service.calls()), service.effects()["reports"]
    act()
    arrived = [call["method"] for call in service.calls()[calls:]]
    return arrived, service.effects()["reports"] - made


def post_to(url: str) -> Post:
    """One plain POST, as a caller without a record makes it."""

    def post(key: str, body: JSON) -> JSON:
        with httpx2.Client(timeout=PATIENCE, trust_env=False) as http:
            headers = {"Idempotency-Key": key, "Api-Version": "v1"}
            reply = http.post(f"{url}/reports", json=body, headers=headers)
            reply.raise_for_status()
            answer: JSON = reply.json()
            return answer

    return post


def marked(state: str) -> str:
    """A state with its sign in front; the colour of a session's table is not needed to read it."""
    return f"{SIGN[state]} {state}"


def words(step: Step) -> str:
    """A step of the policy in words; times are seconds since the epoch."""
    word = STEPS[type(step)]
    match step:
        case PollLater(at, _):
            return f"{word} until second {at:g}"
        case RequireReview(missing):
            return f"{word}; missing: {missing}"
        case _:
            return word


def operations_table(found: Iterable[Operation]) -> Table:
    """Operations as rows: where each stands, and what its record says to do."""
    return Table(
        {
            "operation": known.operation_id,
            "state": marked(known.state),
            "attempt": known.attempt,
            "remote_job_id": known.remote_job_id or "–",
            "resume_action": known.resume_action or "–",
            "asked": known.query_count,
        }
        for known in found
    )


def events_table(at: Desk, operation_id: str) -> Table:
    """What was heard and decided about an operation, in order."""
    return Table(
        {
            "after": f"{event['at'] - MORNING:.0f} s",
            "what": marked(event["kind"]) if event["kind"] in SIGN else f"! {event['kind']}",
            "evidence": re.sub(
                "[0-9a-f]{64}", "…", event["evidence"]
            ),  # a receipt has a time in it
            "by": event["by"],
        }
        for event in at.store.events(operation_id)
    )


# The agent that uses the service, and dies.


def reporter() -> Model:
    """A model that has a report made, reads its receipt, and says so."""
    named = {"operation_id": f"demo:{CREATE}:call_1"}
    return scripted([[(CREATE, REPORT)], [(READ, named)], "报告已经做好 🙂"])


def die(session: Path, url: str, point: str) -> int:
    """Run the agent in a process of its own and kill it at ``point``; its return code.

    ``point`` is "before send", "after send", or one of the asking: "before ask", "after ask".
    """
    command = [sys.executable, "-m", "lai.course.reporting", str(session), url, point]
    return subprocess.run(command, check=False).returncode


class _Deadly:
    """A service whose every send and question may be the last thing this process does."""

    def __init__(self, service: Service, point: str) -> None:
        moment, _, name = point.partition(" ")
        self._fault = Fault(at=0 if moment == "before" else 1, die=kill)
        self.send = self._fault.around("send", service.send) if name == "send" else service.send
        self.ask = self._fault.around("ask", service.ask) if name == "ask" else service.ask


def main(session: Path, url: str, point: str) -> None:
    """Begin a turn at ``session``, and be killed at ``point``."""
    root = workspace_of(session)
    with desk(url, root) as at:
        worker = at_service(_Deadly(at.worker.service, point), at.store, root)
        tools = report_tools(worker, "run-demo", wait=0.0)
        with agent_at(session, lambda _: "y", model=reporter(), tools=tools) as agent:
            agent.run("请生成一份测试报告")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
