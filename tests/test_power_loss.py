"""Power is lost at every call, with every part of what was not saved, and in the recovery too.

A push looks at all first losses and a part of what may follow each; ``LAI_PROOF=1`` at all of
it. The last tests take away one fsync after the other: each must be missed.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash_scenarios import FILE, SCENARIOS
from crash_world import TOOLS
from power import Explorer, PowerWorld

from lai import Run, Status, Tool, executor
from lai.journal import Journal

PROOF = os.environ.get("LAI_PROOF") == "1"
OLD = {FILE["path"]: "旧的一行\u2028\n"}


@dataclass(frozen=True)
class Case:
    """A story, the person in it, how many states there are at least, and what was there before."""

    scenario: str
    policy: str
    least: int
    old: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.scenario}, {self.policy}{', a file is there' * bool(self.old)}"


CASES = [
    Case("write", "declines", 7000),
    Case("write", "declines", 7000, tuple(OLD.items())),
    Case("opaque", "declines", 3500),
    Case("opaque", "truthful", 3500),
    Case("refused", "declines", 2000),
    Case("queryable", "declines", 3500),
    Case("keyed", "declines", 3500),
    Case("no answer", "truthful", 4000),
    Case("write and send", "truthful", 12_000),
    Case("outgrown", "declines", 9_000),
    Case("published scene", "declines", 7000),
]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where the system has one; schemas have no part in this."""
    monkeypatch.setattr(Tool, "schema", lambda tool: {"name": tool.name})
    memory = Path("/dev/shm")  # noqa: S108
    made = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    yield made
    monkeypatch.undo()
    shutil.rmtree(made, ignore_errors=True)


def explored(
    folder: Path, monkeypatch: pytest.MonkeyPatch, case: Case, depth: int, share: float
) -> Explorer:
    """All that may become of a story, or a part of it."""
    world = PowerWorld(folder / "w", SCENARIOS[case.scenario], case.policy, old=dict(case.old))
    world.disk.install(monkeypatch)
    explorer = Explorer(world, depth, share)
    explorer.explore()
    return explorer


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_power_loss_at_every_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """Nothing that was acknowledged is lost, no effect is done twice, and the turn ends."""
    found = explored(folder, monkeypatch, case, 2, 1.0 if PROOF else 0.02)
    print(f"{case}: {found.counts['states']:,} states, {found.counts['lives']:,} lives")
    assert found.counts["states"] >= (case.least if PROOF else 80)


# --- what would be noticed ----------------------------------------------------------------


class Forgetful:
    """The system without one kind of fsync."""

    def __init__(self, forgets: Callable[[int], bool]) -> None:
        self.forgets, self.real = forgets, os.fsync

    def __call__(self, descriptor: int) -> None:
        """Save, or only say so."""
        if not self.forgets(descriptor):
            self.real(descriptor)


def named(part: str) -> Callable[[int], bool]:
    """Whether the open file's name has this part."""
    return lambda descriptor: part in Path(f"/proc/self/fd/{descriptor}").readlink().name


MISSING = {
    "the session": named("session-"),
    "the state folder": named(".agent_state"),
    "the folder of the state folder": named("work"),
    "the new file": named(".lai-"),
}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names are looked up there")
@pytest.mark.parametrize("name", MISSING)
def test_a_missing_fsync_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without it one of the states breaks a promise."""
    case = Case("write", "declines", 0)
    world = PowerWorld(folder / "w", SCENARIOS[case.scenario], case.policy)
    world.disk.install(monkeypatch)
    monkeypatch.setattr(os, "fsync", Forgetful(MISSING[name]))
    with pytest.raises(AssertionError):
        Explorer(world, 2, 0.2).explore()


def test_an_effect_before_its_record_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for an order that is wrong: the effect first, then ``running``."""
    begun = executor.run_once

    def early(*about: Any) -> Any:
        return done.pop() if done else begun(*about)

    done: list[Any] = []
    proceed = Journal.proceed

    def late(journal: Journal, execution: Any, status: Status, *more: Any, **details: Any) -> Any:
        if status is Status.RUNNING:
            tool = TOOLS["send"](world)
            done.append(
                begun(tool, {"text": "书"}, Run(execution.id, f":send:{execution.call_id}"))
            )
        return proceed(journal, execution, status, *more, **details)

    world = PowerWorld(folder / "w", SCENARIOS["opaque"], "declines")
    world.disk.install(monkeypatch)
    monkeypatch.setattr(executor, "run_once", early)
    monkeypatch.setattr(Journal, "proceed", late)
    with pytest.raises(AssertionError):
        Explorer(world, 1).explore()
