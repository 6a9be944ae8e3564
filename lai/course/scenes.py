"""Scenes: session files as a crash left them, each with the question "what happens next?".

    python -m lai.course.scenes      write data/scenes/ again, byte for byte

A notebook, a test and the command line start from the same scene by its name. A scene is
fabricated, so that it can be read before anything is killed; the notebooks then make the
same files by really killing a process.

Rules that live here:

1. ``content`` is pure and gives the same bytes every time; data/scenes/ holds them.
2. A scene is a log *and* a world: ``world`` is what the workspace held at that moment. The
   log cannot know it, which is why it is kept apart.
3. ``stage`` never touches a session that exists: every demonstration has its own place.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lai.calls import arguments_sha256
from lai.receipts import DO_NOT_REPEAT
from lai.records import (
    JSON,
    Record,
    Status,
    encode,
    execution_record,
    message_record,
    result_message,
)
from lai.session import session_path

FOLDER = Path(__file__).resolve().parents[2] / "data" / "scenes"


@dataclass(frozen=True, slots=True)
class Scene:
    """One crash scene. ``next`` says what ``decide`` answers to it, in words."""

    name: str
    title: str
    shows: str
    next: str
    make: Callable[[], bytes]
    world: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> Path:
        """Where the scene lies in the course."""
        return FOLDER / f"{self.name}.jsonl"


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
        return execution_record(
            self.attempt,
            self.id,
            status,
            result=None if result is None else {**named, **result},
            tool_name=self.name,
            key=f"{self.name}:{identity}",
            sha256=sha256,
            **details,
        )

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
DIED: JSON = {"message": "The process died while this was running."}


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


def _whole(records: Callable[[], list[Record]]) -> Callable[[], bytes]:
    return lambda: b"".join(_lines(records()))


_ALL = (
    Scene(
        "interrupted-write",
        "A write that was running",
        "The process died between `running` and the outcome. The file may or may not be there.",
        "settle: the attempt becomes unknown; then write again, as a new attempt",
        _whole(interrupted_write),
    ),
    Scene(
        "interrupted-command",
        "A command that was running",
        "The same place, another tool: a second run could append a second line.",
        "settle: the attempt becomes unknown; then ask a person, never run it again unasked",
        _whole(interrupted_command),
    ),
    Scene(
        "approved-never-started",
        "A yes that was never used",
        "The approval is on disk, `running` is not: nothing has happened yet.",
        "ask: an approval of an earlier process is not used by this one",
        _whole(approved_never_started),
    ),
    Scene(
        "terminal-without-receipt",
        "An outcome without its receipt",
        "The ledger holds the result; the process died before the model was told.",
        "publish: the recorded result, without running anything",
        _whole(terminal_without_receipt),
        (("recovery-demo.txt", "recovered"),),
    ),
    Scene(
        "parallel-calls",
        "Three calls, three fates",
        "One message asked for three things: one is done, one was running, one never began.",
        "publish: the first call's result; then settle the second, then ask about the third",
        _whole(parallel_calls),
        (("report.txt", "all is well\n"),),
    ),
    Scene(
        "torn-tail",
        "Half a record at the end",
        "Death came while `running` was being written, so the effect cannot have begun.",
        "ask: the torn bytes are sealed where they stand, and the approval was never used",
        torn_tail,
    ),
    Scene(
        "damaged-middle",
        "A line nobody can read",
        "Line 4 is damaged, all others load. It may have been any record.",
        "ask: but no tool runs until a person has acknowledged the damage",
        damaged_middle,
        (("recovery-demo.txt", "recovered"),),
    ),
    Scene(
        "unknown-published",
        "An honest ending",
        "The turn is over and says plainly what nobody knows. A verdict may still come.",
        "done: the turn has its final answer; the unknown stays on record",
        _whole(unknown_published),
        (("audit.log", "sent\n"),),
    ),
)
SCENES: MappingProxyType[str, Scene] = MappingProxyType({scene.name: scene for scene in _ALL})


def content(name: str) -> bytes:
    """The bytes of a scene's session file."""
    return _scene(name).make()


def stage(name: str, workspace: Path) -> Path:
    """Copy a scene into a workspace, its world too; returns the path of the session.

    Raises FileExistsError, with nothing changed, where such a session exists already.
    """
    scene = _scene(name)
    path = session_path(workspace, scene.name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("xb") as file:
        file.write(scene.file.read_bytes())
    path.chmod(0o600)
    for place, text in scene.world:
        (workspace / place).write_text(text, encoding="utf-8", newline="")
    return path


def _scene(name: str) -> Scene:
    if name not in SCENES:
        raise KeyError(f"there is no scene {name!r}; there are: {', '.join(SCENES)}")
    return SCENES[name]


def main() -> None:
    """Write every scene into data/scenes/ and say so."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scene in SCENES.values():
        scene.file.write_bytes(scene.make())
        print(f"{scene.file.name}: {scene.shows}")


if __name__ == "__main__":
    main()
