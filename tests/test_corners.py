"""Branches that only odd input takes; the measuring of branches keeps the list honest."""

import os
from pathlib import Path
from typing import Any

import pytest
from toolkit import JSON, Text, assistant, attempt, user

from lai import Effect, History, Session, SessionFailed, Tool
from lai.calls import Call
from lai.ledger import conflict
from lai.prepared import next_answer
from lai.records import malformed
from lai.wire import text_of

NOTHING: JSON = {"name": "t", "description": "", "arguments": Text, "run": lambda *_: {}}


@pytest.mark.parametrize(("half", "lost"), [(r"\ud83d", True), (r"\ud83d\ude00", False)])
def test_half_of_a_character_is_no_record(tmp_path: Path, half: str, lost: bool) -> None:
    """An escape of half a character can be read and never sent on; both halves are fine."""
    path = tmp_path / "session-书.jsonl"
    path.write_text(f'{{"type":"note","v":"{half}"}}\n', "utf-8")
    session = Session.read(path)
    assert [d.reason for d in session.damage] == ["half of a character"] * lost
    assert len(session.records) == (not lost)


@pytest.mark.parametrize("line", ["5", '"书"', "[]", "null"])
def test_a_line_of_other_json_is_damage(tmp_path: Path, line: str) -> None:
    """A number, a text, a list: whole JSON, and no record."""
    path = tmp_path / "session-书.jsonl"
    path.write_text(f"{line}\n", "utf-8")
    assert [d.reason for d in Session.read(path).damage] == ["not a JSON object"]


def test_arguments_that_cannot_be_read_conflict_with_any_attempt() -> None:
    """The ledger has an attempt at a call whose arguments are no JSON: nothing fits them."""
    call = ("call_1", "send", {"text": "书"})
    history = History.of([user(), assistant(call), *attempt(call, "approved")])
    (execution,) = history.ledger.executions.values()
    torn = Call(line=2, index=0, id="call_1", name="send", text='{"text": "书')
    assert "cannot be read" in str(conflict(torn, execution))


def test_an_unknown_outcome_of_a_verdict_is_malformed() -> None:
    """A resolution says happened or not_happened, and nothing else."""
    record = {"type": "resolution", "execution_id": "e", "outcome": "也许"}
    assert "也许" in str(malformed(record))
    assert malformed({**record, "outcome": "happened"}) is None


def test_a_compaction_without_words_is_malformed() -> None:
    """What takes the place of a conversation is a text."""
    assert "summary" in str(malformed({"type": "compaction", "summary": None}))


def test_a_forked_process_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session knows the process that opened it; under another number it appends nothing."""
    path = tmp_path / "session-书.jsonl"
    with Session.open(path) as session:
        session.append({"type": "note"})
        before = path.read_bytes()
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(SessionFailed, match="before the fork"):
            session.append({"type": "note"})
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"effect": Effect.QUERYABLE}, "needs lookup"),
        ({"effect": Effect.KEYED, "key_scope": "书"}, "key_scope and key_retention"),
        ({"version": lambda _: None}, "come together"),
        ({"wanted": lambda _: ""}, "come together"),
        ({"noted": {"status": "succeeded"}}, "would replace a field"),
        ({"max_attempts": 0}, "at least 1"),
    ],
)
def test_a_tool_that_contradicts_itself_is_refused(wrong: dict[str, Any], says: str) -> None:
    """What a promise needs must be there when the tool is made, not when it is used."""
    with pytest.raises(ValueError, match=says):
        Tool(**NOTHING | wrong)


def test_text_in_parts_is_read_in_order() -> None:
    """Some providers send content as a list; what is no text adds nothing."""
    parts = [{"type": "text", "text": "书"}, 5, {"type": "image"}, {"type": "text", "text": "🖋"}]
    assert text_of({"role": "user", "content": parts}) == "书🖋"
    assert text_of({"role": "user", "content": None}) == ""


def test_entries_from_the_end_leave_out_an_open_call() -> None:
    """A call without its result is not sent, so it costs nothing and is not listed."""
    records = [user("书"), assistant(text="好"), user(), assistant(("c", "send", {"text": "书"}))]
    found = list(History.of(records).view.newest_first())
    assert [entry.line for entry, _ in found] == [3, 2, 1]
    assert all(len(costs) == 1 for _, costs in found)


@pytest.mark.parametrize("content", ["不是 JSON", "[1]", None])
def test_the_offline_model_bears_any_result(content: str | None) -> None:
    """After a result that is no object, of a tool that no script knows, it says what it knows."""
    call = {"id": "c", "type": "function", "function": {"name": "算", "arguments": "{"}}
    messages = [
        {"role": "user", "content": "算一算"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": content},
    ]
    answer = next_answer(messages, [])
    assert answer["content"]
    assert "tool_calls" not in answer


@pytest.mark.parametrize(("content", "quoted"), [("第一行", True), ("", False)])
def test_the_offline_model_reads_what_it_wrote(content: str, quoted: bool) -> None:
    """After a write it reads back, after a read it concludes, also from an empty file."""
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": '{"path":"a"}'}}
        for name in ("算", "read_file")
    ]
    messages = [
        {"role": "user", "content": "看看"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "算", "content": "{}"},
        {"role": "tool", "tool_call_id": "read_file", "content": f'{{"content":"{content}"}}'},
    ]
    said = next_answer(messages, [])["content"]
    assert ("第一行" in said) is quoted
    assert "a" in said
    messages[1]["tool_calls"][1]["function"]["name"] = "write_file"  # type: ignore[index]
    (call,) = next_answer(messages, [])["tool_calls"]
    assert call["function"]["name"] == "read_file"
