"""Turns: the two published experiments, the ways in, and what goes wrong on the way."""

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
    kinds,
    lines,
    log,
    opaque,
    read_only,
    receipts,
    statuses,
    user,
    write_log,
)

from lai import (
    Agent,
    Done,
    Question,
    Session,
    TurnOpen,
    build_prompt_view,
    workspace_tools,
)
from lai.models import offline_model, scripted

WRITE = "请调用 write_file 工具，在当前 Workspace 创建 ledger-demo.txt，内容必须恰好是 hello ledger。不要使用 run_bash。"  # noqa: E501
RECOVER = "请把 recovery-demo.txt 的完整内容设置为 recovered"
SHA_1 = "316b7a5c54fa80f28f7af606784c9af906d06657a1fd35b6094fed239dca6966"
SHA_2 = "8889280b9146b06f667dd62a1bdb2f6bcb763b656a18214926a39dba97dc18fe"
SCRIPT_1 = [("write_file", {"path": "ledger-demo.txt", "content": "hello ledger"})]
SCRIPT_2 = [("write_file", {"path": "recovery-demo.txt", "content": "recovered"})]
READ_2 = [("read_file", {"path": "recovery-demo.txt"})]
MODELS = [
    pytest.param(lambda: scripted([SCRIPT_1, "写好了"]), lambda: scripted([SCRIPT_2, READ_2, "完"]),
                 id="scripted"),
    pytest.param(offline_model, offline_model, id="offline"),
]  # fmt: skip
SEND = ("call_1", "send", {"text": "书\u2028\x85😀"})


@pytest.mark.parametrize(("model", "_other"), MODELS)
def test_experiment_1(tmp_path: Path, model: Callable[[], Any], _other: Any) -> None:
    """A normal write: 7 records in the published order, the published hash, 12 bytes."""
    path = tmp_path / ".agent_state" / "session-demo.jsonl"
    with Session.open(path) as session:
        made = Agent(session, model(), workspace_tools(tmp_path), answers(["y"]))
        assert isinstance(made.run(WRITE), str)
    order = ["user", "assistant", "approved", "running", "succeeded", "tool", "assistant"]
    assert kinds(path) == order
    records = log(path)
    call_id = records[1]["message"]["tool_calls"][0]["id"]
    assert {r["tool_call_id"] for r in records[2:5]} == {call_id}
    assert len({r["execution_id"] for r in records[2:5]}) == 1
    assert {r["arguments_sha256"] for r in records[2:5]} == {SHA_1}
    assert {r["idempotency_key"] for r in records[2:5]} == {f"write_file:{SHA_1}"}
    head = ["type", "execution_id", "tool_call_id", "status"]
    tail = ["tool_name", "idempotency_key", "arguments_sha256"]
    assert [list(r)[:8] for r in records[2:4]] == [[*head, *tail, "base_sha256"]] * 2
    assert list(records[4]) == [*head, "result", *tail]
    ours = {"status": "succeeded", "execution_id": records[2]["execution_id"]}
    expected = {**ours, "path": "ledger-demo.txt", "bytes_written": 12}
    assert receipts(path) == [(call_id, expected)]
    assert (tmp_path / "ledger-demo.txt").read_bytes() == b"hello ledger"


@pytest.mark.parametrize(("_other", "model"), MODELS)
def test_experiment_2(tmp_path: Path, model: Callable[[], Any], _other: Any) -> None:
    """The fabricated crash of 4 records recovers to the 12 published ones, unasked."""
    arguments = {"path": "recovery-demo.txt", "content": "recovered"}
    call = ("call_recovery_demo", "write_file", arguments)
    old = attempt(
        call,
        *("approved", "running"),
        execution_id="exec_interrupted_demo",
        idempotency_key=f"write_file:{SHA_2}",
    )
    path = write_log(tmp_path / "session-r.jsonl", user(RECOVER), assistant(call), *old)
    before = path.read_bytes()
    with Session.open(path) as session:
        made = Agent(session, model(), workspace_tools(tmp_path), answers([]))
        assert isinstance(made.continue_turn(), str)
    assert path.read_bytes().startswith(before)
    assert kinds(path) == [
        *("user", "assistant", "approved", "running", "unknown", "approved", "running"),
        *("succeeded", "tool", "assistant", "tool", "assistant"),
    ]
    records = log(path)
    assert records[4]["execution_id"] == "exec_interrupted_demo"
    [new] = {r["execution_id"] for r in records[5:8]}
    assert new != "exec_interrupted_demo"
    assert {r["idempotency_key"] for r in records[2:8]} == {f"write_file:{SHA_2}"}
    assert {r["arguments_sha256"] for r in records[2:8]} == {SHA_2}
    (first, receipt), (_, reading) = receipts(path)
    assert (first, receipt["execution_id"]) == ("call_recovery_demo", new)
    assert (reading["status"], reading["content"]) == ("completed", "recovered")
    assert (tmp_path / "recovery-demo.txt").read_bytes() == b"recovered"


# --- the ways in --------------------------------------------------------------------------

TWO = [("store", {"name": "a", "text": "甲"}), ("send", {"text": "乙"})]
BACK: dict[str, Callable[[Agent], Any]] = {
    "run": lambda made: made.run("新的问题"),
    "continue_turn": lambda made: made.continue_turn(),
    "recover": lambda made: made.recover(),
    "advance": lambda made: [made.advance() for _ in range(30) if made.turn_open],
}


@pytest.mark.parametrize("back", list(BACK))
@pytest.mark.parametrize("where", ["first running", "second running", "between"])
def test_two_calls_come_back(tmp_path: Path, back: str, where: str) -> None:
    """However the user comes back, two interrupted calls end as 1 + 1 or 1 + unknown."""
    calls = [(f"call_{n}", *call) for n, call in enumerate(TWO, start=1)]
    store = attempt(calls[0], "approved", "running", base_sha256=None)
    if where != "first running":
        store += attempt(calls[0], "succeeded")
    send = attempt(calls[1], "approved", "running", execution_id="exec_9")
    records = [user(), assistant(*calls), *store, *(send if where == "second running" else [])]
    path = write_log(tmp_path / "session-t.jsonl", *records)
    person = answers(["y"] if where != "second running" else ["不知道"])
    with agent(path, ["-", "完", "新的回答"], _two_tools(tmp_path), person) as made:
        BACK[back](made)
        made.continue_turn()
    first, second = receipts(path)
    assert (first[0], first[1]["status"]) == ("call_1", "succeeded")
    unknown = where == "second running"
    assert (second[0], second[1]["status"]) == ("call_2", "unknown" if unknown else "succeeded")
    assert len(lines(tmp_path / "sent")) == (0 if unknown else 1)
    assert len(lines(tmp_path / "writes")) == (1 if where == "first running" else 0)
    asked = [r for r in kinds(path) if r == "user"]
    assert len(asked) == (2 if back == "run" else 1)


def _two_tools(folder: Path) -> list[Any]:
    return [idempotent(folder), opaque(folder / "sent"), read_only(folder / "reads")]


def test_order_of_results(tmp_path: Path) -> None:
    """Several calls of one message run in their order; each has its own question and result."""
    calls = [("send", {"text": "一"}), ("look", {"text": "二"}), ("send", {"text": "三"}),
             ("store", {"name": "a", "text": "四"})]  # fmt: skip
    path, person = tmp_path / "session-t.jsonl", answers(["y", "n", "y"])
    with agent(path, [calls, "完"], _two_tools(tmp_path), person) as made:
        assert made.run("做") == "完"
    assert [q.call_id for q in person.questions] == ["call_1", "call_3", "call_4"]
    assert [(c, r["status"]) for c, r in receipts(path)] == [
        *(("call_1", "succeeded"), ("call_2", "completed")),
        *(("call_3", "rejected"), ("call_4", "succeeded")),
    ]
    assert len(lines(tmp_path / "sent")) == len(lines(tmp_path / "reads")) == 1
    assert [m["role"] for m in build_prompt_view(log(path))] == [
        *("user", "assistant", "tool", "tool", "tool", "tool", "assistant")
    ]


@pytest.mark.parametrize("nobody", ["None", "EOFError", "ask=None"])
def test_open_question(tmp_path: Path, nobody: str) -> None:
    """An approval that nobody gives leaves the log untouched and survives reopening."""
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND))
    before = path.read_bytes()

    def end_of_input(_prompt: object) -> str:
        raise EOFError

    ask: Any = {"None": answers([None] * 3), "EOFError": end_of_input, "ask=None": None}[nobody]
    for _ in range(2):
        with agent(path, ["-", "完"], _two_tools(tmp_path), ask) as made:
            assert made.recover() == []
            question = made.continue_turn()
            assert isinstance(question, Question)
            with pytest.raises(TurnOpen) as caught:
                made.run("新的问题")
            assert caught.value.question == question
        assert path.read_bytes() == before
        ask = answers([None] * 3) if nobody == "None" else ask
    with agent(path, ["-", "完"], _two_tools(tmp_path), answers(["y"])) as made:
        assert made.continue_turn() == "完"
    assert len(lines(tmp_path / "sent")) == 1


def test_recover_stops_before_the_model(tmp_path: Path) -> None:
    """`recover` answers the open calls, names them, and leaves the model alone."""
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND))
    with agent(path, [], _two_tools(tmp_path), answers(["y"])) as made:
        assert made.recover() == ["call_1"]
        assert made.recover() == []
        assert made.turn_open
    assert kinds(path)[-1] == "tool"


def test_advance(tmp_path: Path) -> None:
    """`advance` does the one action that `next_action` announces, and returns it."""
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND))
    seen = []
    with agent(path, ["-", "完"], _two_tools(tmp_path), answers(["y"])) as made:
        while made.turn_open:
            announced, count = made.next_action(), len(log(path))
            assert made.advance() == announced
            seen.append((type(announced).__name__, len(log(path)) - count))
        assert made.advance() == Done("完")
    assert seen == [("Ask", 1), ("Attempt", 2), ("Publish", 1), ("CallModel", 1)]


# --- closing a turn -----------------------------------------------------------------------


def test_abandon(tmp_path: Path) -> None:
    """Closing a turn runs nothing and gives each open call the receipt that is true."""
    calls = [(f"call_{n}", "send", {"text": f"{n}"}) for n in range(5)]
    states = [("approved", "running"), ("approved", "running", "unknown"), ("approved",), (),
              ("approved", "running", "succeeded")]  # fmt: skip
    ledger: list[JSON] = []
    for call, path_ in zip(calls, states, strict=True):
        ledger += attempt(call, *path_, execution_id=f"exec_{call[0]}")
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(*calls), *ledger)
    before = path.read_bytes()
    with agent(path, [], _two_tools(tmp_path), answers([])) as made:
        made.abandon()
        assert not made.turn_open
        after = path.read_bytes()
        made.abandon()
        assert path.read_bytes() == after
    assert after.startswith(before)
    expected = ["unknown", "unknown", "rejected", "rejected", "succeeded"]
    assert [(c, r["status"]) for c, r in receipts(path)] == [
        (call[0], status) for call, status in zip(calls, expected, strict=True)
    ]
    assert ("#1", "unknown") in statuses(path)
    assert kinds(path)[-1] == "assistant"
    assert lines(tmp_path / "sent") == []
