"""Crashes at every point of a turn, and at every point of the recovery from each of them.

A push takes every third of the second crashes; ``LAI_PROOF=1`` takes all.

The lives are simulated (an exception that nothing in the library handles), the effects are
counted in the world outside. ``test_sigkill`` does the same with real processes, for fewer
scenarios. The last test is about the others: what they would notice.
"""

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from crash_scenarios import FILE, SCENARIOS, judge
from crash_world import FINAL, QuickSession, Scenario, World, live
from invariants import check

from lai import POLICY, Answer, Effect, Execution, Finding, Status, Tool
from lai.faults import Fault, crash
from lai.journal import Journal
from lai.recovery import Move, Standing

STEP = 1 if os.environ.get("LAI_PROOF") == "1" else 3
BOTH = ("continue", "run")
# Scenario, person, ways to come back, and how many schedules there are at least.
CASES = [
    ("write", "declines", BOTH, 1100),
    ("opaque", "declines", BOTH, 1100),
    ("opaque", "truthful", ("run",), 650),
    ("opaque", "mistaken", ("continue",), 550),
    ("no answer", "declines", ("continue",), 500),
    ("no answer", "truthful", ("run",), 800),
    ("confirmed failure", "declines", ("continue",), 450),
    ("confirmed failure", "truthful", ("recover",), 500),
    ("stopped by a person", "declines", ("continue",), 450),
    ("stopped by a person", "truthful", ("run",), 550),
    ("payment stopped", "declines", ("continue",), 500),
    ("queryable", "declines", BOTH, 1100),
    ("inconclusive", "declines", ("run",), 650),
    ("inconclusive", "truthful", ("continue",), 500),
    ("keyed", "declines", ("run",), 650),
    ("refused", "declines", ("continue",), 270),
    ("write and send", "declines", ("continue",), 1100),
    ("write and send", "truthful", ("run",), 1400),
    ("send and submit", "declines", ("run",), 1400),
    ("send and submit", "truthful", ("continue",), 1100),
    ("the same twice", "truthful", ("recover",), 1100),
    ("pay, refused send", "declines", ("continue",), 800),
    ("outgrown", "declines", ("continue",), 1400),
    ("published scene", "declines", BOTH, 1400),
    ("published scene", "truthful", ("continue",), 600),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fsync, and no schemas: neither has a part in what a dying process leaves."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(Tool, "schema", lambda tool: {"name": tool.name})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has one."""
    memory = Path("/dev/shm")  # noqa: S108
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(dir=memory))
    yield made
    shutil.rmtree(made)


def explore(
    world: World, way: str, depth: int, judge: Callable[[World], None], first: int = 0
) -> Iterator[tuple[int, ...]]:
    """Every schedule of up to ``depth`` crashes from here on; yields each once it was judged.

    Of the last crashes of several a push takes each ``STEP``-th, beginning with another one.
    """
    state = world.save()
    points = live(world, way)
    judge(world)
    yield ()
    sampled = depth == 1 and first > 0
    chosen = range(first % STEP, len(points), STEP) if sampled else range(len(points))
    for at in chosen if depth else ():
        world.restore(state)
        live(world, way, Fault(at))
        assert world.final is None, "the fault did not happen"
        for later in explore(world, way, depth - 1, judge, at + 1):
            yield (at, *later)


@pytest.mark.parametrize(("name", "policy", "ways", "least"), CASES)
def test_every_pair_of_crashes(
    folder: Path, name: str, policy: str, ways: tuple[str, ...], least: int
) -> None:
    """Whatever two points a run and its recovery die at, every invariant holds at the end."""
    schedules = 0
    for way in ways:
        world = World(folder / way, SCENARIOS[name], policy)
        schedules += sum(1 for _ in explore(world, way, 2, judge))
    print(f"{name}, {policy}: {schedules} schedules")
    assert schedules >= least // STEP


@pytest.mark.parametrize("policy", ["declines", "truthful"])
def test_every_crash_around_a_real_command(folder: Path, policy: str) -> None:
    """The same for a real bash: a line is counted in the file that the command writes."""
    world = World(folder / policy, SCENARIOS["bash"], policy)

    def count(world: World) -> None:
        judge(world)
        audit = world.root / "audit.log"
        lines = audit.read_text("utf-8").splitlines() if audit.exists() else []
        assert lines == ["书"] * len(world.deeds)

    assert sum(1 for _ in explore(world, "continue", 1, count)) >= 25


@pytest.mark.parametrize("name", SCENARIOS)
def test_many_crashes_in_a_row(folder: Path, name: str) -> None:
    """Lives that die one after the other, appends torn anywhere, leave no more doubt than two."""
    chance = random.Random(name)  # noqa: S311
    tearing = QuickSession.tearing(lambda length: chance.randint(max(0, length - 2), length))
    for number in range(15 if "bash" in name else 80):
        policy = chance.choice(["declines", "truthful"])
        world = World(folder / str(number), SCENARIOS[name], policy)
        for _ in range(chance.randint(3, 6)):
            kind = chance.choice([QuickSession, tearing])
            live(world, chance.choice(BOTH), Fault(chance.randrange(30)), kind)
        live(world, "continue")
        judge(world)


def _stop() -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["write", "opaque", "queryable", "keyed", "write and send"])
def test_a_stop_at_every_point(folder: Path, name: str) -> None:
    """Ctrl-C anywhere, and the same agent goes on, or a new one where it must not."""
    points = live(World(folder / "whole", SCENARIOS[name]), "continue")
    for at, point in enumerate(points):
        if not point.startswith("during"):  # an interrupt of the write itself stops the session
            world = World(folder / str(at), SCENARIOS[name], "truthful")
            live(world, "continue", Fault(at, _stop))
            live(world, "continue")
            check(world.story())


def test_a_stop_outlives_the_process(folder: Path) -> None:
    """Stopped by a person, recorded and then killed: the next process asks before it retries."""
    points = live(World(folder / "whole", SCENARIOS["payment stopped"]), "continue")
    settled = points.index("after append", points.index("before effect of halted"))
    world = World(folder / "world", SCENARIOS["payment stopped"])
    live(world, "continue", Fault(settled))
    live(world, "continue")
    check(world.story())
    assert len(list(world.story().ledger(status="running"))) == 1
    assert [said.kind for said in world.said] == ["approval", "verdict"]


@pytest.mark.parametrize(("policy", "left"), [("declines", "别人\u2028"), ("truthful", None)])
@pytest.mark.parametrize("at", [5, 6])
@pytest.mark.parametrize("end", [crash, _stop])
def test_the_target_moves_after_a_retry_was_approved(
    folder: Path, end: Callable[[], object], at: int, policy: str, left: str | None
) -> None:
    """A retry that was written down and not begun asks once about a file that is another now."""
    world = World(folder / "world", SCENARIOS["write"], policy)
    points = live(World(folder / "whole", world.scenario), "continue")
    target = world.root / str(FILE["path"])

    def end_and_move() -> NoReturn:
        target.write_text("别人\u2028", "utf-8")
        end()
        raise AssertionError

    live(world, "continue", Fault(points.index("before effect of write_file")))
    # The new process appends unknown, approved, running; it ends between the last two.
    live(world, "continue", Fault(at, end_and_move))
    live(world, "continue")
    check(world.story())
    assert sum(said.kind == "verdict" for said in world.said) == 1
    assert target.read_text("utf-8") == (left or FILE["content"])


@pytest.mark.parametrize("lines", [1, 2])
def test_an_id_that_stands_twice(folder: Path, lines: int) -> None:
    """In a file that exists already, calls of one id are each answered once, with the truth."""
    calls = [
        {"id": "call_书", "type": "function", "function": {"name": "send", "arguments": text}}
        for text in ('{"text": "一"}', '{"text": "二"}')
    ]
    batches = [calls] if lines == 1 else [[call] for call in calls]
    messages = [{"role": "user", "content": "两次"}]
    messages += [{"role": "assistant", "content": "", "tool_calls": batch} for batch in batches]
    records = ({"type": "message", "message": message} for message in messages)
    start = "".join(json.dumps(record) + "\n" for record in records).encode()
    world = World(folder / "world", Scenario("twice", ("send",), (), start=start))
    live(world, "continue")
    assert world.final == FINAL
    done = [deed.about for deed in world.deeds]
    assert len(set(done)) == len(done)
    told = [receipt.result for receipt in world.story().receipts]
    assert len(told) == len(calls)
    assert [r["done"] for r in told if r["status"] == "succeeded"] == done


def _opaque(standing: Standing, move: Move) -> dict[Standing, Any]:
    """The policy table with another cell for opaque tools."""
    return {**POLICY, standing: {**POLICY[standing], Effect.OPAQUE: move}}


def _start_unwritten(journal: Journal, execution: Execution, status: Status, *more: Any) -> Any:
    if status is Status.RUNNING:
        return replace(execution, status=status)
    return PROCEED(journal, execution, status, *more)


def _cut(session: Any, tail: bytes) -> None:
    os.truncate(session.path, session.path.stat().st_size - len(tail))


def _tell_failed(execution: Execution, *_: object) -> dict[str, str]:
    return {"status": "failed", "execution_id": execution.id}


PROCEED = Journal.proceed
# Scenario, what is made wrong and how, and what must be noticed.
SABOTAGE: list[tuple[str, str, object, str]] = [
    ("opaque", "recovery.POLICY", _opaque(Standing.UNKNOWN, Move.ATTEMPT), "2 effects, 1 allowed"),
    ("opaque", "journal.Journal.proceed", _start_unwritten, "no running for"),
    ("opaque", "recovery.receipt", _tell_failed, "published failed, ledger"),
    ("opaque", "session.Session._mend", _cut, "were changed or cut"),
    (
        "opaque",
        "journal.Journal.settle",
        lambda journal, execution, *_: PROCEED(journal, execution, Status.SUCCEEDED, {}),
        "nothing happened",
    ),
    (
        "queryable",
        "executor.look_up_once",
        lambda *_: Answer(Finding.ABSENT, "没有"),
        "submit",
    ),
    (
        "keyed",
        "journal.Journal.remote_key",
        lambda _, call: f"world:pay:{call.id}:{object()}",
        "Deed",
    ),
    (
        "send and submit",
        "ledger.Ledger.first_open",
        lambda ledger: next(reversed(ledger.open), None),
        "call_2",
    ),
]


@pytest.mark.parametrize(("name", "place", "wrong", "noticed"), SABOTAGE)
def test_the_judge_notices(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: str,
    wrong: object,
    noticed: str,
) -> None:
    """A library that breaks one rule is found out by single crashes."""
    every = dict.fromkeys([None, *Status], frozenset(Status))
    monkeypatch.setattr("lai.ledger.LEGAL", every)  # so that the library itself stays silent
    monkeypatch.setattr(f"lai.{place}", wrong)
    world = World(folder / "world", SCENARIOS[name])
    with pytest.raises(AssertionError, match=noticed):
        list(explore(world, "continue", 1, judge))
