"""The logs of the scenes: a tool call, and the records that a crash leaves of it.

Each function returns the records (or, for a damaged file, the bytes) of one session, the
same ones every time. What they mean is said in ``scenes``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

from lai.calls import arguments_sha256
from lai.receipts import DO_NOT_REPEAT, interrupted
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
class _Call:
    """One tool call of a scene, and the records that belong to it."""

    id: str
    name: str
    arguments: JSON
    attempt: str

    def request(self) -> JSON:
        text = json.dumps(self.arguments, ensure_ascii=False, separators=(",", ":"))
        function = {"name": self.name, "arguments": text}
        return {"id": self.id, "type": "function", "function": function}

    def ledger(self, status: Status, result: JSON | None = None, **details: str) -> Record:
        sha256 = arguments_sha256(self.arguments)
        identity = sha256 if self.name == "write_file" else self.id
        named = {"status": str(status), "execution_id": self.attempt}
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
        named = {"status": str(status), "execution_id": self.attempt}
        return message_record(result_message(self.id, {**named, **result}))


RECOVERED = _Call(
    "call_recovery_demo",
    "write_file",
    {"path": "recovery-demo.txt", "content": "recovered"},
    "exec_interrupted_demo",
)
SENT = _Call(
    "call_audit_demo", "run_bash", {"command": "echo sent >> audit.log"}, "exec_audit_demo"
)
REPORT = _Call(
    "call_report_demo",
    "write_file",
    {"path": "report.txt", "content": "all is well\n"},
    "exec_report_demo",
)
CLOSING = _Call(
    "call_closing_demo", "run_bash", {"command": "echo closed >> audit.log"}, "exec_closing_demo"
)
WRITTEN: JSON = {"path": "recovery-demo.txt", "bytes_written": 9}
DIED: JSON = {"message": interrupted("", "crash")["message"]}


def _said(role: str, text: str) -> Record:
    return message_record({"role": role, "content": text})


def _asked(*calls: _Call) -> Record:
    requests = [call.request() for call in calls]
    return message_record({"role": "assistant", "content": "", "tool_calls": requests})


def _opening(call: _Call, user: str, *statuses: Status) -> list[Record]:
    return [_said("user", user), _asked(call), *(call.ledger(status) for status in statuses)]


SET_CONTENT = "请把 recovery-demo.txt 的完整内容设置为 recovered"
APPEND_LINE = "append a line to the audit log"


def interrupted_write() -> list[Record]:
    """The four records of the article's second experiment (section 7.2)."""
    return _opening(RECOVERED, SET_CONTENT, Status.APPROVED, Status.RUNNING)


def interrupted_command() -> list[Record]:
    """A command that was running; nobody saw how it ended."""
    return _opening(SENT, APPEND_LINE, Status.APPROVED, Status.RUNNING)


def approved_never_started() -> list[Record]:
    """A yes that was never used."""
    return _opening(SENT, APPEND_LINE, Status.APPROVED)


def terminal_without_receipt() -> list[Record]:
    """The outcome is in the ledger, the model was not told."""
    return [*interrupted_write(), RECOVERED.ledger(Status.SUCCEEDED, WRITTEN)]


def parallel_calls() -> list[Record]:
    """Three calls in one message: one concluded, one interrupted, one never begun."""
    done: JSON = {"path": "report.txt", "bytes_written": 12}
    return [
        _said("user", "write the report, log it, and close the log"),
        _asked(REPORT, SENT, CLOSING),
        REPORT.ledger(Status.APPROVED),
        REPORT.ledger(Status.RUNNING),
        REPORT.ledger(Status.SUCCEEDED, done),
        SENT.ledger(Status.APPROVED),
        SENT.ledger(Status.RUNNING),
    ]


def unknown_published() -> list[Record]:
    """A turn that ended honestly: the outcome is unknown, and everybody was told."""
    return [
        *interrupted_command(),
        SENT.ledger(Status.UNKNOWN, DIED, cause="crash"),
        SENT.receipt(Status.UNKNOWN, {**DIED, "advice": DO_NOT_REPEAT}),
        _said("assistant", "Nobody can confirm that the line was added. Please check audit.log."),
    ]


def torn_tail() -> bytes:
    """The scene of the interrupted write, but death came in the middle of its last append."""
    *whole, last = _lines(interrupted_write())
    return b"".join(whole) + last[: len(last) // 2]


def damaged_middle() -> bytes:
    """A finished turn with one unreadable line, and a new call that waits."""
    lines = _lines(
        [
            *terminal_without_receipt(),
            RECOVERED.receipt(Status.SUCCEEDED, WRITTEN),
            _said("assistant", "recovery-demo.txt now holds: recovered"),
            _said("user", APPEND_LINE),
            _asked(SENT),
        ]
    )
    lines[3] = lines[3][:70] + b"\n"
    return b"".join(lines)


def _lines(records: list[Record]) -> list[bytes]:
    return [encode(record) for record in records]


def whole(records: Callable[[], list[Record]]) -> Callable[[], bytes]:
    """The maker of a whole file from the maker of its records."""
    return lambda: b"".join(_lines(records()))
