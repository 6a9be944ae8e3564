"""What a key or a look-up is good for: second attempts, counted by the service they reach."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toolkit import (
    JSON,
    agent,
    answers,
    assistant,
    attempt,
    column,
    ending,
    idempotent,
    keyed,
    kinds,
    lines,
    log,
    opaque,
    queryable,
    receipts,
    statuses,
    user,
    write_log,
)

from lai import (
    Answer,
    Finding,
    Session,
    Tool,
)
from lai.faults import Crash

TEXT = {"text": "书\u2028\x85😀"}
STORE = ("call_1", "store", {"name": "a", "text": "新 \u2028"})


# --- no lost update -----------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, "旧"])
@pytest.mark.parametrize("moved", ["别人的", "新 \u2028", None])
def test_moved_before_the_write(tmp_path: Path, before: str | None, moved: str | None) -> None:
    """A file that changed between approval and write stays as it is: failed, nothing written."""
    file, path = tmp_path / "a", tmp_path / "session-t.jsonl"
    if before is not None:
        file.write_text(before, "utf-8")
    with agent(path, [[STORE[1:]], "完"], [idempotent(tmp_path)], answers(["y"])) as made:
        made.journal.append(user())
        made.advance()
        made.advance()
        assert kinds(path)[-1] == "approved"
        file.unlink(missing_ok=True)
        if moved is not None:
            file.write_text(moved, "utf-8")
        made.continue_turn()
    same = moved == before
    assert receipts(path)[0][1]["status"] == ("succeeded" if same else "failed")
    assert len(lines(tmp_path / "writes")) == (1 if same else 0)
    if not same:
        assert (file.read_text("utf-8") if file.exists() else None) == moved


OURS, OLD, OTHERS = "新 \u2028", "旧", "别人的"


@pytest.mark.parametrize(
    ("base", "there", "allowed"),
    [
        (OLD, OLD, True), (OLD, OURS, True), (OLD, OTHERS, False), (OLD, None, False),
        (None, None, True), (None, OURS, True), (None, OLD, False),
        ("-", None, True), ("-", OURS, True), ("-", OLD, False),
    ],
)  # fmt: skip
def test_moved_before_a_retry(
    tmp_path: Path, base: str | None, there: str | None, allowed: bool
) -> None:
    """A retry finds the base or the wanted text, or a person is asked; "-" recorded no base."""
    tool, file, path = idempotent(tmp_path), tmp_path / "a", tmp_path / "session-t.jsonl"
    assert tool.wanted
    digest = None if base is None else tool.wanted({"text": base})
    details = {} if base == "-" else {"base_sha256": digest}
    write_log(path, user(), assistant(STORE), *attempt(STORE, "approved", "running", **details))
    if there is not None:
        file.write_text(there, "utf-8")
    person = answers([] if allowed else ["not happened: 看过", "n"])
    with agent(path, ["-", "完"], [tool], person) as made:
        assert made.continue_turn() == "完"
    assert lines(tmp_path / "writes") == (['"\\u65b0 \\u2028"'] if allowed else [])
    if allowed:
        assert file.read_text("utf-8") == OURS
        return
    question = str(person.questions[0])
    assert (there or "(nothing)") in question
    assert "新 ⟦U+2028⟧" in question
    assert (file.read_text("utf-8") if file.exists() else None) == there
    assert [r.get("target") for r in log(path)][4:6] == [None, "moved"]
    assert statuses(path)[2:4] == [("#1", "unknown"), ("#1", "unknown")]


def test_unreadable_target(tmp_path: Path) -> None:
    """A target that cannot be looked at is put to a person; the turn is not stuck."""

    def version(_arguments: JSON) -> str | None:
        raise OSError(5, "input/output")

    tool, path = replace(idempotent(tmp_path), version=version), tmp_path / "session-t.jsonl"
    write_log(path, user(), assistant(STORE), *attempt(STORE, "approved", "running"))
    with agent(path, ["-", "完"], [tool], answers([""])) as made:
        assert made.continue_turn() == "完"
    assert receipts(path)[0][1]["status"] == "unknown"
    assert lines(tmp_path / "writes") == []


def test_moved_after_the_retry_was_approved(tmp_path: Path) -> None:
    """A crash between a retry's two records, and a move: one verdict is enough to go on."""
    tool, path = idempotent(tmp_path), tmp_path / "session-t.jsonl"
    first = attempt(STORE, "approved", "running", "unknown", base_sha256=None)
    again = attempt(STORE, "approved", execution_id="exec_2", base_sha256=None,
                    approval_of="exec_1")  # fmt: skip
    write_log(path, user(), assistant(STORE), *first, *again)
    (tmp_path / "a").write_text(OTHERS, "utf-8")
    person = answers(["not happened: 看过", "y"])
    with agent(path, ["-", "完"], [tool], person) as made:
        assert made.continue_turn() == "完"
    assert receipts(path)[0][1]["status"] == "succeeded"
    assert (tmp_path / "a").read_text("utf-8") == OURS


def test_moved_after_a_stop(tmp_path: Path) -> None:
    """The same in one process, stopped between the two records: one look, then a question."""
    tool, path, looks = idempotent(tmp_path), tmp_path / "session-t.jsonl", []
    first = attempt(STORE, "approved", "running", "unknown", base_sha256=None)
    write_log(path, user(), assistant(STORE), *first)

    def wanted(arguments: JSON) -> str:
        looks.append(arguments)
        if kinds(path)[-1] == "approved" and len(looks) == 2:
            raise KeyboardInterrupt
        return tool.wanted(arguments) if tool.wanted else ""

    person = answers([None] * 9)
    with agent(path, ["-"], [replace(tool, wanted=wanted)], person) as made:
        with pytest.raises(KeyboardInterrupt):
            made.continue_turn()
        (tmp_path / "a").write_text(OTHERS, "utf-8")
        for _ in range(9):
            made.advance()
    assert kinds(path)[5:] == ["approved", "unknown"]
    assert {q.kind for q in person.questions} == {"verdict"}
    assert (tmp_path / "a").read_text("utf-8") == OTHERS


# --- keyed and queryable ------------------------------------------------------------------


def dying(tool: Tool) -> Tool:
    """A tool after whose effect the process dies, every time."""
    return ending(tool, Crash, after=True, times=99)


def starts(path: Path, tool: Tool, ask: Any = None, **more: Any) -> int:
    """Start again and again until the turn ends; how many starts died."""
    for died in range(8):
        with Session.open(path):
            pass  # the lock is free after each death
        try:
            with agent(path, ["-", "完"], [tool], ask, **more) as made:
                assert made.continue_turn() == "完"
                return died
        except Crash:
            continue
    raise AssertionError("the turn never ends")


@pytest.mark.parametrize(
    ("build", "effects", "deaths"),
    [(opaque, 1, 1), (idempotent, 3, 3), (keyed, 1, 3), (queryable, 1, 1)],
)
def test_crash_loop(tmp_path: Path, build: Any, effects: int, deaths: int) -> None:
    """A process that dies after each effect: opaque acts once for ever, idempotent 3 times."""
    world, path = tmp_path / "world", tmp_path / "session-t.jsonl"
    tool = dying(build(tmp_path if build is idempotent else world))
    call = ("call_1", tool.name, STORE[2] if build is idempotent else TEXT)
    write_log(path, user(), assistant(call))
    with pytest.raises(Crash), agent(path, ["-"], [tool], answers(["y"])) as made:
        made.continue_turn()
    assert 1 + starts(path, tool) == deaths
    if build is keyed:
        assert len(column(world, "paid")) == effects
        assert column(world, "seen") == ["t:pay:call_1"] * 3
    elif build is queryable:
        assert world.read_text("utf-8").count("t:submit:call_1") == effects
    else:
        assert len(lines(tmp_path / "writes" if build is idempotent else world)) == effects
    running = [r for r in log(path) if r.get("status") == "running"]
    assert len({r["execution_id"] for r in running}) == len(running) == deaths
    assert len({r["idempotency_key"] for r in running}) == 1
    assert receipts(path)[0][1]["status"] == ("succeeded" if build is queryable else "unknown")


@pytest.mark.parametrize(("seconds", "expired"), [(60, False), (61, True)])
def test_retention(tmp_path: Path, seconds: int, expired: bool) -> None:
    """A key is sent again only while its service remembers it, counted from its first use."""
    world, path, clock = tmp_path / "world", tmp_path / "session-t.jsonl", [1000.0]
    tool = dying(keyed(world, retention=60))
    write_log(path, user(), assistant(("call_1", "pay", TEXT)))
    person = answers(["y", "not sure"])
    for now in (1000.0, 1030.0, 1000.0 + seconds):
        clock[0] = now
        try:
            with agent(path, ["-", "完"], [tool], person, now=lambda: clock[0]) as made:
                made.continue_turn()
        except Crash:
            continue
    assert len(column(world, "seen")) == (2 if expired else 3)
    assert [q.kind for q in person.questions] == ["approval", *(["verdict"] if expired else [])]
    assert [r.get("key") for r in log(path)].count("expired") == expired


@pytest.mark.parametrize(
    ("state", "final", "after"),
    [
        ({"jobs": [["t:submit:call_1", TEXT["text"]]]}, True, ["succeeded"]),
        ({"jobs": [["u:submit:call_1", TEXT["text"]]]}, True,
         ["unknown", "approved", "running", "succeeded"]),
        ({"jobs": []}, False, ["unknown"]),
        ({"jobs": [], "down": True}, True, ["unknown"]),
    ],
    ids=["found", "absent", "absent, not final", "inconclusive"],
)  # fmt: skip
def test_look_up(tmp_path: Path, state: JSON, final: bool, after: list[str]) -> None:
    """The authority is asked once, its answer is recorded, and each answer has its own end."""
    world, path = tmp_path / "world", tmp_path / "session-t.jsonl"
    world.write_text(json.dumps(state), "utf-8")
    call = ("call_1", "submit", TEXT)
    write_log(path, user(), assistant(call), *attempt(call, "approved", "running"))
    asked = []
    tool = queryable(world, final=final)
    look = tool.lookup
    assert look
    tool = replace(tool, lookup=lambda *a: asked.append(a[1]) or look(*a))
    with agent(path, ["-", "完"], [tool], None) as made:
        assert made.continue_turn() == "完"
    assert [s for _, s in statuses(path)][3:] == after
    assert asked == ["t:submit:call_1"]
    [(_, receipt)] = receipts(path)
    assert receipt["status"] == after[-1]
    found = next(r for r in log(path) if "lookup" in r)
    assert found["evidence"]
    effects = sum(job[0].startswith("t:") for job in json.loads(world.read_text("utf-8"))["jobs"])
    assert effects == (1 if after[-1] == "succeeded" else 0)


NONSENSE = [
    pytest.param(lambda *_: Answer(Finding.FOUND, "job \ud800"), id="surrogate"),
    pytest.param(lambda *_: Answer(Finding.FOUND, "job", {"n": math.nan}), id="NaN"),
    pytest.param(lambda *_: Answer(Finding.FOUND, b"job"), id="bytes"),  # type: ignore[arg-type]
    pytest.param(lambda *_: None, id="nothing"),
    pytest.param(lambda *_: 1 / 0, id="raises"),
]


@pytest.mark.parametrize("lookup", NONSENSE)
def test_look_up_of_nonsense(tmp_path: Path, lookup: Any) -> None:
    """Whatever a look-up brings, the turn comes to an end and nothing runs twice."""
    tool = replace(queryable(tmp_path / "world"), lookup=lookup)
    call = ("call_1", "submit", TEXT)
    path = tmp_path / "session-t.jsonl"
    write_log(path, user(), assistant(call), *attempt(call, "approved", "running"))
    with agent(path, ["-", "完"], [tool], None) as made:
        assert made.continue_turn() == "完"
    assert not (tmp_path / "world").exists()
