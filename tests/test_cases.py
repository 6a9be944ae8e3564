"""Small inputs from public reports, with the right behaviour; the files are in data/cases."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import case, session
from toolkit import JSON, agent, answers, attempt, kinds, log, receipts, statuses, write_log

from lai import (
    Tool,
    arguments_sha256,
    build_prompt_view,
    workspace_tools,
)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace."""
    (tmp_path / "notes.txt").write_text("笔记 \u2028\x85😀", "utf-8")
    return tmp_path


def audit(ws: Path) -> bytes:
    """The file that commands append to."""
    file = ws / "audit.log"
    return file.read_bytes() if file.exists() else b""


def tool_named(ws: Path, name: str) -> Tool:
    """One of the three workspace tools."""
    return next(tool for tool in workspace_tools(ws) if tool.name == name)


# --- K1: orphans and interrupts -----------------------------------------------------------


def test_k1_01_orphan_at_the_end(ws: Path) -> None:
    """K1-01: an unanswered read is read, and the old turn ends before the new text stands."""
    path = session(ws, "K1-01")
    with agent(path, ["-", "读完了", "新的回答"], workspace_tools(ws), answers([])) as made:
        assert made.run("新问题") == "新的回答"
    assert kinds(path) == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    [(call_id, receipt)] = receipts(path)
    assert (call_id, receipt["content"]) == ("call_a", "笔记 \u2028\x85😀")
    assert statuses(path) == []


def test_k1_02_orphan_in_the_middle(ws: Path) -> None:
    """K1-02: the whole history is scanned; one unknown, no second run, the view is in order."""
    path = session(ws, "K1-02")
    before = path.read_bytes()
    with agent(path, ["-", "-", "继续"], workspace_tools(ws), None) as made:
        assert made.continue_turn() == "继续"
    assert path.read_bytes().startswith(before)
    assert statuses(path)[2:] == [("#1", "unknown")]
    view = build_prompt_view(log(path))
    assert [m["role"] for m in view] == [
        *("user", "assistant", "tool", "user", "assistant", "user", "assistant")
    ]
    assert json.loads(view[2]["content"])["status"] == "unknown"
    assert audit(ws) == b""


def test_k1_05_batch_in_pieces(ws: Path) -> None:
    """K1-05: of three calls one is replayed, one is unknown, one is asked about, in that order."""
    path, person = session(ws, "K1-05"), answers(["no", "no"])
    with agent(path, [], workspace_tools(ws), person) as made:
        assert made.recover() == ["call_1", "call_2", "call_3"]
    assert [q.kind for q in person.questions] == ["verdict", "approval"]
    assert [(c, r["status"]) for c, r in receipts(path)] == [
        *(("call_1", "succeeded"), ("call_2", "unknown"), ("call_3", "rejected"))
    ]
    assert sorted(f.name for f in ws.iterdir()) == [".agent_state", "notes.txt"]


@pytest.mark.parametrize("point", case("K1-07")["points"])
def test_k1_07_ctrl_c(ws: Path, point: str) -> None:
    """K1-07: Ctrl-C in a command is unknown and published before the prompt comes back."""
    bash, path = tool_named(ws, "run_bash"), ws / ".agent_state" / "session-t.jsonl"

    def run(arguments: JSON, attempt: Any) -> JSON:
        if point == "after_effect":
            bash.run(arguments, attempt)
        raise KeyboardInterrupt

    replies = [[("run_bash", case("K1-07")["arguments"])], "旧的", "新的"]
    with agent(path, replies, [replace(bash, run=run)], answers(["y"])) as made:
        with pytest.raises(KeyboardInterrupt):
            made.run("追加")
        assert kinds(path)[-2:] == ["unknown", "tool"]
        assert made.run("新的消息") == "新的"
    assert "failed" not in [s for _, s in statuses(path)]
    assert audit(ws) == (b"sent\n" if point == "after_effect" else b"")
    roles = [m["role"] for m in build_prompt_view(log(path))]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]


# --- K4: what is done twice, and what is seen ----------------------------------------------

POINTS = [  # file, lines there at the crash, the person, lines after, how the ledger goes on
    ("p1", b"", ["y"], b"sent\n", ["approved", "running", "succeeded"]),
    ("p2", b"", ["y"], b"sent\n", ["approved", "running", "succeeded"]),
    ("p3", b"", ["?"], b"", ["unknown"]),
    ("p4", b"sent\n", ["?"], b"sent\n", ["unknown"]),
    ("p5", b"sent\n", [], b"sent\n", []),
    ("p6", b"sent\n", [], b"sent\n", []),
]


@pytest.mark.parametrize(("point", "there", "said", "after", "ledger"), POINTS)
@pytest.mark.parametrize("again", [1, 2])
def test_k4_01_six_points(
    ws: Path, point: str, there: bytes, said: list[str], after: bytes, ledger: list[str], again: int
) -> None:
    """K4-01: killed at six points of a real command, it runs twice only where asked afresh."""
    path = session(ws, f"K4-01.{point}")
    before, old = path.read_bytes(), len(statuses(path))
    (ws / "audit.log").write_bytes(there)
    person = answers(said)
    for _ in range(again):
        with agent(path, ["-", "完"], workspace_tools(ws), person) as made:
            if point == "p6":
                now = path.read_bytes()
                assert made.recover() == []
                assert path.read_bytes() == now
            assert made.continue_turn() == "完"
    assert audit(ws) == after
    assert path.read_bytes().startswith(before)
    assert [s for _, s in statuses(path)][old:] == ledger
    assert len({r["idempotency_key"] for r in log(path) if "idempotency_key" in r}) == 1
    [(call_id, receipt)] = receipts(path)
    assert (call_id, receipt["status"]) == ("call_a", ledger[-1] if ledger else "succeeded")


@pytest.mark.parametrize("point", range(1, 7))
def test_k4_01_write_file(ws: Path, point: int) -> None:
    """K4-01 for write_file: in doubt the old attempt is unknown and a new one has the same key."""
    arguments = {"path": "书.txt", "content": "新 \u2028"}
    call = ("call_a", "write_file", arguments)
    path = session(ws, f"K4-01.p{point}")
    for record in (records := log(path)):
        for raw in record.get("message", {}).get("tool_calls", ()):
            raw["function"] = {"name": "write_file", "arguments": json.dumps(arguments)}
    sha256 = arguments_sha256(arguments)
    states = [r["status"] for r in records if r["type"] == "tool_execution"]
    ledger = attempt(call, *states, execution_id="exec_a", idempotency_key=f"write_file:{sha256}")
    write_log(path, *records[:2], *ledger, *records[2 + len(ledger) :])
    if point >= 4:
        (ws / "书.txt").write_text("新 \u2028", "utf-8")
    old, person = len(ledger), answers(["y"] if point < 3 else [])
    with agent(path, ["-", "完"], workspace_tools(ws), person) as made:
        assert made.continue_turn() == "完"
    assert (ws / "书.txt").read_bytes() == "新 \u2028".encode()
    retried = [("#1", "unknown"), ("#2", "approved"), ("#2", "running"), ("#2", "succeeded")]
    if point in (3, 4):
        assert statuses(path)[old:] == retried
    assert len({r["idempotency_key"] for r in log(path) if "idempotency_key" in r}) == 1
    assert len(receipts(path)) == 1
    assert log(path)[-1]["message"]["content"] == "完"


@pytest.mark.parametrize("cut", [2, 3])
def test_k4_01_read_file(ws: Path, cut: int) -> None:
    """K4-01 for read_file: it is read again unless its answer is there, and nobody is asked."""
    path = session(ws, "K1-01")
    with agent(path, ["-", "完"], workspace_tools(ws)) as made:
        made.continue_turn()
    whole = log(path)
    write_log(path, *whole[:cut])
    (ws / "notes.txt").write_text("后来", "utf-8")
    with agent(path, ["-", "完"], workspace_tools(ws), answers([])) as made:
        assert made.continue_turn() == "完"
    assert receipts(path)[0][1]["content"] == ("后来" if cut == 2 else "笔记 \u2028\x85😀")


@pytest.mark.parametrize("name", ["a", "b", "control"])
def test_k4_04_arguments_that_changed(ws: Path, name: str) -> None:
    """K4-04: another content than the ledger's is a conflict; another spelling of it is none."""
    path = session(ws, f"K4-04.{name}")
    count = len(log(path))
    with agent(path, ["-", "完"], workspace_tools(ws), answers([])) as made:
        assert made.continue_turn() == "完"
    assert kinds(path)[count:] == ["tool", "assistant"]
    [(call_id, receipt)] = receipts(path)
    assert call_id == "call_w"
    assert receipt["status"] == ("succeeded" if name == "control" else "conflict")
    if name != "control":
        assert "exec_1" in receipt["message"]
        assert "bytes_written" not in receipt
    assert not (ws / "a.txt").exists()


@pytest.mark.parametrize("command", case("K4-05")["commands"])
def test_k4_05_no_harmless_first_word(ws: Path, command: str) -> None:
    """K4-05: every command asks a person, whatever it starts with; refused, it leaves no mark."""
    path, person = ws / ".agent_state" / "session-t.jsonl", answers(["n"])
    replies = [[("run_bash", {"command": command})], "完"]
    with agent(path, replies, workspace_tools(ws), person) as made:
        assert made.run("做") == "完"
    assert [q.arguments for q in person.questions] == [{"command": command}]
    assert not (ws / case("K4-05")["marker"]).exists()
    assert statuses(path) == [("#1", "rejected")]


def test_k4_07_timeout_after_the_effect(ws: Path) -> None:
    """K4-07: a time-out after the effect is unknown; only the model's new call runs it again."""
    bash, path = tool_named(ws, "run_bash"), ws / ".agent_state" / "session-t.jsonl"

    def run(arguments: JSON, attempt: Any) -> JSON:
        bash.run(arguments, attempt)
        raise TimeoutError("没有回答")

    send = [("run_bash", {"command": "echo sent >> audit.log"})]
    person = answers(["y", "?", "n"])
    with agent(path, [send, send, "完"], [replace(bash, run=run)], person) as made:
        assert made.run("追加") == "完"
    assert [q.kind for q in person.questions] == ["approval", "verdict", "approval"]
    assert log(path)[2]["execution_id"] in str(person.questions[2])
    assert audit(ws) == b"sent\n"
    first, second = (receipt for _, receipt in receipts(path))
    assert (first["status"], second["status"]) == ("unknown", "rejected")
    assert "repeat" in str(first)


@pytest.mark.parametrize("command", case("K4-09")["commands"])
def test_k4_09_what_is_shown_runs(ws: Path, command: str) -> None:
    """K4-09: the end of a long command is on the screen, and that command is what runs."""
    person = answers(["y"])
    path = ws / ".agent_state" / "session-t.jsonl"
    replies = [[("run_bash", {"command": command})], "完"]
    with agent(path, replies, workspace_tools(ws), person) as made:
        made.run("做")
    [question] = person.questions
    shown = [x.removeprefix("  | ") for x in str(question).split("\n") if x.startswith("  | ")]
    assert "\n".join(shown) == command
    assert question.sha256 == arguments_sha256({"command": command})
    assert question.sha256 == log(path)[2]["arguments_sha256"]
    assert (ws / "TAIL").exists()
