"""Before the table: a ledger that does not fit its call, and calls that cannot be run."""

from dataclasses import replace
from pathlib import Path

import pytest
from decisions import ARGUMENTS, CALL, NOW, OLD, history, story, told, tool, tries
from toolkit import (
    JSON,
    Text,
    agent,
    answers,
    assistant,
    attempt,
    receipts,
    resolution,
    user,
    write_log,
)

from lai import Effect, Publish, decide, workspace_tools

UNKNOWN = attempt(CALL, "approved", "running", "unknown")
OTHER = {"text": "another"}
CONFLICTS = [
    pytest.param({"arguments_sha256": "0" * 64}, id="hash"),
    pytest.param({"tool_name": "other"}, id="tool"),
    pytest.param({"idempotency_key": "act:call_2"}, id="key of another call"),
    pytest.param({"idempotency_key": "act:" + "0" * 64}, id="key of another hash"),
    pytest.param({"idempotency_key": "other:call_1"}, id="key of another tool"),
]


@pytest.mark.parametrize("details", CONFLICTS)
@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("state", ["approved", "rejected", "running", "unknown", "succeeded"])
def test_conflict(details: JSON, effect: Effect, state: str) -> None:
    """Before any row: a ledger that does not fit the call runs, asks and reuses nothing."""
    records = [{**record, **details} for record in tries(state)]
    for when in (OLD, NOW):
        action = decide(story(*records, when=when), [tool(effect), tool(effect, "other")])
        assert isinstance(action, Publish)
        assert action.result["status"] == "conflict"
        started = state not in ("approved", "rejected")
        assert ("may have acted" in action.result["message"]) is started
        assert ("exec_1" in action.result["message"]) is started
        assert "exec_1" not in str(action.result).replace(action.result["message"], "")


def test_conflict_of_an_earlier_attempt() -> None:
    """One attempt that does not fit is enough, also behind one that does."""
    first = attempt(("call_1", "act", OTHER), "approved", "running", "unknown")
    second = attempt(CALL, "approved", "running", "succeeded", execution_id="exec_2")
    action = decide(story(*first, *second), [tool(Effect.IDEMPOTENT)])
    assert told(action) == "publish conflict"


@pytest.mark.parametrize("state", ["running", "succeeded", "unknown"])
@pytest.mark.parametrize("effect", list(Effect))
def test_both_keys(state: str, effect: Effect) -> None:
    """A key of the call and a key of the hash are both good, whatever the promise."""
    records = tries(state)
    by_call = story(*({**r, "idempotency_key": "act:call_1"} for r in records))
    hashed = f"act:{records[0]['arguments_sha256']}"
    by_hash = story(*({**r, "idempotency_key": hashed} for r in records))
    both = [told(decide(made, [tool(effect)])) for made in (by_call, by_hash)]
    assert both[0] == both[1]
    assert "conflict" not in both[0]


REFUSALS = {
    "no such tool": assistant(("call_1", "nothing", ARGUMENTS)),
    "broken": assistant(("call_1", "act", '{"text": "书')),
    "a key twice": assistant(("call_1", "act", '{"text": "a", "text": "b"}')),
    "NaN": assistant(("call_1", "act", '{"text": NaN}')),
    "lone surrogate": assistant(("call_1", "act", '{"text": "\\ud800"}')),
    "extra field": assistant(("call_1", "act", {**ARGUMENTS, "mode": "w"})),
    "cut at length": assistant(CALL, finish_reason="length"),
}


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("message", list(REFUSALS.values()), ids=list(REFUSALS))
def test_refused(message: JSON, effect: Effect) -> None:
    """What cannot be run at all gets one plain result at once: nobody is asked."""
    action = decide(history(user(), message), [tool(effect)])
    assert told(action) == "publish failed"
    assert isinstance(action, Publish)
    assert "Nothing ran" in action.result["message"]


def test_refusal_names_the_tools() -> None:
    """A model that calls a tool that does not exist is told which do."""
    made = history(user(), REFUSALS["no such tool"])
    action = decide(made, [tool(Effect.OPAQUE), tool(Effect.KEYED, "other")])
    assert isinstance(action, Publish)
    assert "act, other" in action.result["message"]


GONE: list[tuple[str, list[JSON], str]] = [
    ("approved", tries("approved"), "publish failed"),
    ("running", tries("running"), "Settle exec_1"),
    ("unknown", tries("unknown"), "AskVerdict exec_1"),
    ("absent", tries("unknown", lookup="absent"), "AskVerdict exec_1"),
    ("retry left approved", tries("unknown", "approved"), "AskVerdict exec_1"),
    ("not happened", [*UNKNOWN, resolution("not_happened")], "publish failed"),
    ("happened", [*UNKNOWN, resolution("happened")], "publish succeeded exec_1"),
    ("rejected after unknown", tries("unknown", "rejected"), "AskVerdict exec_1"),
]


class Changed(Text):
    """What the tool takes since its last version."""

    more: int


@pytest.mark.parametrize("effect", [None, Effect.IDEMPOTENT, Effect.QUERYABLE], ids=str)
@pytest.mark.parametrize(
    ("records", "expected"), [pytest.param(*row[1:], id=row[0]) for row in GONE]
)
def test_tool_gone(effect: Effect | None, records: list[JSON], expected: str) -> None:
    """Of a call that can no longer run nobody says "nothing ran" where an attempt may have."""
    tools = [replace(tool(effect), arguments=Changed)] if effect else []
    assert told(decide(story(*records), tools)) == expected


@pytest.mark.parametrize("arguments", [{"path": 5, "content": "书"}, {}, {"path": "\x00"}])
def test_arguments_of_another_schema(tmp_path: Path, arguments: JSON) -> None:
    """An interrupted call whose arguments the tool no longer takes is put to a person."""
    call = ("call_1", "write_file", arguments)
    path = tmp_path / "session-t.jsonl"
    write_log(path, user(), assistant(call), *attempt(call, "approved", "running"))
    person = answers(["happened: 看过"])
    with agent(path, ["-", "完"], workspace_tools(tmp_path), person) as made:
        assert made.continue_turn() == "完"
    assert [r["status"] for _, r in receipts(path)] == ["succeeded"]
