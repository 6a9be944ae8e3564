"""The nouns: what one line of a session file says, and its JSON.

A session is one append-only file, and a record is one line of it: a JSON object
tagged ``type``. This module turns records into bytes and names what they hold.

Rules that live here and nowhere else:

1. A record is encoded whole before a byte is written. What cannot be encoded (NaN, a
   lone surrogate) fails here, while nothing has happened yet.
2. Messages keep the chat API's own form and are never re-modelled: a provider's extra
   fields survive because nobody here names them.
3. A record of a known type with a wrong shape is damage, not an opinion. A record of
   an unknown type is somebody's future, and is kept.

It does not know files, the order of records, or which transitions are legal.
"""

import json
from enum import StrEnum
from typing import Any

JSON = dict[str, Any]
Record = dict[str, Any]
Message = dict[str, Any]


class LaiError(Exception):
    """The base of every error this library raises for something a caller can act on."""


class RecordError(LaiError):
    """A record that cannot be written: it has no JSON form, or not the shape of its type."""


class Status(StrEnum):
    """What is known about one attempt; the transitions are in ``ledger.LEGAL``."""

    APPROVED = "approved"
    REJECTED = "rejected"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """A person's verdict on an attempt that is ``unknown``."""

    HAPPENED = "happened"
    NOT_HAPPENED = "not_happened"


# In the order of the file format: these come first, anything else ("details") last.
EXECUTION_KEYS = (
    *("type", "execution_id", "tool_call_id", "status", "result"),
    *("tool_name", "idempotency_key", "arguments_sha256"),
)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_SPACED = json.JSONEncoder(ensure_ascii=False)


def encode(record: Record) -> bytes:
    """One line, newline included. Raises :class:`RecordError` before anything is written."""
    problem = malformed(record)
    if problem:
        raise RecordError(f"this record cannot be written: {problem}")
    try:
        return _ENCODER.encode(record).encode("utf-8") + b"\n"
    except (TypeError, ValueError, RecursionError) as cause:
        raise RecordError(f"this record has no JSON form in UTF-8: {cause}") from cause


def malformed(record: Record) -> str | None:
    """What is wrong with the shape of a record, or None."""
    match record:
        case {"type": "message", "message": {"role": str()} as message}:
            return _malformed_message(message)
        case {"type": "message"}:
            return "a message record needs a message with a role"
        case {"type": "tool_execution", "execution_id": str(), "tool_call_id": str()}:
            return _malformed_execution(record)
        case {"type": "tool_execution"}:
            return "a tool_execution needs an execution_id and a tool_call_id"
        case {"type": "resolution", "execution_id": str(), "outcome": outcome}:
            return None if outcome in tuple(Outcome) else f"unknown outcome {outcome!r}"
        case {"type": "resolution"}:
            return "a resolution needs an execution_id and an outcome"
        case {"type": "compaction"}:
            return _malformed_compaction(record)
        case {"type": str()}:
            return None
    return "a record needs a type"


def _malformed_execution(record: Record) -> str | None:
    if record.get("status") not in tuple(Status):
        return f"unknown execution status {record.get('status')!r}"
    if not isinstance(record.get("result"), dict | None):
        return "a result must be an object"
    texts = [record.get(name) for name in (*EXECUTION_KEYS[5:], "approval_of", "base_sha256")]
    if not all(isinstance(text, str | None) for text in texts):
        return "ids and hashes are texts"
    issued = record.get("key_issued_at", 0)
    return None if isinstance(issued, int | float) else "key_issued_at is a number of seconds"


def _malformed_compaction(record: Record) -> str | None:
    tail, pinned = record.get("retained_tail", []), record.get("pinned", [])
    if not isinstance(record.get("summary"), str):
        return "a compaction needs a summary"
    if not isinstance(record.get("first_kept", 1), int) or not isinstance(pinned, list):
        return "first_kept is a line number, pinned a list"
    if not isinstance(tail, list) or any(malformed(message_record(m)) for m in tail):
        return "a retained_tail is a list of messages"
    return None


def _malformed_message(message: Message) -> str | None:
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "a tool result needs a tool_call_id"
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        return "tool_calls must be a list"
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            return "a tool call needs a function"
    return None


def message_record(message: Message, **details: Any) -> Record:
    """The record of a message the model may see."""
    return {"type": "message", "message": message, **details}


def execution_record(
    execution_id: str,
    call_id: str,
    status: Status,
    *,
    result: JSON | None = None,
    tool_name: str | None,
    key: str | None,
    sha256: str | None,
) -> Record:
    """A ledger line, its keys in the order of the file format; details go behind them."""
    values = execution_id, call_id, str(status), result, tool_name, key, sha256
    known = dict(zip(EXECUTION_KEYS, ("tool_execution", *values), strict=True))
    return {name: value for name, value in known.items() if value is not None}


def resolution_record(execution_id: str, outcome: Outcome, evidence: str, by: str) -> Record:
    """A person's verdict. It is itself the transition; no second record follows."""
    return {
        "type": "resolution",
        "execution_id": execution_id,
        "outcome": str(outcome),
        "evidence": evidence,
        "by": by,
    }


def result_message(call_id: str, result: JSON) -> Message:
    """The receipt for a tool call, as the model will read it."""
    return {"role": "tool", "tool_call_id": call_id, "content": _SPACED.encode(result)}
