"""What one line of a session says: the bytes of a record, and which records are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sums import added

from lai import RecordError, Session, Status
from lai.records import (
    encode,
    execution_record,
    malformed,
    message_record,
    resolution_record,
    result_message,
)

SEPARATORS = '书\u2028\u2029\u0085\x0b\x0c\x1c\x1e\x00\x18\r\n\t"\\{}[]é🚀'
TEXTS = st.text(st.sampled_from(SEPARATORS) | st.characters(exclude_categories=["Cs"]))
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)

Loop: dict[str, Any] = {"type": "note"}
Loop["self"] = Loop
UNWRITABLE = [
    pytest.param({"type": "note", "v": float("nan")}, id="NaN"),
    pytest.param({"type": "note", "v": [float("inf")]}, id="Infinity"),
    pytest.param({"type": "note", "v": -float("inf")}, id="-Infinity"),
    pytest.param({"type": "note", "v": "书\ud800"}, id="lone surrogate in a text"),
    pytest.param({"type": "note", "v": {"\udfff": 1}}, id="lone surrogate in a key"),
    pytest.param({"type": "note", "v": b"bytes"}, id="bytes"),
    pytest.param({"type": "note", "v": {1, 2}}, id="a set"),
    pytest.param({"type": "note", "v": 10**5000}, id="a number no reader takes"),
    pytest.param(Loop, id="contains itself"),
    pytest.param({}, id="no type"),
    pytest.param({"type": 7}, id="type is no text"),
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
EXECUTION = {"type": "tool_execution", "execution_id": "e", "tool_call_id": "c"}
MALFORMED = [
    {"type": "message"},
    {"type": "message", "message": "书"},
    {"type": "message", "message": {"content": "no role"}},
    {"type": "message", "message": {"role": "tool", "content": "no id"}},
    {"type": "message", "message": {"role": "tool", "tool_call_id": 5, "content": ""}},
    {"type": "message", "message": {"role": "assistant", "tool_calls": {"id": "call_1"}}},
    {"type": "message", "message": {"role": "assistant", "tool_calls": ["call_1"]}},
    {"type": "message", "message": {"role": "assistant", "tool_calls": [{"id": "call_1"}]}},
    {"type": "tool_execution", "tool_call_id": "c", "status": "running"},
    {"type": "tool_execution", "execution_id": "e", "status": "running"},
    {"type": "tool_execution", "execution_id": 5, "tool_call_id": "c", "status": "running"},
    EXECUTION,
    {**EXECUTION, "status": "started"},
    {**EXECUTION, "status": ["running"]},
    {**EXECUTION, "status": "succeeded", "result": "书"},
    {**EXECUTION, "status": "running", "tool_name": 5},
    {**EXECUTION, "status": "running", "idempotency_key": ["k"]},
    {**EXECUTION, "status": "running", "arguments_sha256": 5},
    {"type": "resolution", "outcome": "happened"},
    {"type": "resolution", "execution_id": "e"},
    {"type": "resolution", "execution_id": "e", "outcome": "maybe"},
    {"type": "compaction", "summary": "s", "first_kept": "3"},
    {"type": "compaction", "summary": "s", "first_kept": 3, "pinned": 5},
    {"type": "compaction", "summary": "s", "retained_tail": "书"},
    {"type": "compaction", "summary": "s", "retained_tail": ["书"]},
]
WELL_FORMED = [
    {"type": "message", "message": {"role": "user", "content": "书"}},
    {"type": "message", "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}},
    {"type": "message", "message": {"role": "assistant", "content": "x", "tool_calls": None}},
    {"type": "message", "message": {"role": "tool", "tool_call_id": "", "content": "{}"}},
    {**EXECUTION, "status": "running", "result": None, "later_field": [1]},
    {"type": "resolution", "execution_id": "e", "outcome": "not_happened"},
    {"type": "compaction", "summary": "s", "first_kept": 3, "pinned": ["书"]},
    {"type": "compaction", "summary": "s", "retained_tail": [{"role": "user", "content": "书"}]},
    {"type": "checkpoint", "message": 5, "status": "from a newer version"},
]


def test_a_record_is_one_compact_line_with_its_text_as_it_is() -> None:
    """Bytes on disk: compact, keys in their order, UTF-8, only what JSON demands is escaped."""
    record = {"type": "note", "z": "书\u2028\u0085🚀", "a": {"n": [1, 2.5, None, True]}}
    assert encode(record) == (
        '{"type":"note","z":"书\u2028\u0085🚀","a":{"n":[1,2.5,null,true]}}\n'.encode()
    )


@given(st.dictionaries(TEXTS, JSON_VALUES, max_size=4))
def test_every_record_survives_its_own_line(fields: dict[str, Any]) -> None:
    """Any JSON record becomes exactly one line (0x0A only at its end) and reads back unchanged."""
    record = {**fields, "type": "note"}
    line = encode(record)
    assert line.index(b"\n") == len(line) - 1
    assert json.loads(line) == record
    assert list(json.loads(line)) == list(record)


@pytest.mark.parametrize("record", UNWRITABLE)
def test_what_has_no_json_form_fails_before_anything_is_written(
    record: dict[str, Any], tmp_path: Path
) -> None:
    """A record without a JSON form raises, writes no byte, and the session goes on."""
    path = tmp_path / "session-书.jsonl"
    with Session.open(path) as session:
        session.append({"type": "note", "v": "书"})
        before = path.read_bytes()
        with pytest.raises(RecordError):
            session.append(record)
        assert path.read_bytes() == before
        assert session.records == [{"type": "note", "v": "书"}]
        session.append({"type": "note", "v": 2})
    assert path.read_bytes() == added(before, {"type": "note", "v": 2})


@pytest.mark.parametrize("record", MALFORMED, ids=lambda r: json.dumps(r, ensure_ascii=True))
def test_a_known_type_with_a_wrong_shape_is_refused(record: dict[str, Any]) -> None:
    """What the readers of a known type could not use is neither written nor taken for a record."""
    assert malformed(record)
    with pytest.raises(RecordError):
        encode(record)


@pytest.mark.parametrize("record", WELL_FORMED, ids=lambda r: json.dumps(r, ensure_ascii=True))
def test_other_shapes_are_nobodys_business(record: dict[str, Any]) -> None:
    """Unknown types, unknown fields and empty values of known types pass unchanged."""
    assert malformed(record) is None
    assert json.loads(encode(record)) == record


def test_a_ledger_line_has_the_key_order_of_the_format() -> None:
    """Known keys come in the format's order, and absent ones are left out."""
    names = {"tool_name": "f", "key": "f:k", "sha256": "00"}
    full = execution_record("e", "c", Status.FAILED, result={"a": 1}, **names)
    assert json.dumps(full) == (
        '{"type": "tool_execution", "execution_id": "e", "tool_call_id": "c", "status": "failed", '
        '"result": {"a": 1}, "tool_name": "f", "idempotency_key": "f:k", "arguments_sha256": "00"}'
    )
    bare = execution_record("e", "c", Status.RUNNING, tool_name=None, key=None, sha256=None)
    assert list(bare) == ["type", "execution_id", "tool_call_id", "status"]


def test_the_other_records_have_the_keys_of_the_format() -> None:
    """A message keeps unknown fields, a resolution and a tool result have exactly their keys."""
    message = {"role": "assistant", "content": "书", "reasoning_content": "\u2028"}
    assert message_record(message) == {"type": "message", "message": message}
    verdict = resolution_record("e", "happened", "看过了", "李")  # type: ignore[arg-type]
    assert list(verdict) == ["type", "execution_id", "outcome", "evidence", "by"]
    result = result_message("call_1", {"status": "completed", "content": "书"})
    assert result["content"] == '{"status": "completed", "content": "书"}'
    assert (result["role"], result["tool_call_id"]) == ("tool", "call_1")
