"""A damaged log: no tool runs before a person has acknowledged it, and then with care."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toolkit import (
    JSON,
    agent,
    answers,
    assistant,
    attempt,
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

from lai import Agent, Session, SessionDamaged

SEND = ("call_1", "send", {"text": "书\u2028\x85😀"})
STORE = ("call_1", "store", {"name": "a", "text": "新"})
LOST = '{"type":"tool_execution","execution_id":"exec_书'.encode() + b"\n"


def tools(folder: Path) -> list[Any]:
    """All five promises, on one folder."""
    made = [opaque(folder / "sent"), idempotent(folder), read_only(folder / "reads")]
    return [*made, keyed(folder / "pay.db"), queryable(folder / "jobs")]


def damaged(folder: Path, before: list[JSON], after: list[JSON] | None = None) -> Path:
    """A session with one lost line in the middle, or at the end."""
    path = write_log(folder / "session-t.jsonl", *before)
    head = path.read_bytes()
    tail = write_log(path, *(after or [])).read_bytes()
    path.write_bytes(head + LOST + tail)
    return path


def acknowledge(path: Path, *places: int) -> None:
    """What ``python -m lai repair`` records."""
    with Session.open(path) as session:
        for line in places:
            session.acknowledge(line)


def effects(folder: Path) -> list[str]:
    """The files that tools left."""
    return sorted(f.name for f in folder.iterdir() if not f.name.startswith("session-"))


ENTER: dict[str, Callable[[Agent], Any]] = {
    "run": lambda made: made.run("新"),
    "continue_turn": lambda made: made.continue_turn(),
    "recover": lambda made: made.recover(),
    "advance": lambda made: made.advance(),
}
OPEN = {
    "a new call": (SEND, []),
    "a read-only call": (("call_1", "look", {"text": "x"}), []),
    "approved": (SEND, ["approved"]),
    "running": (STORE, ["approved", "running"]),
    "unknown": (STORE, ["approved", "running", "unknown"]),
}


@pytest.mark.parametrize("enter", list(ENTER))
@pytest.mark.parametrize("state", list(OPEN))
@pytest.mark.parametrize("last", [True, False], ids=["last line", "in the middle"])
def test_no_tool_runs(tmp_path: Path, enter: str, state: str, last: bool) -> None:
    """An unacknowledged line stops every way in, names its place and the way on, runs nothing."""
    call, ledger = OPEN[state]
    records = [user(), assistant(call), *attempt(call, *ledger)]
    path = damaged(tmp_path, *([records] if last else [records[:1], records[1:]]))
    before, line = path.read_bytes(), len(records) + 1 if last else 2
    offset = before.index(LOST)
    made = agent(path, ["-", "完"], tools(tmp_path), answers([]))
    with pytest.raises(SessionDamaged) as caught, made as opened:
        ENTER[enter](opened)
    said = str(caught.value)
    assert f"line {line} " in said
    assert f"byte {offset}" in said
    assert f"python -m lai repair {path}" in said
    assert path.read_bytes() == before
    assert effects(tmp_path) == []


def test_chatting_goes_on(tmp_path: Path) -> None:
    """Talk without calls works on a damaged log; the first call stops at the tool, recorded."""
    path = damaged(tmp_path, [user(), assistant(text="好")])
    with agent(path, ["-", "答 \u2028", [("look", {"text": "x"})]], tools(tmp_path)) as made:
        assert made.run("问") == "答 \u2028"
        with pytest.raises(SessionDamaged):
            made.run("看")
    assert effects(tmp_path) == []
    acknowledge(path, 3)
    replies = ["-", "答", "-", "看过了"]
    with agent(path, replies, tools(tmp_path)) as made:
        assert made.continue_turn() == "看过了"
    assert effects(tmp_path) == ["reads"]


@pytest.mark.parametrize(
    ("call", "then"),
    [
        (SEND, ["unknown"]),
        (("call_1", "pay", {"text": "x"}), ["unknown", "unknown"]),
        (("call_1", "submit", {"text": "x"}),
         ["unknown", "unknown", "approved", "running", "succeeded"]),
        (STORE, ["rejected"]),
    ],
    ids=["opaque", "keyed", "queryable", "idempotent"],
)  # fmt: skip
def test_approved_before_the_lost_line(tmp_path: Path, call: Any, then: list[str]) -> None:
    """The lost line may have started it: unknown, except where starting again does no harm."""
    path = damaged(tmp_path, [user(), assistant(call), *attempt(call, "approved")])
    acknowledge(path, 4)
    person = answers(["n"] if call is STORE else ["?"])
    with agent(path, ["-", "完"], tools(tmp_path), person) as made:
        assert made.continue_turn() == "完"
    assert [s for _, s in statuses(path)][1:] == then
    if call is STORE:
        assert "may have" in str(person.questions[0])
    with agent(path, [], tools(tmp_path)) as made:  # it reads as legal
        assert made.history.violations == []


@pytest.mark.parametrize("call", [SEND, STORE])
def test_new_call_before_the_lost_line(tmp_path: Path, call: Any) -> None:
    """A call without an execution is asked about with the warning that it may have run."""
    other = ("call_2", *call[1:])
    path = damaged(tmp_path, [user(), assistant(call)])
    acknowledge(path, 3)
    with Session.open(path) as session:
        assert [d.acknowledged for d in session.damage] == [True]
    person = answers(["y", "y"])
    with agent(path, ["-", [other[1:]], "完"], tools(tmp_path), person) as made:
        assert made.continue_turn() == "完"
    assert ["may have run" in str(question) for question in person.questions] == [True, False]


@pytest.mark.parametrize("ledger", [[], ["approved"]])
@pytest.mark.parametrize("call", [SEND, STORE])
def test_abandon_after_the_lost_line(tmp_path: Path, call: Any, ledger: list[str]) -> None:
    """Closing a turn does not say that a call did not run when a lost line may have run it."""
    path = damaged(tmp_path, [user(), assistant(call), *attempt(call, *ledger)])
    acknowledge(path, 3 + len(ledger))
    with agent(path, [], tools(tmp_path), answers([])) as made:
        made.abandon()
    [(_, receipt)] = receipts(path)
    assert "did not run" not in str(receipt)
    assert receipt["status"] == "unknown"


@pytest.mark.parametrize("call", [SEND, STORE])
def test_refused_after_the_lost_line(tmp_path: Path, call: Any) -> None:
    """A person's no to a call that may have run already is not told as "did not run"."""
    path = damaged(tmp_path, [user(), assistant(call)])
    acknowledge(path, 3)
    with agent(path, ["-", "完"], tools(tmp_path), answers(["n"])) as made:
        made.continue_turn()
    assert "did not run" not in str(receipts(path))


def test_lost_outcome(tmp_path: Path) -> None:
    """A running before the lost line is unknown; what comes after it is not called illegal."""
    ledger = attempt(SEND, "approved", "running")
    done = {"role": "tool", "tool_call_id": "call_1", "content": '{"status": "succeeded"}'}
    after = [{"type": "message", "message": done}, assistant(text="完")]
    later = attempt(SEND, "succeeded", execution_id="exec_7")
    path = damaged(tmp_path, [user(), assistant(SEND), *ledger], [*later, *after])
    with agent(path, [], tools(tmp_path)) as made:
        assert made.history.violations == []
        assert made.continue_turn() == "完"


ILLEGAL = {
    "running without approval": attempt(SEND, "running"),
    "succeeded twice": attempt(SEND, "approved", "running", "succeeded", "succeeded"),
    "running after the end": attempt(SEND, "approved", "running", "failed", "running"),
    "resolution of nothing": [{"type": "resolution", "execution_id": "exec_9",
                               "outcome": "happened", "evidence": "书", "by": "person"}],
    "another call's attempt": [*attempt(SEND, "approved"),
                               *attempt(("call_9", "send", SEND[2]), "running")],
}  # fmt: skip


@pytest.mark.parametrize("name", list(ILLEGAL))
def test_illegal_transitions_block_too(tmp_path: Path, name: str) -> None:
    """A record that the transition table forbids runs no tool until it is acknowledged."""
    other = ("call_2", "look", {"text": "x"})
    ledger = ILLEGAL[name]
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND, other), *ledger)
    before, line = path.read_bytes(), 2 + len(ledger)
    for enter in ENTER.values():
        made = agent(path, [], tools(tmp_path), answers([]))
        with pytest.raises(SessionDamaged, match=f"line {line}.*repair"), made as opened:
            enter(opened)
        assert path.read_bytes() == before
    assert effects(tmp_path) == []
    acknowledge(path, line)
    with agent(path, ["-", "完"], tools(tmp_path), answers(["n"] * 2)) as made:
        assert made.continue_turn() == "完"
    assert [c for c, _ in receipts(path)] == ["call_1", "call_2"]
    assert effects(tmp_path) == ["reads"]


def test_running_without_approval(tmp_path: Path) -> None:
    """An acknowledged `running` that nobody approved may have acted, and a person hears it."""
    path = write_log(
        tmp_path / "session-t.jsonl", user(), assistant(SEND), *attempt(SEND, "running")
    )
    acknowledge(path, 3)
    person = answers(["n"])
    with agent(path, ["-", "完"], tools(tmp_path), person) as made:
        made.continue_turn()
    assert "may have" in str(person.questions[0])


def test_acknowledging_is_per_place(tmp_path: Path) -> None:
    """Acknowledging one of two lost lines is not enough, and the message names the other."""
    path = damaged(tmp_path, [user(), assistant(SEND)])
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    acknowledge(path, 3)
    made = agent(path, ["-", "完"], tools(tmp_path), answers([]))
    with pytest.raises(SessionDamaged, match="line 4 at byte") as caught, made as opened:
        opened.continue_turn()
    assert "line 3 " not in str(caught.value)


def test_a_torn_tail_blocks_nothing(tmp_path: Path) -> None:
    """A tail without its newline was never acknowledged to anyone: tools run on."""
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND))
    path.write_bytes(path.read_bytes() + LOST.removesuffix(b"\n")[:-1])
    with agent(path, ["-", "完"], tools(tmp_path), answers(["y"])) as made:
        assert made.continue_turn() == "完"
    assert len(lines(tmp_path / "sent")) == 1


def test_nothing_is_rewritten(tmp_path: Path) -> None:
    """The bytes of the damaged file stand unchanged in front of all that follows."""
    path = damaged(tmp_path, [user(), assistant(SEND)])
    before = path.read_bytes()
    acknowledge(path, 3)
    with agent(path, ["-", "完"], tools(tmp_path), answers(["y"])) as made:
        made.continue_turn()
    assert path.read_bytes().startswith(before)
    whole = path.read_bytes().removeprefix(before).split(b"\n")[:-1]
    assert json.loads(whole[0])["type"] == "repair"
    assert kinds(write_log(tmp_path / "rest", *map(json.loads, whole)))[1:] == [
        *("approved", "running", "succeeded", "tool", "assistant")
    ]
    assert log(tmp_path / "rest")[-1]["message"]["content"] == "完"
