"""Long sessions, large batches, floods: the work grows with what there is, and no faster.

Work is counted in function calls, which are the same on every machine; seconds decide nothing.
"""

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from bench.bench_length import turn
from sums import added
from toolkit import JSON, Text, answers, log, user

from lai import (
    Agent,
    Effect,
    Reply,
    Session,
    Tool,
    decide,
    scripted,
    workspace_tools,
)
from lai.journal import history_of
from lai.report import flaws

PROOF = os.environ.get("LAI_PROOF") == "1"
SHORT, LONG = 50, 500  # turns of seven records


def work(action: Callable[[], object]) -> int:
    """How many functions are called, those written in C too."""
    seen = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen


def session_of(folder: Path, turns: int) -> Path:
    """A session of so many turns, whose last record is a compaction that keeps 14 turns."""
    path = folder / f"session-长{turns}.jsonl"
    records = [record for number in range(turns) for record in turn(number)]
    first = len(records) - 98
    begin = len(added(b"", *records[:first]))
    place = {"first_kept": first + 1, "first_kept_offset": begin}
    path.write_bytes(added(b"", *records, {"type": "compaction", "summary": "总结", **place}))
    return path


def verify(path: Path) -> None:
    """All rules, over all records."""
    assert flaws(Session.read(path)) == []


def resume(path: Path) -> None:
    """Ready to go on, and one record more."""
    with Session.open(path, fsync=lambda _: None) as session:
        history = history_of(session)
        assert history.partial
        decide(history, [])
        session.append({"type": "note", "书": "\u2028"})


@pytest.mark.parametrize(
    ("way", "most"), [(Session.read, LONG / SHORT), (verify, LONG / SHORT), (resume, 1)]
)
def test_ten_times_the_records_are_ten_times_the_work(
    way: Callable[[Path], object], most: float, tmp_path: Path
) -> None:
    """To read or to verify; to go on from the latest compaction takes the same at any length."""
    short, long = (session_of(tmp_path, turns) for turns in (SHORT, LONG))
    way(short)  # what Python does the first time only
    assert work(lambda: way(long)) <= 1.05 * most * work(lambda: way(short))


class Batches:
    """A model that asks for many calls at once, then is content."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, messages: list[JSON], _tools: list[JSON]) -> Reply:
        """The batch, or the last words."""
        if messages[-1]["role"] == "tool":
            return Reply({"role": "assistant", "content": "好"}, "stop", None)
        calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": "看", "arguments": text}}
            for n, text in enumerate(['{"text":"书"}'] * self.size)
        ]
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        return Reply(message, "tool_calls", None)


def batch(path: Path, size: int) -> int:
    """Run a turn with a batch of that many calls; returns how often the tool ran."""
    seen = count()
    look = Tool(
        name="看",
        description="",
        arguments=Text,
        run=lambda *_: {"seen": next(seen)},
        effect=Effect.READ_ONLY,
    )
    with Session.open(path, fsync=lambda _: None) as session:
        Agent(session, Batches(size), [look]).run("都看一看")
    return next(seen)


def test_ten_times_the_batch_is_ten_times_the_work(tmp_path: Path) -> None:
    """Each call costs the same in a batch of 40 and of 400."""
    batch(tmp_path / "session-0.jsonl", 3)
    small = work(lambda: batch(tmp_path / "session-1.jsonl", 40))
    large = work(lambda: batch(tmp_path / "session-2.jsonl", 400))
    assert large <= 1.1 * 10 * small


def test_a_batch_of_many_calls(tmp_path: Path) -> None:
    """Every call runs once and gets its result, in order, and the turn ends; a proof: 10,000."""
    path = tmp_path / "session-批.jsonl"
    size = 10_000 if PROOF else 1_000
    assert batch(path, size) == size
    results = [r["message"] for r in log(path) if r.get("message", {}).get("role") == "tool"]
    assert [r["tool_call_id"] for r in results] == [f"c{n}" for n in range(size)]
    assert log(path)[-1]["message"]["content"] == "好"


@pytest.mark.parametrize(("size", "runs"), [(60_000, True), (60_001, False)])
def test_a_long_command_is_shown_whole_or_refused(tmp_path: Path, size: int, runs: bool) -> None:
    """What a person can judge is shown to its last character; a longer one nobody is asked."""
    command = f"echo 书 >> ran; : {'x' * (size - 19)}"
    assert len(command.encode()) == size
    said: list[Any] = [[("run_bash", {"command": command})], "好"]
    path, ask = tmp_path / ".agent_state" / "session-x.jsonl", answers(["y"])
    with Session.open(path) as session:
        Agent(session, scripted(said), workspace_tools(tmp_path), ask).run("跑")
    assert (tmp_path / "ran").exists() is runs
    assert [command in str(question) for question in ask.questions] == [True] * runs
    assert len(path.read_bytes()) < 4 * size


def test_a_long_text_of_a_user_costs_once(tmp_path: Path) -> None:
    """A record of a megabyte is read like a hundred short ones: one line, one record."""
    path = tmp_path / "session-长.jsonl"
    path.write_bytes(added(b"", *(user("书\u2028" * 200_000) for _ in range(3))))
    session = Session.read(path)
    assert (len(session.records), session.damage) == (3, [])
    assert work(lambda: Session.read(path)) < 2_000
