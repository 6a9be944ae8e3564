"""A person's verdict: which answers are one, and what follows from it."""

from pathlib import Path
from typing import Any

import pytest
from toolkit import (
    agent,
    answers,
    assistant,
    attempt,
    kinds,
    lines,
    log,
    opaque,
    receipts,
    resolution,
    statuses,
    user,
    write_log,
)

from lai import (
    Agent,
    IllegalTransition,
    LaiError,
    TurnOpen,
)

SAME = ("call_1", "send", {"text": "发 500 元"})
SEND = ("call_1", "send", {"text": "书\u2028\x85😀"})


def doubted(path: Path) -> Path:
    """A log whose only call was interrupted."""
    return write_log(path, user(), assistant(SAME), *attempt(SAME, "approved", "running"))


def verdict_agent(path: Path, *said: str | None) -> Any:
    """An agent for it, with a person who says these things."""
    replies = ["-", "完", "再见"]
    return agent(path, replies, [opaque(path.parent / "sent")], answers(said))


NO_VERDICT = ["y", "yes", "n", "", "happened", "happened:", "happened:  ", "not happened: \u3000",
              "it happened: x", "Happened: x", "nothappened: x", "y: happened: x"]  # fmt: skip


@pytest.mark.parametrize("answer", NO_VERDICT)
def test_no_verdict(tmp_path: Path, answer: str) -> None:
    """What is no verdict with evidence resolves nothing: unknown is published, and asked once."""
    path = doubted(tmp_path / "session-t.jsonl")
    with verdict_agent(path, answer) as made:
        assert made.continue_turn() == "完"
        assert made.run("然后呢") == "再见"
    assert statuses(path)[2:] == [("#1", "unknown")]
    [(call_id, receipt)] = receipts(path)
    assert (call_id, receipt["status"]) == ("call_1", "unknown")
    assert lines(tmp_path / "sent") == []


def test_declined_and_unpublished(tmp_path: Path) -> None:
    """A declined question is asked again by a new process only while nothing is published."""
    path = doubted(tmp_path / "session-t.jsonl")
    with verdict_agent(path, "y") as made:
        made.advance()
        made.advance()
        assert str(made.next_action()).startswith("Publish")
    with verdict_agent(path, "不知道") as made:
        assert made.recover() == ["call_1"]
    with verdict_agent(path) as made:
        assert made.continue_turn() == "完"


def test_happened(tmp_path: Path) -> None:
    """A verdict "happened" makes the attempt succeed, with what was known; the turn goes on."""
    path = doubted(tmp_path / "session-t.jsonl")
    with verdict_agent(path, "happened: 银行流水 \u2028 😀") as made:
        assert made.continue_turn() == "完"
    [(call_id, receipt)] = receipts(path)
    assert (call_id, receipt["status"], receipt["execution_id"]) == (
        "call_1",
        "succeeded",
        "exec_1",
    )
    assert receipt["evidence"] == "银行流水 \u2028 😀"
    assert kinds(path)[-4:] == ["unknown", "resolution", "tool", "assistant"]
    assert log(path)[-3]["by"] == "person"
    assert lines(tmp_path / "sent") == []


def test_happened_keeps_what_was_known(tmp_path: Path) -> None:
    """What the tool said about its doubtful attempt is still in the result after a verdict."""
    *head, unknown = attempt(SAME, "approved", "running", "unknown")
    unknown["result"] |= {"message": "killed after 60 s", "output": "书 \u2028", "exit_code": None}
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SAME), *head, unknown)
    with verdict_agent(path, "happened: 有") as made:
        made.recover()
    [(_, receipt)] = receipts(path)
    assert (receipt["output"], receipt["exit_code"], receipt["evidence"]) == (
        "书 \u2028",
        None,
        "有",
    )
    assert "killed after 60 s" in str(receipt)


@pytest.mark.parametrize(("then", "sent"), [("y", 1), ("n", 0)])
def test_not_happened(tmp_path: Path, then: str, sent: int) -> None:
    """After "not happened" the call is asked again, with that word; a yes is a new attempt."""
    path = doubted(tmp_path / "session-t.jsonl")
    person = answers(["not happened: 余额未变", then])
    with agent(path, ["-", "完"], [opaque(tmp_path / "sent")], person) as made:
        assert made.continue_turn() == "完"
    assert "余额未变" in str(person.questions[1])
    assert len(lines(tmp_path / "sent")) == sent
    new = ["approved", "running", "succeeded"] if sent else ["rejected"]
    assert statuses(path)[2:] == [
        ("#1", "unknown"), ("#1", "not_happened"), *[("#2", status) for status in new]
    ]  # fmt: skip
    assert receipts(path)[0][1]["status"] == new[-1]


@pytest.mark.parametrize("nobody", [None, EOFError()], ids=["None", "end of input"])
def test_open_verdict(tmp_path: Path, nobody: Any) -> None:
    """A verdict that nobody gives now stays open, survives reopening and keeps new text out."""
    path = doubted(tmp_path / "session-t.jsonl")
    with verdict_agent(path, nobody, nobody) as made:
        made.recover()
        before = path.read_bytes()
        with pytest.raises(TurnOpen):
            made.run("新的问题")
    assert path.read_bytes() == before
    with verdict_agent(path, "happened: 有") as made:
        assert isinstance(made, Agent)
        assert made.recover() == ["call_1"]


# --- a verdict after publication ----------------------------------------------------------

PUBLISHED = [
    *(user(), assistant(SEND), *attempt(SEND, "approved", "running", "unknown")),
    {"type": "message",
     "message": {"role": "tool", "tool_call_id": "call_1", "content": '{"status": "unknown"}'}},
    assistant(text="不确定"),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "word"), [("happened", "it happened"),
                                               ("not_happened", "did not happen")])  # fmt: skip
@pytest.mark.parametrize("reopen", [True, False])
def test_resolve(tmp_path: Path, outcome: str, word: str, reopen: bool) -> None:
    """A late verdict stands in front of the next user text, in that record, exactly once."""
    path = write_log(tmp_path / "session-t.jsonl", *PUBLISHED)
    with agent(path, ["-", "-", "好", "再好"], []) as made:
        made.resolve("exec_1", outcome, "看过日志 \u2028")
        count = len(log(path))
        if not reopen:
            made.run("继续 😀")
    if reopen:
        with agent(path, ["-", "-", "好", "再好"], []) as made:
            made.run("继续 😀")
    with agent(path, ["-", "-", "好", "再好"], []) as made:
        made.run("下一个")
    texts = [r["message"]["content"] for r in log(path)[count:] if kinds(path)]
    assert word in texts[0]
    assert "看过日志 \u2028" in texts[0]
    assert "exec_1" in texts[0]
    assert texts[0].endswith("\n\n继续 😀")
    assert texts[2] == "下一个"
    assert len(receipts(path)) == 1


@pytest.mark.parametrize("state", ["approved", "running", "succeeded", "rejected", "resolved", "-"])
def test_resolve_refuses(tmp_path: Path, state: str) -> None:
    """Only an attempt that is still unknown takes a verdict; all else changes nothing."""
    ways = {"approved": ["approved"], "rejected": ["rejected"], "running": ["approved", "running"],
            "resolved": ["approved", "running", "unknown"], "-": []}  # fmt: skip
    ledger = attempt(SEND, *ways.get(state, ["approved", "running", state]))
    ledger += [resolution("not_happened")] if state == "resolved" else []
    path = write_log(tmp_path / "session-t.jsonl", user(), assistant(SEND), *ledger)
    before = path.read_bytes()
    with agent(path, [], [opaque(tmp_path / "sent")]) as made:
        was = made.next_action()
        with pytest.raises(IllegalTransition):
            made.resolve("exec_1", "happened", "看过")
        assert made.next_action() == was
    assert path.read_bytes() == before


@pytest.mark.parametrize(("outcome", "evidence"), [("happened", " "), ("perhaps", "看过"),
                                                   ("happened", "\ud800")])  # fmt: skip
def test_resolve_needs_evidence(tmp_path: Path, outcome: str, evidence: str) -> None:
    """No evidence, no known outcome or no UTF-8 form: refused, and nothing is written."""
    path = write_log(tmp_path / "session-t.jsonl", *PUBLISHED)
    before = path.read_bytes()
    with agent(path, [], []) as made, pytest.raises((LaiError, ValueError)):
        made.resolve("exec_1", outcome, evidence)
    assert path.read_bytes() == before
