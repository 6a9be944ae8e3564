"""What an attempt ends in, and what a second attempt may do. Effects are counted outside."""

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toolkit import (
    JSON,
    agent,
    answers,
    assistant,
    ending,
    idempotent,
    keyed,
    kinds,
    lines,
    log,
    opaque,
    queryable,
    read_only,
    receipts,
    statuses,
    user,
    write_log,
)

from lai import (
    Agent,
    Run,
    Session,
    SessionFailed,
    Tool,
    ToolError,
    Unconfirmed,
    build_prompt_view,
    scripted,
)

TEXT = {"text": "书\u2028\x85😀"}
SEND = ("call_1", "send", TEXT)
STORE = ("call_1", "store", {"name": "a", "text": "新 \u2028"})


class Silent(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def run_of(tool: Tool, path: Path) -> JSON:
    """The receipt of one approved call, and a file that says the same."""
    arguments = TEXT if "text" in tool.arguments.model_fields else {}
    person = answers(["y", "no verdict"])  # an unknown of an opaque tool is put to a person
    with agent(path, [[(tool.name, arguments)], "完"], [tool], person) as made:
        assert made.run("做 \u2028") == "完"
    [(_, receipt)] = receipts(path)
    return receipt


ERRORS: list[tuple[Callable[[], BaseException], str]] = [
    (lambda: ToolError("磁盘满 \ud800", path="书"), "failed"),
    (lambda: TimeoutError("slow \udfff"), "unknown"),
    (lambda: Unconfirmed("没有回答"), "unknown"),
    (lambda: OSError(5, "input/output"), "unknown"),
    (ValueError, "unknown"),
    (lambda: RecursionError("deep"), "unknown"),
    (MemoryError, "unknown"),
    (lambda: AssertionError("x"), "unknown"),
    (lambda: ExceptionGroup("many", [ValueError("a")]), "unknown"),
    (Silent, "unknown"),
]


@pytest.mark.parametrize(("error", "status"), ERRORS)
@pytest.mark.parametrize("after", [True, False])
def test_errors(
    tmp_path: Path, error: Callable[[], BaseException], status: str, after: bool
) -> None:
    """The tool's own error is failed; any other, a timeout too, is unknown and not repeated."""
    path = tmp_path / "session-t.jsonl"
    receipt = run_of(ending(opaque(tmp_path / "sent"), error, after=after), path)
    assert receipt["status"] == status
    assert receipt["execution_id"] == log(path)[2]["execution_id"]
    assert [s for _, s in statuses(path)] == ["approved", "running", status]
    assert len(lines(tmp_path / "sent")) == after
    assert ("not repeat" in str(receipt)) is (status == "unknown")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
NESTED: list[Any] = ["书"]
for _ in range(300):  # a reader with less of the stack left might give up
    NESTED = [NESTED]
RESULTS = [
    ({"n": math.nan}, "no JSON form"),
    ({"n": {1, 2}}, "no JSON form"),
    ({"n": CIRCLE}, "no JSON form"),
    ({"n": b"bytes"}, "no JSON form"),
    ({"n": NESTED}, "nested more than 100"),
    ({"text": "一\ud800二"}, "一?二"),
    (None, "value"),
    ([1, "书"], "书"),
    ({"status": "failed", "execution_id": "exec_forged", "x": "\u2028\x85"}, "\u2028\x85"),
]


@pytest.mark.parametrize(("value", "seen"), RESULTS)
def test_results(tmp_path: Path, value: Any, seen: str) -> None:
    """A value returned is a success, also one that JSON or UTF-8 cannot hold, under our ids."""

    def run(arguments: JSON, run: Run) -> JSON:
        del arguments, run
        return value

    path = tmp_path / "session-t.jsonl"
    receipt = run_of(replace(opaque(tmp_path / "sent"), run=run), path)
    assert receipt["status"] == "succeeded"
    assert receipt["execution_id"] == log(path)[2]["execution_id"]
    assert seen in json.dumps(receipt, ensure_ascii=False).replace("\\u0085", "\x85")
    assert path.read_bytes().decode("utf-8")


@pytest.mark.parametrize("error", [ToolError("没有"), TimeoutError("slow"), ValueError("\ud800")])
def test_reading(tmp_path: Path, error: Exception) -> None:
    """A read-only tool asks nobody and leaves no ledger line; what stops it is a failure."""
    path = tmp_path / "session-t.jsonl"
    tool = ending(read_only(tmp_path / "reads"), lambda: error, after=False)
    with agent(path, [[("look", TEXT)], [("look", TEXT)], "完"], [tool], answers([])) as made:
        assert made.run("看") == "完"
    assert [r["status"] for _, r in receipts(path)] == ["failed", "completed"]
    assert statuses(path) == []


# --- a person stops it --------------------------------------------------------------------


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("build", [opaque, idempotent, keyed, queryable])
def test_stopped(tmp_path: Path, stop: Any, after: bool, build: Callable[[Path], Tool]) -> None:
    """A stop in a tool: unknown and published on disk before it goes on its way; no repeat."""
    path, runs = tmp_path / "session-t.jsonl", []
    inner = build(tmp_path if build is idempotent else tmp_path / "world")

    def run(arguments: JSON, run: Run) -> JSON:
        runs.append(run)
        if after:
            inner.run(arguments, run)
        raise stop

    tool, arguments = replace(inner, run=run), STORE[2] if build is idempotent else TEXT
    replies = [[(tool.name, arguments)], "完", "好"]
    with agent(path, replies, [tool], answers(["y"])) as made:
        with pytest.raises(stop):
            made.run("做")
        assert kinds(path) == ["user", "assistant", "approved", "running", "unknown", "tool"]
        assert made.run("新的问题") == "好"
    with agent(path, replies, [tool], answers([])) as made:
        assert made.recover() == []
    assert len(runs) == 1
    [(_, receipt)] = receipts(path)
    assert receipt["status"] == log(path)[4]["result"]["status"] == "unknown"
    assert log(path)[4]["cause"] == "interrupt"
    assert "stopped" in str(receipt)
    view = [m["role"] for m in build_prompt_view(log(path))]
    assert view == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def test_stopped_while_asking(tmp_path: Path) -> None:
    """Ctrl-C at a question records nothing: it is open as before."""
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND))
    before = path.read_bytes()
    tool = opaque(tmp_path / "sent")
    with agent(path, ["-", "完"], [tool], answers([KeyboardInterrupt(), "y"])) as made:
        with pytest.raises(KeyboardInterrupt):
            made.continue_turn()
        assert path.read_bytes() == before
        assert made.continue_turn() == "完"
    assert len(lines(tmp_path / "sent")) == 1


def test_stopped_in_one_of_two(tmp_path: Path) -> None:
    """The call after a stopped one stays open and is asked about, with the doubt shown."""
    path, person = tmp_path / "session-t.jsonl", answers(["y", "y"])
    tool = ending(opaque(tmp_path / "sent"), KeyboardInterrupt, after=True)
    calls = [("send", {"text": "一"}), ("send", {"text": "二"})]
    with agent(path, [calls, "完"], [tool], person) as made:
        with pytest.raises(KeyboardInterrupt):
            made.run("做")
        assert made.continue_turn() == "完"
    assert log(path)[2]["execution_id"] in str(person.questions[1])
    assert [r["status"] for _, r in receipts(path)] == ["unknown", "succeeded"]
    assert len(lines(tmp_path / "sent")) == 2


class Late(Session):
    """A session in whose append number ``at`` a Ctrl-C arrives: in the fsync, or just after it."""

    at, within = 0, True

    def append(self, record: JSON) -> int:
        """Append, and be interrupted."""
        self.at -= 1
        if self.at == -1 and self.within:
            self._fsync = interrupted
        line = super().append(record)
        if self.at == -1:
            raise KeyboardInterrupt
        return line


def interrupted(fd: int) -> None:
    """What an fsync during which somebody presses Ctrl-C looks like from Python."""
    os.fsync(fd)
    raise KeyboardInterrupt


@pytest.mark.parametrize("within", [True, False], ids=["in the fsync", "after it"])
@pytest.mark.parametrize("at", range(7))
@pytest.mark.parametrize("build", [opaque, idempotent])
def test_stopped_in_an_append(tmp_path: Path, within: bool, at: int, build: Any) -> None:
    """A stop in any append: memory never falls behind the disk, and nothing is done twice."""
    path, person = tmp_path / "session-t.jsonl", answers(["y"] * 3)
    tool = build(tmp_path if build is idempotent else tmp_path / "writes")
    replies = [[(tool.name, STORE[2] if build is idempotent else TEXT)], "完"]
    with Late.open(path) as session:
        session.at, session.within = at, within
        made = Agent(session, scripted(replies), [tool], person)
        with pytest.raises(KeyboardInterrupt):
            made.run("做")
        with suppress(SessionFailed):
            made.continue_turn()
    with agent(path, replies, [tool], answers(["y", "?"])) as again:
        assert again.history.violations == []
        assert again.continue_turn() == "完"
    assert len(lines(tmp_path / "writes")) <= (1 if build is opaque else 2)
    assert len(receipts(path)) == 1
    assert kinds(path).count("user") == 1
