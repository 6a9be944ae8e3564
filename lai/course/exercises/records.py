"""Records for the cases: short ones, with every field that a reader of the log needs.

A ledger record of a real session carries a tool name, a key and a hash as well. Here they
are left out, as in a table: the cases are to be read by people.
"""

import json
from typing import Any

from lai.records import JSON, Record, message_record

TEXT = "第一行\u2028第二行\u0085🧾"  # two line separators that end no line of a file
WAYS = {
    "approved": ("approved",),
    "rejected": ("rejected",),
    "running": ("approved", "running"),
}


def user_asks(text: str = "请记账 📒") -> Record:
    """What a user said."""
    return message_record({"role": "user", "content": text})


def model_says(text: str = "好了") -> Record:
    """An answer without tool calls."""
    return message_record({"role": "assistant", "content": text})


def model_calls(*ids: str, name: str = "send") -> Record:
    """An assistant message that makes a call for each id; their arguments differ."""
    texts = [json.dumps({"text": f"书 {n}"}, ensure_ascii=False) for n in range(1, len(ids) + 1)]
    calls = [
        {"id": i, "type": "function", "function": {"name": name, "arguments": text}}
        for i, text in zip(ids, texts, strict=True)
    ]
    return message_record({"role": "assistant", "content": "", "tool_calls": calls})


def tool_answers(call_id: str, content: str = "{}") -> Record:
    """The result of a call."""
    return message_record({"role": "tool", "tool_call_id": call_id, "content": content})


def ledger_line(execution_id: str, call_id: str, status: str, **details: Any) -> Record:
    """One record of an attempt."""
    head = {"type": "tool_execution", "execution_id": execution_id, "tool_call_id": call_id}
    return {**head, "status": status, **details}


def attempt(
    number: int, end: str, call_id: str = "call_1", *, retry: bool = False, **details: Any
) -> list[Record]:
    """All records of attempt ``exec_<number>`` up to that status; the details go with the last.

    A ``retry`` stands on the approval of the attempt before it.
    """
    way = WAYS.get(end, ("approved", "running", end))
    origin: JSON = {"approval_of": f"exec_{number - 1}"} if retry else {}
    made = [ledger_line(f"exec_{number}", call_id, status, **origin) for status in way]
    made[-1] |= details
    return made


def verdict(outcome: str, number: int = 1) -> Record:
    """A person's word on an attempt."""
    head = {"type": "resolution", "execution_id": f"exec_{number}", "outcome": outcome}
    return {**head, "evidence": "看过 audit.log", "by": "person"}
