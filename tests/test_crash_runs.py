"""Crash runs: killed at a point, started again, judged from outside.

What is expected stands in a table here, and effects are counted here once more. Whether the
judge notices a library that breaks its promises: ``test_crash_judge``.
"""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lai import Effect, session_path
from lai.course import child, crashes, deaths, worlds
from lai.course.matrix import Matrix

TEXT = "书\u2028🖋"
POINTS = {  # how many there are
    "read_file": 18,
    **dict.fromkeys(("write_file", "pay", "submit", "run_bash", "run_bash+look"), 28),
    "naive": 19,
}
ASK_MODEL = "ask the model"
SETTLED = ("settle as unknown",)
AGAIN = ("attempt", "publish succeeded", ASK_MODEL)
NO_VERDICT = (*SETTLED, "ask for a verdict", "publish unknown", ASK_MODEL)
# Tool, point: what the restart does; executions, starts, effects; what the model was told.
EXPECTED = [
    ("read_file", "after effect", ("attempt", ASK_MODEL), (None, 2, 0), "completed"),
    ("write_file", "before effect", (*SETTLED, *AGAIN), (2, 1, 1), "succeeded"),
    ("write_file", "during effect", (*SETTLED, *AGAIN), (2, 2, 1), "succeeded"),
    ("write_file", "after effect", (*SETTLED, *AGAIN), (2, 2, 1), "succeeded"),
    ("write_file", "after approved", ("ask", *AGAIN), (1, 1, 1), "succeeded"),
    ("write_file", "after outcome", AGAIN[1:], (1, 1, 1), "succeeded"),
    ("pay", "during effect", (*SETTLED, *AGAIN), (2, 2, 1), "succeeded"),
    ("pay", "after effect", (*SETTLED, *AGAIN), (2, 2, 1), "succeeded"),
    ("submit", "during effect", (*SETTLED, "look up", *AGAIN), (2, 2, 1), "succeeded"),
    ("submit", "after effect", (*SETTLED, "look up", *AGAIN[1:]), (1, 1, 1), "succeeded"),
    ("run_bash", "before effect", NO_VERDICT, (1, 0, 0), "unknown"),
    ("run_bash", "during effect", NO_VERDICT, (1, 1, 1), "unknown"),
    ("run_bash", "during outcome", NO_VERDICT, (1, 1, 1), "unknown"),
    ("run_bash", "during running", ("ask", *AGAIN), (1, 1, 1), "succeeded"),
    (
        "run_bash+look",
        "before effect",
        (*SETTLED, "ask for a verdict", "ask", *AGAIN),
        (2, 1, 1),
        "succeeded",
    ),
    (
        "run_bash+look",
        "after effect",
        (*SETTLED, "ask for a verdict", *AGAIN[1:]),
        (1, 1, 1),
        "succeeded",
    ),
    ("naive", "before effect", ("attempt", ASK_MODEL), (None, 1, 1), "succeeded"),
    ("naive", "after effect", ("attempt", ASK_MODEL), (None, 2, 2), "succeeded"),
]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No progress bar."""
    monkeypatch.setenv("LAI_ANSWER", "y")


def effects(tool: str, root: Path) -> int:
    """How often the effect is there; counted in the files, by nobody's code but this."""
    match tool:
        case "read_file":
            return int((root / "书.txt").read_text("utf-8") != TEXT)
        case "write_file":
            note = root / "note.txt"
            return int(note.exists() and note.read_bytes() == TEXT.encode())
        case "pay":
            with closing(sqlite3.connect(root / "payments.db")) as database:
                return len(database.execute("SELECT * FROM payments").fetchall())
        case "submit":
            data = (root / "jobs.jsonl").read_text("utf-8")
            return data.count(json.dumps(TEXT, ensure_ascii=False) + "}\n")
    log = root / "audit.log"
    return log.read_text("utf-8").count("书\n") if log.exists() else 0


def killed_at(tool: str, point: str) -> Matrix:
    return crashes.matrix([tool], at=[point])


@pytest.mark.parametrize(("tool", "point", "recovery", "counts", "told"), EXPECTED)
def test_a_death_ends_as_the_table_says(
    tool: str,
    point: str,
    recovery: tuple[str, ...],
    counts: tuple[int | None, int, int],
    told: str,
) -> None:
    """Each death ends as predicted: the restart's actions, what is counted, what was told."""
    (death,) = killed_at(tool, point).deaths
    assert death.recovery == recovery
    assert (death.executions, death.starts, death.effects) == counts
    assert death.status == told
    assert effects(tool, death.path.parent.parent) == counts[2]
    assert bool(death.broken) is (counts[2] > 1)


@pytest.mark.parametrize(("tool", "count"), POINTS.items())
def test_the_points_are_those_that_a_run_passes(tool: str, count: int, tmp_path: Path) -> None:
    """The list made without running anything is the one that a whole run goes through."""
    labels = crashes.points(tool)
    path = deaths.prepare(tmp_path / "w", tool)
    passed = child.run_child(path, world=tool).points
    assert (len(labels), len(passed)) == (count, count)
    assert len(set(labels)) == count
    for label, name in zip(labels, passed, strict=True):
        moment, _, step = label.partition(" ")
        kind = {"effect": "effect of", "model": "model call"}.get(step.split()[0], "append")
        assert name.startswith(f"{moment} {kind}")


def test_the_gap_lies_between_running_and_the_outcome() -> None:
    """Where an outcome is open is said by the file: after `running`, before an outcome."""
    assert crashes.gap("pay") == (
        *("after running", "before effect", "during effect", "after effect"),
        *("before outcome", "during outcome"),
    )
    assert crashes.gap("naive")[0] == "before effect"
    assert crashes.gap("naive")[-1] == "during receipt"


@pytest.mark.parametrize("tool", ["write_file", "pay", "submit", "run_bash"])
def test_half_an_effect_is_half_an_effect(tool: str, tmp_path: Path) -> None:
    """Killed in the middle, a tool leaves what its world says: bytes, but no effect yet."""
    root = tmp_path / "w"
    path = deaths.prepare(root, tool)
    assert deaths.kill(tool, path, "during effect") == []
    assert effects(tool, root) == (tool == "run_bash")  # a command is not stopped by our death
    left = {entry.name for entry in root.iterdir()}
    match tool:
        case "write_file":
            assert any(name.startswith(".lai-") for name in left)
        case "pay":
            assert "payments.db-journal" in left
        case "submit":
            assert (root / "jobs.jsonl").read_bytes()[-1:] != b"\n"


def test_a_strange_point_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point that does not exist is refused before anything is started."""
    monkeypatch.setattr(crashes, "kill", lambda *_: pytest.fail("somebody was killed"))
    with pytest.raises(ValueError, match="during lunch"):
        crashes.matrix(["pay"], at=["after effect", "during lunch"])
    with pytest.raises(ValueError, match="before approved"):
        crashes.twice("read_file", at=["before approved"])


def test_a_matrix_says_the_same_twice() -> None:
    """Grid, table and JSON are the same in every run, and complete."""
    tools, at = ["write_file", "naive"], ["after approved", "after effect"]
    one, two = crashes.matrix(tools, at), crashes.matrix(tools, at)
    assert (one.json(), repr(one), one._repr_html_()) == (two.json(), repr(two), two._repr_html_())
    assert repr(one).splitlines() == [
        "killed          write_file       naive",
        "after approved  1/1 ✓ succeeded",
        "after effect    2/1 ✓ succeeded  –/2 BROKEN",
        "",
        "executions/effects, and what the model was told; effects are counted outside",
        "3 kills. Promises kept: 2 of 2. Broken by the naive agent: 1 of 1.",
    ]
    found = json.loads(one.json())
    assert (found["kills"], found["broken"], found["blind"]) == (3, 0, False)
    assert [death["effects"] for death in found["deaths"]] == [1, 1, 2]
    assert list(one.table["promise"]) == ["kept", "kept", "broken: succeeded with 2 effects"]


def test_a_crash_during_recovery() -> None:
    """A recovery is killed too, at points of its own, and the third process ends it well."""
    again = ["before unknown", "during unknown", "after unknown", "after running", "after effect"]
    killed = crashes.twice("write_file", at=["after effect"], again=again)
    assert killed.kills == 6
    assert [death.killed_again for death in killed.deaths] == again
    assert [death.executions for death in killed.deaths] == [2, 2, 2, 3, 3]
    for death in killed.deaths:
        assert (death.effects, death.broken) == (1, ())
        assert effects("write_file", death.path.parent.parent) == 1


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    """`python -m` kills the naive agent everywhere: four points break, and that is no failure."""
    command = [sys.executable, "-m", "lai.course.crashes", "--tool", "naive", "--json", "f.json"]
    paths = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=tmp_path, env=paths, capture_output=True, text=True, check=True
    )
    assert "19 kills" in done.stdout
    found = json.loads((tmp_path / "f.json").read_text("utf-8"))["deaths"]
    assert [death["killed_at"] for death in found] == list(crashes.points("naive"))
    twice = [death["killed_at"] for death in found if death["effects"] == 2]
    assert twice == ["during effect", "after effect", "before receipt", "during receipt"]


def test_every_promise_has_a_world_and_a_judgement() -> None:
    """Each of the five promises is tried by a tool, and each tool has its row."""
    assert {world.promise for world in worlds.WORLDS.values()} == set(Effect)
    assert tuple(deaths.PROMISES) == tuple(worlds.WORLDS) == tuple(POINTS)
    assert session_path(Path("x")).parent.parent == Path("x")
