"""The model's reading of a log: a list of messages that every provider accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolkit import JSON, assistant, attempt, user

from lai import Session, build_prompt_view
from lai.context import View
from lai.wire import NO_TEXT, SUMMARY_HEADER

CASES = Path(__file__).parent / "data" / "cases"
CALL = ("call_1", "send", {"text": "书\u2028\u0085"})
OTHER = ("call_2", "send", {"text": "🚀"})


def result(call_id: str, content: str = "{}") -> JSON:
    """A tool result."""
    message = {"role": "tool", "tool_call_id": call_id, "content": content}
    return {"type": "message", "message": message}


def viewed(records: list[JSON]) -> View:
    """The view after these records."""
    view = View()
    for line, record in enumerate(records, start=1):
        view.feed(record, line)
    return view


def contents(view: list[JSON]) -> list[str]:
    """What each message says."""
    return [message["content"] for message in view]


def faults(view: list[JSON]) -> list[str]:
    """What a strict provider would refuse in a list of messages."""
    found, rest = [], list(view)
    while rest:
        message = rest.pop(0)
        calls = message.get("tool_calls", [])
        found += message_faults(message, calls)
        wanted = [("tool", call["id"]) for call in calls]
        results = [(m["role"], m.get("tool_call_id")) for m in rest[: len(calls)]]
        if wanted != results:
            found.append(f"after {wanted} come {results}")
        rest = rest[len(calls) :]
    ids = [call["id"] for message in view for call in message.get("tool_calls", [])]
    return found + ["empty or repeated ids"] * (not all(ids) or len(set(ids)) < len(ids))


def message_faults(message: JSON, calls: Any) -> list[str]:
    """What it would refuse in one message; results behind their calls are not looked at here."""
    found = [call for call in calls or [] if call["type"] != "function"]
    texts = [call["function"]["arguments"] for call in calls or []]
    found += [text for text in texts if not isinstance(json.loads(text), dict)]
    found += ["a result that follows no call"] * (message["role"] == "tool")
    found += ["no content"] * (not isinstance(message.get("content"), str))
    found += ["an empty list of calls"] * ("tool_calls" in message and not calls)
    if message["role"] == "assistant" and not calls and not message.get("content"):
        found.append("an answer that says nothing")
    return found


def assert_view_grows(records: list[JSON]) -> None:
    """Every prefix has a valid view, and each view begins with the one before it."""
    before: list[JSON] = []
    for end in range(len(records) + 1):
        now = viewed(records[:end]).messages()
        assert faults(now) == []
        assert now[: len(before)] == before
        before = now


def test_the_ledger_never_enters_the_view() -> None:
    """9 messages and 6 ledger lines make a view of the 9 messages, unchanged and in order."""
    steps = "approved", "running", "succeeded"
    records = [user("一"), assistant(CALL), *attempt(CALL, *steps), result("call_1", "好\u2028")]
    records += [assistant(text="完"), user("二 🚀"), assistant(OTHER)]
    records += [
        *attempt(OTHER, *steps, execution_id="exec_2"),
        result("call_2"),
        assistant(text="完"),
    ]
    records += [{"type": "newer", "message": {"role": "user", "content": "x"}}, user("三")]
    view = build_prompt_view(records)
    assert view == [record["message"] for record in records if record["type"] == "message"]
    assert (len(view), len(records)) == (9, 16)


def test_k1_02_a_late_result_stands_behind_its_call() -> None:
    """K1-02: without its result the call is left out; with it both stand before later messages."""
    records = Session.read(CASES / "K1-02.jsonl").records
    assert contents(build_prompt_view(records)) == [
        "给审计日志追加一行",
        "还在吗？",
        "在。",
        "请继续",
    ]
    view = build_prompt_view([*records, result("call_a", "不知道")])
    assert [m["role"] for m in view] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert view[1]["tool_calls"][0]["id"] == view[2]["tool_call_id"] == "call_a"
    assert faults(view) == []


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.glob("*.jsonl")))
def test_every_prefix_of_every_case_is_valid(case: str) -> None:
    """However early a session ends, its view is one that a strict provider accepts."""
    records = Session.read(CASES / case).records
    before = json.dumps(records)
    for end in range(len(records) + 1):
        assert faults(build_prompt_view(records[:end])) == []
    assert json.dumps(records) == before


@pytest.mark.parametrize("case", ["K2-05", "K2-07", "K3-01", "K7-07"])
def test_the_view_grows_only_at_its_end(case: str) -> None:
    """In a log written in order nothing that was sent once is changed or moved later."""
    assert_view_grows(Session.read(CASES / f"{case}.jsonl").records)


def test_results_come_in_the_order_of_the_calls() -> None:
    """A batch appears when its last call is answered, its results in the order of the calls."""
    records = [user(), assistant(CALL, OTHER, ("call_3", "send", {}))]
    records += [result("call_3", "3"), result("call_1", "1")]
    assert [m["role"] for m in build_prompt_view(records)] == ["user"]
    view = build_prompt_view([*records, result("call_2", "2")])
    assert contents(view)[2:] == ["1", "2", "3"]


def test_a_result_that_answers_nothing_is_left_out() -> None:
    """Neither a stray result nor a second result for one call reaches the model."""
    records = [result("call_1", "stray"), user(), assistant(CALL), result("call_1", "1")]
    view = build_prompt_view([*records, result("call_1", "again"), result("", "stray")])
    assert contents(view)[1:] == [NO_TEXT, "1"]


def test_unknown_fields_survive() -> None:
    """What a provider added to a message or a call is sent back to it untouched."""
    record = assistant(CALL, text="想好了")
    record["message"] |= {"reasoning_content": "书\u2028", "x": [{"y": None}]}
    record["message"]["tool_calls"][0] |= {"index": 0, "extra": {"signature": "🚀"}}
    record["message"]["tool_calls"][0]["function"]["strict"] = True
    view = build_prompt_view([user(), record, result("call_1")])
    assert view[1] == record["message"]


def test_k7_07_one_form_for_no_text() -> None:
    """K7-07: null, missing and empty content are sent alike; a message that says nothing is not."""
    records = Session.read(CASES / "K7-07.jsonl").records
    records += [assistant(("call_3", "read_file", {"path": "c"})), result("call_3", "C")]
    view = build_prompt_view(records)
    assert [m["role"] for m in view] == ["user", *["assistant", "tool"] * 3]
    assert [m["content"] for m in view if m["role"] == "assistant"] == [NO_TEXT] * 3
    assert viewed(Session.read(CASES / "K7-07.jsonl").records).final is None  # no turn ended


@pytest.mark.parametrize("calls", [None, []])
def test_no_calls_have_one_form_too(calls: list[JSON] | None) -> None:
    """A null or empty list of calls, which strict providers refuse, is not sent."""
    record = assistant(text="好")
    record["message"]["tool_calls"] = calls
    assert build_prompt_view([record]) == [{"role": "assistant", "content": "好"}]
    assert record["message"]["tool_calls"] == calls


@pytest.mark.parametrize(
    "arguments", ['{"a": "书', "[1]", "", "null", '{"a": NaN}', '{"a":1,"a":2}']
)
def test_broken_arguments_are_replaced_in_the_view_only(arguments: str) -> None:
    """Arguments that are no JSON object are sent as an empty one; the record keeps the raw text."""
    record = assistant(("call_1", "send", arguments))
    view = build_prompt_view([user(), record, result("call_1")])
    assert view[1]["tool_calls"][0]["function"] == {"name": "send", "arguments": "{}"}
    assert record["message"]["tool_calls"][0]["function"]["arguments"] == arguments


def test_ids_are_made_unique_in_the_view_only() -> None:
    """Empty and repeated ids, and ids like those the view makes, become non-empty and unique."""
    made = [m for n in range(1, 4) for m in (f"call_line2_{n}", "")]
    records = [user(), assistant(*[(i, "send", {}) for i in made])]
    records += [result(call_id, f"{call_id} 书") for call_id in made]
    records += [assistant(CALL, CALL), result("call_1", "a"), result("call_1", "b")]
    before = json.dumps(records)
    view = build_prompt_view(records)
    assert faults(view) == []
    assert contents(view)[-2:] == ["a", "b"]
    assert json.dumps(records) == before


IDS = st.sampled_from(["call_1", "call_2", "", "call_line2_0"])
ARGUMENTS = st.sampled_from(["{}", '{"a": "书\u2028"}', "{", "", '{"a": NaN}'])
CALLS = st.lists(st.tuples(IDS, st.just("send"), ARGUMENTS), max_size=3)
RECORDS = st.one_of(
    st.builds(user, st.text(max_size=3)),
    st.builds(result, IDS, st.text(max_size=3)),
    st.builds(lambda calls, text: assistant(*calls, text=text), CALLS, st.sampled_from(["", "好"])),
    st.sampled_from([attempt(CALL, "running")[0], {"type": "newer"}]),
)


@given(st.lists(RECORDS, max_size=14))
def test_any_log_has_a_valid_view(records: list[JSON]) -> None:
    """Whatever order messages come in, the view is valid and holds each user message once."""
    view = build_prompt_view(records)
    assert faults(view) == []
    said = [r["message"] for r in records if r.get("message", {}).get("role") == "user"]
    assert [m for m in view if m["role"] == "user"] == said


TURN = st.lists(st.lists(st.tuples(IDS, ARGUMENTS), min_size=1, max_size=3), max_size=3)


@given(st.lists(TURN, max_size=4))
def test_an_ordered_log_grows_at_its_end(turns: list[list[Any]]) -> None:
    """Turns as the loop writes them: every prefix is valid and only ever continued."""
    records = []
    for batches in turns:
        records.append(user())
        for batch in batches:
            records.append(assistant(*[(call_id, "send", text) for call_id, text in batch]))
            records += [result(call_id) for call_id, _ in batch]
        records.append(assistant(text="完"))
    assert_view_grows(records)


def compaction(**fields: Any) -> JSON:
    """A compaction record."""
    return {"type": "compaction", "summary": "总结\u2028", **fields}


LONG = [user("一"), assistant(CALL), result("call_1", "1"), assistant(text="完"), user("二")]
TAIL = [record["message"] for record in LONG[1:]]


@pytest.mark.parametrize("first_kept", range(1, 7))
def test_a_compaction_keeps_whole_batches(first_kept: int) -> None:
    """Wherever the first kept line lies, the view is summary, pinned text and a valid rest."""
    records = [*LONG, compaction(first_kept=first_kept, pinned=["exec_1 是 unknown"])]
    view = build_prompt_view([*records, assistant(OTHER), result("call_2", "2")])
    assert faults(view) == []
    assert view[0]["role"] == "user"
    assert view[0]["content"].startswith(SUMMARY_HEADER)
    assert "总结\u2028" in view[0]["content"]
    assert "exec_1 是 unknown" in view[0]["content"]
    kept = LONG if first_kept == 1 else LONG[1:] if first_kept == 2 else LONG[3:]
    kept = [r["message"] for n, r in enumerate(LONG, 1) if r in kept and n >= first_kept]
    assert [m for m in view[1:-2] if m["role"] != "tool"] == [
        m for m in kept if m["role"] != "tool"
    ]
    assert contents(view)[-1] == "2"


def test_the_older_form_of_a_compaction_is_read() -> None:
    """With retained_tail the view is the summary, those messages, and what comes after."""
    records = [*LONG, compaction(retained_tail=TAIL), assistant(OTHER), result("call_2", "2")]
    view = build_prompt_view(records)
    assert faults(view) == []
    assert view[1 : len(TAIL) + 1] == TAIL
    assert contents(view)[-1] == "2"


def test_a_retained_tail_gets_the_same_form() -> None:
    """Null content, broken arguments and empty ids in a retained tail are mended in the view."""
    tail = [{**assistant(("", "send", "{"))["message"], "content": None}, result("")["message"]]
    view = build_prompt_view([*LONG, compaction(retained_tail=tail), user("三")])
    assert faults(view) == []
    assert [m["role"] for m in view] == ["user", "assistant", "tool", "user"]


def test_a_call_left_open_in_a_retained_tail_waits_for_its_result() -> None:
    """A tail that ends in an unanswered call is sent only once the result has come."""
    records = [user("一"), assistant(CALL)]
    records.append(compaction(retained_tail=[r["message"] for r in records]))
    assert faults(build_prompt_view(records)) == []
    view = build_prompt_view([*records, result("call_1", "书")])
    assert faults(view) == []
    assert contents(view)[-1] == "书"


@pytest.mark.parametrize(("end", "final"), [(2, None), (3, None), (4, "完"), (5, None)])
@pytest.mark.parametrize("form", ["first_kept", "retained_tail"])
def test_a_compaction_ends_no_turn(end: int, final: str | None, form: str) -> None:
    """Whether a turn is over depends on its last message, not on a compaction behind it."""
    values = {"first_kept": 2, "retained_tail": [record["message"] for record in LONG[1:end]]}
    assert viewed([*LONG[:end], compaction(**{form: values[form]})]).final == final


def test_the_latest_compaction_counts() -> None:
    """A second compaction replaces the first one's summary and cuts from the whole log."""
    records = [*LONG, compaction(first_kept=4), assistant(text="好"), user("三")]
    view = build_prompt_view([*records, {**compaction(first_kept=7), "summary": "新 📖"}])
    assert len(view) == 3
    assert "新 📖" in contents(view)[0]
    assert "总结" not in contents(view)[0]
    assert contents(view)[1:] == ["好", "三"]
