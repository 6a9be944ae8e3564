"""The logs of the scenes: a tool call, and the records that a first crash leaves of it.

Each function returns the records (or, for a damaged file, the bytes) of one session, the
same ones every time. What they mean is said in ``scenes``; what a second process adds to
them is in ``aftermath``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lai.calls import arguments_sha256
from lai.lines import repair_record
from lai.receipts import interrupted
from lai.records import (
    JSON,
    Record,
    Status,
    encode,
    execution_record,
    message_record,
    result_message,
)


@dataclass(frozen=True, slots=True)
class Order:
    """One tool call of a scene, the attempt at it, and the records that belong to both."""

    id: str
    name: str
    arguments: JSON
    attempt: str

    def request(self) -> JSON:
        """The call in the form of the API."""
        text = json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))
        function = {"name": self.name, "arguments": text}
        return {"id": self.id, "type": "function", "function": function}

    def ledger(self, status: Status, result: JSON | None = None, **details: Any) -> Record:
        """A record of the attempt."""
        sha256 = arguments_sha256(self.arguments)
        identity = sha256 if self.name == "write_file" else self.id
        named = {"status": str(status), "execution_id": self.attempt}
        if (self.name, status) == ("run_bash", Status.RUNNING):
            details = {"sandbox": "none", **details}
        record = execution_record(
            self.attempt,
            self.id,
            status,
            result=None if result is None else {**named, **result},
            tool_name=self.name,
            key=f"{self.name}:{identity}",
            sha256=sha256,
        )
        return record | details

    def receipt(self, status: Status, result: JSON) -> Record:
        """What the model is told of the call."""
        named = {"status": str(status), "execution_id": self.attempt}
        return message_record(result_message(self.id, {**named, **result}))

    def settled(self) -> Record:
        """What the next process records of an attempt that was running."""
        return self.ledger(Status.UNKNOWN, DIED, cause="crash")


RECOVERED = Order(
    "call_recovery_demo",
    "write_file",
    {"path": "recovery-demo.txt", "content": "recovered"},
    "exec_interrupted_demo",
)
SENT = Order(
    "call_audit_demo", "run_bash", {"command": "echo sent >> audit.log"}, "exec_audit_demo"
)
REPORT = Order(
    "call_report_demo",
    "write_file",
    {"path": "report.txt", "content": "all is well\n"},
    "exec_report_demo",
)
CLOSING = Order(
    "call_closing_demo", "run_bash", {"command": "echo closed >> audit.log"}, "exec_closing_demo"
)
LOOKED = Order("call_look_demo", "read_file", {"path": "recovery-demo.txt"}, "")
JOB = Order("call_job_demo", "submit", {"text": "print the report"}, "exec_job_demo")
WRITTEN: JSON = {"path": "recovery-demo.txt", "bytes_written": 9}
DIED: JSON = {"message": interrupted("", "crash")["message"]}


def spoken(role: str, text: str) -> Record:
    """The record of a message that calls nothing."""
    return message_record({"role": role, "content": text})


def asked(*calls: Order) -> Record:
    """The record of the model's message that gives these orders."""
    requests = [call.request() for call in calls]
    return message_record({"role": "assistant", "content": "", "tool_calls": requests})


def opening(call: Order, user: str, *statuses: Status) -> list[Record]:
    """What a user said, the order that came of it, and how far that came."""
    return [spoken("user", user), asked(call), *(call.ledger(status) for status in statuses)]


def encoded(records: list[Record]) -> list[bytes]:
    """The lines of a file."""
    return [encode(record) for record in records]


SET_CONTENT = "请把 recovery-demo.txt 的完整内容设置为 recovered"
APPEND_LINE = "append a line to the audit log"


def interrupted_write() -> list[Record]:
    """The four records of the article's second experiment (section 7.2)."""
    return opening(RECOVERED, SET_CONTENT, Status.APPROVED, Status.RUNNING)


def interrupted_command() -> list[Record]:
    """A command that was running; nobody saw how it ended."""
    return opening(SENT, APPEND_LINE, Status.APPROVED, Status.RUNNING)


def approved_never_started() -> list[Record]:
    """A yes that was never used."""
    return opening(SENT, APPEND_LINE, Status.APPROVED)


def terminal_without_receipt() -> list[Record]:
    """The outcome is in the ledger, the model was not told."""
    return [*interrupted_write(), RECOVERED.ledger(Status.SUCCEEDED, WRITTEN)]


def parallel_calls() -> list[Record]:
    """Three calls in one message: one concluded, one interrupted, one never begun."""
    done: JSON = {"path": "report.txt", "bytes_written": 12}
    return [
        spoken("user", "write the report, log it, and close the log"),
        asked(REPORT, SENT, CLOSING),
        REPORT.ledger(Status.APPROVED),
        REPORT.ledger(Status.RUNNING),
        REPORT.ledger(Status.SUCCEEDED, done),
        SENT.ledger(Status.APPROVED),
        SENT.ledger(Status.RUNNING),
    ]


def unanswered_read() -> list[Record]:
    """A read-only call without a result: it has no ledger, so nobody knows whether it ran."""
    return opening(LOOKED, "what does recovery-demo.txt say?")


def interrupted_job() -> list[Record]:
    """A job that was being handed in."""
    return opening(JOB, "hand in the print job", Status.APPROVED, Status.RUNNING)


def rejected_untold() -> list[Record]:
    """A no that the model has not heard of."""
    return opening(SENT, APPEND_LINE, Status.REJECTED)


def other_arguments() -> list[Record]:
    """The ledger tells of another command than the call."""
    edited = replace(SENT, arguments={"command": "echo closed >> audit.log"})
    ledger = interrupted_command()[2:]
    return [*opening(edited, APPEND_LINE), *ledger]


def lost_line() -> bytes:
    """A yes, then a line that nobody can read, which somebody has acknowledged."""
    *whole, last = encoded(interrupted_command())
    lost = last[:70]
    offset = sum(map(len, whole))
    return b"".join([*whole, lost + b"\n", encode(repair_record(4, offset, lost))])


def torn_tail() -> bytes:
    """The scene of the interrupted write, but death came in the middle of its last append."""
    *whole, last = encoded(interrupted_write())
    return b"".join(whole) + last[: len(last) // 2]


def damaged_middle() -> bytes:
    """A finished turn with one unreadable line, and a new call that waits."""
    lines = encoded(
        [
            *terminal_without_receipt(),
            RECOVERED.receipt(Status.SUCCEEDED, WRITTEN),
            spoken("assistant", "recovery-demo.txt now holds: recovered"),
            spoken("user", APPEND_LINE),
            asked(SENT),
        ]
    )
    lines[3] = lines[3][:70] + b"\n"
    return b"".join(lines)


def whole(records: Callable[[], list[Record]]) -> Callable[[], bytes]:
    """The maker of a whole file from the maker of its records."""
    return lambda: b"".join(encoded(records()))
