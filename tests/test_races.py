"""Real processes at one database: each operation has one owner at a time, and one end."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import dump, query
from store_child import BODY, Child, answers, children, intent, lines, stub_worker, until

from lai.operations.records import State
from lai.operations.store import ClaimLost, Store

pytest_plugins = ["postgres"]

WORKERS, LEASE = 4, 0.2


@pytest.fixture(scope="module")
def team() -> Iterator[list[Child]]:
    """Four idle processes."""
    with children(WORKERS) as born:
        yield born


@pytest.fixture
def mortal() -> Iterator[Child]:
    """A process to be killed."""
    with children(1) as born:
        yield born[0]


def gate(folder: Path, name: str) -> str:
    """A folder at which processes wait for each other."""
    (folder / name).mkdir()
    return str(folder / name)


def all_do(team: list[Child], job: str, *arguments: Any) -> list[Any]:
    """Have all do the same job at the same time; what each answers."""
    for child in team:
        child.tell(job, *arguments)
    return answers(team)


def test_four_programs_make_one_schema(team: list[Child], url: str, tmp_path: Path) -> None:
    """Programs that open a new database at the same moment all find it ready, made once."""
    all_do(team, "open", url, gate(tmp_path, "open"), WORKERS)
    assert dump(url, "about") == {"about": [(1,)]}
    with Store(url) as store:
        assert store.all() == []


def test_each_intent_is_stored_by_one(team: list[Child], url: str, tmp_path: Path) -> None:
    """Four processes plan the same 100 operations: 100 rows, 100 winners, 100 events."""
    ids = [f"op-{number:03} 书" for number in range(100)]
    all_do(team, "open", url)
    won = all_do(team, "insert", ids, gate(tmp_path, "insert"), WORKERS)
    assert sorted(one for winner in won for one in winner) == ids
    rows = dump(url, "operations", "events")
    assert [len(rows[name]) for name in ("operations", "events")] == [100, 100]
    with Store(url) as store:
        pids = {str(child.process.pid): wins for child, wins in zip(team, won, strict=True)}
        for op in store.all():
            assert op.operation_id in pids[op.run_id.removeprefix("run-")]


def test_each_operation_is_finished_once(team: list[Child], url: str, tmp_path: Path) -> None:
    """50 operations, short leases, two processes that oversleep theirs: 50 ends, no two alike."""
    ids = [f"op-{number:02}" for number in range(50)]
    all_do(team, "open", url)
    with Store(url) as store:
        for name in ids:
            store.plan(intent(name))
    start = gate(tmp_path, "work")
    for number, child in enumerate(team):
        child.tell("work", start, WORKERS, LEASE, number < 2)
    claims = [tuple(claim) for did in answers(team) for claim in did]
    assert sorted(name for name, _, outcome in claims if outcome == "done") == ids
    assert len({(name, fence) for name, fence, _ in claims}) == len(claims)
    lost = Counter(name for name, _, outcome in claims if outcome == "lost")
    assert lost.total() >= 2
    _judge(url, ids, claims, lost)


def _judge(url: str, ids: list[str], claims: list[Any], lost: Counter[str]) -> None:
    with Store(url) as store:
        for name in ids:
            op, kinds = store.get(name), Counter(e["kind"] for e in store.events(name))
            fences = sorted(fence for claimed, fence, _ in claims if claimed == name)
            assert (op.state, op.owner, op.fence) == ("succeeded", None, len(fences))
            assert fences == list(range(1, op.fence + 1))
            assert kinds == Counter(planned=1, pending=1, succeeded=1) + Counter(late=lost[name])
        told = query(url, "SELECT operation_id FROM outbox")
        assert sorted(told) == [(name,) for name in ids]


@pytest.mark.parametrize("awakes", ["while another is at it", "after another has finished"])
def test_a_zombie_changes_nothing(team: list[Child], url: str, awakes: str) -> None:
    """Stopped past its lease and woken, a worker changes no row and leaves what it heard."""
    one = team[0]
    with Store(url) as store:
        store.plan(intent())
        one.do("open", url)
        fence = one.do("claim", LEASE)
        os.kill(one.process.pid, signal.SIGSTOP)
        one.tell("finish")
        held = until(lambda: store.claim("another", 1e6))
        assert held.fence > fence
        if awakes.startswith("after"):
            held = store.change(held, State.PENDING, "about to send", sent_at=1.0)
            store.change(held, State.REJECTED, "refused")
        rows, events = dump(url, "operations", "outbox"), store.events("op-书")
        os.kill(one.process.pid, signal.SIGCONT)
        assert one.answer() == "lost"
        assert dump(url, "operations", "outbox") == rows
        *before, late = store.events("op-书")
        assert before == events
        assert (late["kind"], late["fence"]) == ("late", fence)
        if not awakes.startswith("after"):  # the new owner goes on as if nothing had been
            store.change(held, State.PENDING, "about to send", sent_at=1.0)


# Where a worker dies; what is sent in all, and how it ends when others come back to it.
DEATHS = [
    ("before pending", 1, "succeeded"),
    ("before a byte left", 0, "unknown"),
    ("after it was sent", 1, "succeeded"),
]


@pytest.mark.parametrize(("dies", "sends", "end"), DEATHS)
def test_a_death_is_no_permission_to_send(
    mortal: Child, url: str, tmp_path: Path, dies: str, sends: int, end: str
) -> None:
    """Killed with its claim, a worker is followed by others, who ask; from pending nobody sends."""
    mortal.do("open", url)
    mortal.tell("send", str(tmp_path), dies)
    assert mortal.process.wait(60) == -signal.SIGKILL
    with Store(url) as store:
        crossed = dies != "before pending"
        assert store.get("op-书").state == ("pending" if crossed else "planned")
        worker = stub_worker(store, tmp_path, "", lease=LEASE)
        assert until(worker.work_once).state == end
        for _ in range(3):  # and no more of it, due or not
            assert worker.work_on("op-书").state == end
    sent = lines(tmp_path / "sends")
    by = mortal.process.pid if crossed else os.getpid()
    assert sent == [f"{by} op-书"] * sends


def test_two_workers_send_once(team: list[Child], url: str, tmp_path: Path) -> None:
    """While one worker holds the claim, another that is told to work on it sends nothing."""
    one = team[0]
    with Store(url) as store:
        worker = stub_worker(store, tmp_path, "", lease=1e6)
        worker.plan("op-书", BODY, run_id="run-demo", tool_name="create_report")
        one.do("open", url)
        assert one.do("claim", 1e6) == 1
        assert worker.work_once() is None
        assert worker.work_on("op-书").state == "planned"
        assert one.do("finish") == "done"
        assert worker.work_on("op-书").state == "succeeded"
        with pytest.raises(ClaimLost):
            store.change(store.plan(intent("op-2")), State.PENDING, "not claimed", sent_at=1.0)
    assert lines(tmp_path / "sends") == []
