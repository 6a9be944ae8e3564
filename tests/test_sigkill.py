"""Real SIGKILLs: a process dies at each point of a turn, on a real disk, with real tools.

The same scenarios and the same judge as in ``test_crash``; a line in a file, written by bash,
and the bytes of a file decide what happened.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crash_scenarios import FILE, HASH, judge
from invariants import check
from killed import Lives, Outside

from lai import Session

KILLED = -9
# Scenario, person, way to come back, and how many points there are at least.
CASES = [
    ("write", "declines", "continue", 28),
    ("write", "declines", "run", 28),
    ("bash", "declines", "run", 28),
    ("bash", "truthful", "continue", 28),
    ("write and bash", "declines", "continue", 44),
    ("write and bash", "truthful", "recover", 44),
]


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    """One warm helper for all tests."""
    with Lives() as helper:
        yield helper


def audit(world: Outside) -> list[str]:
    """The lines that commands wrote: the witness."""
    file = world.root / "audit.log"
    return file.read_text("utf-8").splitlines() if file.exists() else []


@pytest.mark.parametrize(("name", "policy", "way", "least"), CASES)
def test_killed_at_every_point(
    lives: Lives, tmp_path: Path, name: str, policy: str, way: str, least: int
) -> None:
    """Killed anywhere and started again, a turn ends, and nothing was done twice."""
    points = lives.live(tmp_path / "whole", name).points
    assert len(points) >= least
    for at in range(len(points)):
        folder = tmp_path / str(at)
        assert lives.live(folder, name, at).code == KILLED
        left = lives.live(folder, name, policy=policy, way=way)
        assert left.code == 0, f"the lock, or anything else, was left behind at {points[at]}"
        judge(left.world)
        if "bash" in name:
            assert len(audit(left.world)) == sum(d.tool == "run_bash" for d in left.world.deeds)


def test_killed_again_at_every_point_of_the_recovery(lives: Lives, tmp_path: Path) -> None:
    """The published scene, recovered by a process that is killed at each point, still ends well."""
    points = lives.live(tmp_path / "whole", "published scene").points
    assert len(points) >= 28
    for at in range(len(points)):
        assert lives.live(tmp_path / str(at), "published scene", at).code == KILLED
        left = lives.live(tmp_path / str(at), "published scene")
        judge(left.world)
        assert (left.world.root / "recovery-demo.txt").read_bytes() == b"recovered"


def test_experiment_two_by_a_real_kill(lives: Lives, tmp_path: Path) -> None:
    """Killed after running was written and before the effect: the 12 published records."""
    points = lives.live(tmp_path / "whole", "published").points
    folder = tmp_path / "killed"
    assert lives.live(folder, "published", points.index("before effect of write_file")).code < 0
    target = folder / "work" / "recovery-demo.txt"
    assert not target.exists()
    left = lives.live(folder, "published")
    assert target.read_bytes() == b"recovered"
    check(left.world.story())
    records = [line.record for line in left.world.story().lines]
    assert [_kind(record) for record in records] == [
        *("user", "write_file", "approved", "running", "unknown", "approved", "running"),
        *("succeeded", "tool", "read_file", "tool", "assistant"),
    ]
    ledger = records[2:8]
    assert {record["arguments_sha256"] for record in ledger} == {HASH}
    assert {record["idempotency_key"] for record in ledger} == {f"write_file:{HASH}"}
    old, new = ({record["execution_id"] for record in part} for part in (ledger[:3], ledger[3:]))
    assert len(old) == len(new) == 1 != len(old | new)
    (asked,) = records[1]["message"]["tool_calls"]
    assert {record["tool_call_id"] for record in ledger} == {asked["id"]}
    assert records[8]["message"]["tool_call_id"] == asked["id"]
    assert {json.loads(records[8]["message"]["content"])["execution_id"]} == new
    assert json.loads(records[10]["message"]["content"])["content"] == "recovered"


def _kind(record: dict[str, Any]) -> str:
    if record["type"] == "tool_execution":
        return str(record["status"])
    calls = record["message"].get("tool_calls") or []
    return str(calls[0]["function"]["name"] if calls else record["message"]["role"])


@pytest.mark.parametrize("point", ["before os.replace", "after os.replace"])
@pytest.mark.parametrize("old", [None, "旧的\u2028"])
def test_killed_inside_write_file(
    lives: Lives, tmp_path: Path, point: str, old: str | None
) -> None:
    """The file is all old or all new at any moment, and the next write leaves nothing beside it."""
    target = tmp_path / "work" / str(FILE["path"])
    if old is not None:
        target.parent.mkdir()
        target.write_text(old, "utf-8")
    assert lives.live(tmp_path, "write", point).code == KILLED
    whole = old if point.startswith("before") else FILE["content"]
    assert (target.read_text("utf-8") if target.exists() else None) == whole
    left = lives.live(tmp_path, "write")
    assert left.code == 0
    check(left.world.story())
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert target.read_text("utf-8") == FILE["content"]


@pytest.mark.parametrize("name", ["acts, then kills", "kills, then acts"])
def test_killed_in_the_middle_of_a_command(lives: Lives, tmp_path: Path, name: str) -> None:
    """A command whose agent dies under it is reported as unknown and not run again."""
    assert lives.live(tmp_path, name).code == KILLED
    left = lives.live(tmp_path, name)
    assert left.code == 0
    (call,) = left.world.story().calls
    assert left.world.story().receipt_of(call)["status"] == "unknown"
    for _ in range(500):  # the command may still be on its way
        if audit(left.world):
            break
        time.sleep(0.01)
    assert audit(left.world) == ["书"]


def test_the_lock_is_free_after_a_kill(lives: Lives, tmp_path: Path) -> None:
    """A process that a command left behind holds nothing that the next start needs."""
    left = lives.live(tmp_path, "leaves a child")
    child = int((left.world.root / "child").read_text())
    try:
        assert left.code == KILLED
        os.kill(child, 0)
        with Session.open(left.world.path) as session:
            assert session.records[-1]["status"] == "running"
    finally:
        os.kill(child, signal.SIGKILL)
