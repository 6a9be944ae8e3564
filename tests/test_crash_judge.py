"""The judge of the crash runs, judged: a library that breaks a promise is found out.

Children are forked from this very process here, so that they have its broken library.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from lai import POLICY, Agent, Effect, Question, Run, Status, Tool
from lai.course import child, crashes, deaths, worlds
from lai.course.matrix import Matrix
from lai.journal import Journal
from lai.outcome import run_once
from lai.recovery import Move, Standing

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of this process, and no progress bar."""
    monkeypatch.setattr(child, "_CONTEXT", multiprocessing.get_context("fork"))
    monkeypatch.setenv("LAI_ANSWER", "y")


def killed_at(tool: str, point: str) -> Matrix:
    return crashes.matrix([tool], at=[point])


def policy(where: Standing, effect: Effect, move: Move) -> Callable[[pytest.MonkeyPatch], None]:
    """A library whose policy table has one other cell."""
    row = MappingProxyType({**POLICY[where], effect: move})
    table = MappingProxyType({**POLICY, where: row})
    return lambda patch: patch.setattr("lai.recovery.POLICY", table)


def settles_as(status: Status) -> Callable[[pytest.MonkeyPatch], None]:
    """What nobody saw is called a failure, or a success."""
    return lambda patch: patch.setattr(
        Journal, "settle", lambda journal, execution, *_: journal.proceed(execution, status, {})
    )


def too_humble(patch: pytest.MonkeyPatch) -> None:
    """What the ledger knows is published as unknown."""
    patch.setattr("lai.recovery.receipt", lambda *_: {"status": "unknown"})


def acts_in_secret(patch: pytest.MonkeyPatch) -> None:
    """While a verdict is asked for, the effect is made after all."""

    def answer(_: object, root: Path, question: Question) -> str:
        if question.kind == "verdict":
            (root / "audit.log").write_text("书\n", "utf-8")
        return "y"

    patch.setattr(worlds.World, "answer", answer)


def under_another_name(patch: pytest.MonkeyPatch) -> None:
    """The tool runs once more, as an attempt that no ledger knows."""

    def run(tool: Tool, arguments: dict[str, Any], attempt: Run) -> tuple[Status, dict[str, Any]]:
        run_once(tool, arguments, replace(attempt, execution_id="exec_nobody"))
        return run_once(tool, arguments, attempt)

    patch.setattr("lai.executor.run_once", run)


def new_key_each_time(patch: pytest.MonkeyPatch) -> None:
    """A retry goes out under a key of its own."""
    patch.setattr(Journal, "remote_key", lambda journal, _: f"key {journal.session.last_line}")


def gives_up(patch: pytest.MonkeyPatch) -> None:
    """A restart leaves the turn as it is."""
    patch.setattr(Agent, "continue_turn", lambda _: "")


def answers_twice(patch: pytest.MonkeyPatch) -> None:
    """A call gets two receipts."""
    once = Journal.publish

    def publish(journal: Journal, *what: object) -> None:
        once(journal, *what)  # type: ignore[arg-type]
        once(journal, *what)  # type: ignore[arg-type]

    patch.setattr(Journal, "publish", publish)


SABOTAGE = [
    (
        policy(Standing.UNKNOWN, Effect.OPAQUE, Move.ATTEMPT),
        *("run_bash", "after effect", "succeeded with 2 effects"),
    ),
    (
        policy(Standing.UNKNOWN, Effect.QUERYABLE, Move.ATTEMPT),
        *("submit", "after effect", "succeeded with 2 effects"),
    ),
    (
        policy(Standing.NEW, Effect.OPAQUE, Move.SETTLE),
        *("run_bash", "after tool call", "the turn has no end"),
    ),
    (settles_as(Status.FAILED), "run_bash", "after effect", "failed with 1 effect"),
    (settles_as(Status.FAILED), "pay", "before effect", "failed with 0 effects"),
    (settles_as(Status.SUCCEEDED), "run_bash", "after effect", "succeeded with 1 effect"),
    (too_humble, "run_bash", "after outcome", "unknown with 1 effect"),
    (acts_in_secret, "run_bash", "before effect", "it acted, and then said that nobody knows"),
    (under_another_name, "write_file", "after tool call", "started before `running` was on disk"),
    (new_key_each_time, "pay", "after effect", "succeeded with 2 effects"),
    (gives_up, "pay", "after running", "nothing with 0 effects"),
    (answers_twice, "pay", "after approved", "2 receipts"),
]


@pytest.mark.parametrize(("spoil", "tool", "point", "said"), SABOTAGE)
def test_the_judge_notices_a_broken_library(
    spoil: Callable[[pytest.MonkeyPatch], None],
    tool: str,
    point: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same death, with a library that breaks its promise, is called broken."""
    assert killed_at(tool, point).broken == []
    spoil(monkeypatch)
    (death,) = killed_at(tool, point).broken
    assert said in death.broken


def test_a_run_that_is_not_killed_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody was killed, nothing was proved: that is broken too."""
    monkeypatch.setattr(child, "kill", lambda: sys.exit(0))
    (death,) = killed_at("pay", "after effect").broken
    assert death.broken[0].startswith("to be killed at 'after effect of pay'")


def test_the_command_fails_for_a_broken_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A library that repeats an opaque call gets exit code 1, and each death is named."""
    monkeypatch.setattr(crashes, "points", lambda _: ("after tool call", "after effect"))
    assert crashes.main(["--tool", "run_bash"]) == 0
    policy(Standing.UNKNOWN, Effect.OPAQUE, Move.ATTEMPT)(monkeypatch)
    assert crashes.main(["--tool", "run_bash", "--json", str(tmp_path / "f.json")]) == 1
    assert "BROKEN" in capsys.readouterr().out
    assert json.loads((tmp_path / "f.json").read_text("utf-8"))["broken"] == 1


def test_the_command_fails_when_the_judge_is_blind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the naive agent breaks nothing where it must, the command does not call it a proof."""
    deaf = {**deaths.PROMISES, "naive": (deaths.ONCE, frozenset({("succeeded", 2)}))}
    monkeypatch.setattr(deaths, "PROMISES", deaf)
    monkeypatch.setattr(crashes, "points", lambda _: ("after effect",))
    assert crashes.main(["--tool", "naive"]) == 1
    assert "BLIND" in capsys.readouterr().err
