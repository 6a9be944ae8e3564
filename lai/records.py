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
    kind = record.get("type")
    if not isinstance(kind, str):
        return "a record needs a type"
    check = _CHECKS.get(kind)
    return check(record) if check else None


def _malformed_execution(record: Record) -> str | None:
    status, result = record.get("status"), record.get("result")
    if not isinstance(record.get("execution_id"), str):
        return "a tool_execution needs an execution_id and a tool_call_id"
    if not isinstance(record.get("tool_call_id"), str):
        return "a tool_execution needs an execution_id and a tool_call_id"
    if not isinstance(status, str) or status not in _STATUSES:
        return f"unknown execution status {status!r}"
    if result is not None and not isinstance(result, dict):
        return "a result must be an object"
    for name in _TEXTS:
        if name in record and not isinstance(record[name], str | None):
            return "ids and hashes are texts"
    issued = record.get("key_issued_at", 0)
    return None if isinstance(issued, int | float) else "key_issued_at is a number of seconds"


def _malformed_resolution(record: Record) -> str | None:
    outcome = record.get("outcome")
    if not isinstance(record.get("execution_id"), str) or outcome is None:
        return "a resolution needs an execution_id and an outcome"
    return None if outcome in tuple(Outcome) else f"unknown outcome {outcome!r}"


def _malformed_compaction(record: Record) -> str | None:
    tail, pinned = record.get("retained_tail", []), record.get("pinned", [])
    if not isinstance(record.get("summary"), str):
        return "a compaction needs a summary"
    if not isinstance(record.get("first_kept", 1), int):
        return "first_kept is a line number"
    if not isinstance(pinned, list) or not all(isinstance(p, str) or _sound(p) for p in pinned):
        return "pinned is a list of texts and messages"
    if not isinstance(tail, list) or not all(map(_sound, tail)):
        return "a retained_tail is a list of messages"
    return None


def _sound(message: Any) -> bool:
    return malformed(message_record(message)) is None


def _malformed_message(record: Record) -> str | None:
    message = record.get("message")
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return "a message record needs a message with a role"
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        return "a tool result needs a tool_call_id"
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        return "tool_calls must be a list"
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
            return "a tool call needs a function"
    return None


_STATUSES = frozenset(map(str, Status))
_TEXTS = (*EXECUTION_KEYS[5:], "approval_of", "base_sha256")
_CHECKS = {  # every other type is somebody's future
    "message": _malformed_message,
    "tool_execution": _malformed_execution,
    "resolution": _malformed_resolution,
    "compaction": _malformed_compaction,
}


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
