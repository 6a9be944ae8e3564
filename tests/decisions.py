"""Logs that are written by hand, for ``decide``, and what it says about them in one line."""

from typing import Any

from toolkit import JSON, Text, assistant, attempt, user

from lai import Answer, Effect, Finding, History, Run, Tool
from lai.actions import Action, Ask, AskVerdict, Attempt, LookUp, Publish, Settle

ARGUMENTS = {"text": "书\u2028\x85😀"}
CALL = ("call_1", "act", ARGUMENTS)
OLD, NOW, LOST = "older", "this process", "older, and a line after it was lost"


def never(arguments: JSON, run: Run) -> JSON:
    """Deciding runs nothing."""
    raise AssertionError(arguments, run)


def never_asked(arguments: JSON, key: str) -> Answer:
    """Deciding asks no authority."""
    raise AssertionError(arguments, key, Finding.ABSENT)


def tool(effect: Effect, name: str = "act") -> Tool:
    """A tool with this promise that must not be used."""
    return Tool(
        name=name,
        description="",
        arguments=Text,
        run=never,
        effect=effect,
        lookup=never_asked,
        key_scope="account",
        key_retention=1,
    )


def history(*records: JSON, since: int | None = None) -> History:
    """A history; records from index ``since`` on are this process's own."""
    before = len(records) if since is None else since
    made = History.of(records[:before])
    for line, record in enumerate(records[before:], start=before + 1):
        made.feed(record, line)
    return made


def story(*records: JSON, when: str = OLD, call: Any = CALL) -> History:
    """The call, then these records, all of them from one process."""
    head = [user(), assistant(call)]
    made = history(*head, *records, since=2 if when == NOW else None)
    if when == LOST:
        made.ledger.lose(len(head) + len(records) + 1)
    return made


def told(action: Action) -> str:
    """An action with its fields, in one line."""
    said = type(action).__name__
    match action:
        case Ask(_, earlier, caution):
            said = f"ask {earlier.id if earlier else ''}: {caution}".rstrip(": ")
        case Attempt(_, approved, retry_of):
            start = f" start {approved.id}" if approved else ""
            said = f"attempt{start}{f' after {retry_of.id}' if retry_of else ''}"
        case Settle(_, execution) | LookUp(_, execution) | AskVerdict(_, execution):
            said = f"{said} {execution.id}"
        case Publish(_, result):
            said = f"publish {result['status']} {result.get('execution_id', '')}".strip()
    return said


def tries(*ends: str, **details: Any) -> list[JSON]:
    """Attempts exec_1, exec_2 … that all reached these last states; the details with the last."""
    records: list[JSON] = []
    for number, end in enumerate(ends, start=1):
        path = {
            "approved": ("approved",),
            "rejected": ("rejected",),
            "running": ("approved", "running"),
        }.get(end, ("approved", "running", end))
        more = {"approval_of": f"exec_{number - 1}"} if number > 1 else {}
        records += attempt(CALL, *path, execution_id=f"exec_{number}", **more)
    records[-1] |= details
    return records
