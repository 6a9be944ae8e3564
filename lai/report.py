"""A session in words: its rows for a table, its flaws for ``verify``, actions as sentences.

Nothing is printed here: the command line prints it, and the notebooks make tables of it, so
both say the same.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from unicodedata import east_asian_width

from lai.actions import (
    Action,
    Ask,
    AskVerdict,
    Attempt,
    CallModel,
    Compact,
    Done,
    LookUp,
    Publish,
    Settle,
)
from lai.approval import visible
from lai.calls import arguments_text
from lai.executions import Execution
from lai.history import History
from lai.ledger import conflict
from lai.records import Record
from lai.session import Session
from lai.wire import text_of

MEANING = {
    "approved": "a person agreed; not started",
    "rejected": "a person refused; nothing ran",
    "running": "started; the outcome is open",
    "succeeded": "the tool confirmed it",
    "failed": "the tool confirmed that it failed",
    "unknown": "nobody can say whether it happened",
}
# Details of a ledger record that a reader wants to see, in this order.
_TOLD = ("cause", "approval_of", "lookup", "target", "key", "evidence", "sandbox")
_RECEIPT = (
    *("path", "exit_code", "message", "may_still_run"),
    *("verdict", "evidence", "content", "output"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One record as a reader sees it; ``who`` is a role or a status."""

    line: int
    type: str
    who: str
    call: str
    execution: str
    text: str


@dataclass(frozen=True, slots=True)
class Flaw:
    """What ``verify`` reports: damage, an illegal, stray or open record, a conflict, an unknown.

    Or a ``compaction`` that says something wrong about the file.
    """

    line: int
    kind: str
    text: str


def rows(session: Session) -> list[Row]:
    """Every record of a session and every damaged place, in file order."""
    records = zip(session.records, session.lines, strict=True)
    found = [_row(record, line) for record, line in records]
    found += [Row(d.line, "damage", "", "", "", str(d)) for d in session.damage]
    return sorted(found, key=lambda row: row.line)


def _row(record: Record, line: int) -> Row:
    kind = record["type"]
    match record:
        case {"type": "message", "message": {"role": role} as message}:
            calls = message.get("tool_calls") or []
            ids = [str(c.get("id", "")) for c in calls] or [str(message.get("tool_call_id", ""))]
            return Row(line, kind, role, " ".join(ids), _attempt_in(message), _say(message))
        case {"type": "tool_execution", "status": status}:
            told = [f"{name}: {record[name]}" for name in _TOLD if name in record]
            text = "; ".join([MEANING[status], *told])
            return Row(line, kind, status, record["tool_call_id"], record["execution_id"], text)
        case {"type": "resolution"}:
            text = f"{record['outcome']}: {record.get('evidence', '')}"
            return Row(line, kind, str(record.get("by", "")), "", record["execution_id"], text)
        case {"type": "repair"}:
            text = f"line {record.get('line')} is known to be no record"
            return Row(line, kind, "", "", "", text)
        case {"type": "compaction"}:
            text = f"keeps from line {record.get('first_kept')}; {record.get('summary', '')}"
            return Row(line, kind, "", "", "", text)
    return Row(line, kind, "", "", "", "unknown type, kept and ignored")


def _say(message: Record) -> str:
    if message["role"] == "tool":
        return _receipt(message)
    calls = message.get("tool_calls") or []
    asked = [
        f"asks for {c['function'].get('name')} {arguments_text(c['function'].get('arguments'))}"
        for c in calls
    ]
    return "; ".join(filter(None, [text_of(message), *asked]))


def _receipt(message: Record) -> str:
    """A tool result in short; its JSON is the least readable line of a session."""
    result = _result(message)
    told = [f"{name}: {result[name]}" for name in _RECEIPT if result.get(name) not in (None, "")]
    if "status" not in result:
        return text_of(message)
    return "; ".join([f"receipt: {result['status']}", *told])


def _result(message: Record) -> Record:
    try:
        found = json.loads(text_of(message))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _attempt_in(message: Record) -> str:
    return str(_result(message).get("execution_id", "")) if message["role"] == "tool" else ""


def shorten(ids: Iterable[str], least: int = 8) -> dict[str, str]:
    """Each id cut to its prefix and as few characters as keep all of them apart."""
    known = sorted({i for i in ids if i})
    for length in range(least, 33):  # longer ids are a model's joke, and cost a second each
        short = {i: i[: i.find("_") + 1 + length] for i in known}
        if len(set(short.values())) == len(known):
            return {i: s if s == i else f"{s}…" for i, s in short.items()}
    return {i: i for i in known}


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character takes two."""
    return sum(1 + (east_asian_width(character) in "WF") for character in text)


def fit(text: str, width: int) -> str:
    """``text`` cut to ``width`` columns, with a sign that it was."""
    short = text[: width + 1]  # every character takes a column at least
    if columns(short) <= width:
        return short
    while columns(short) > width - 1:
        short = short[:-1]
    return f"{short}…"


def table(found: list[Row], width: int = 150) -> list[str]:
    """The rows as aligned lines for a terminal, cut to ``width`` columns."""
    calls = shorten(i for row in found for i in row.call.split())
    attempts = shorten(row.execution for row in found)
    cells = [["line", "type", "who", "call", "execution", ""]]
    for row in found:
        ids = " ".join(calls.get(i, i) for i in row.call.split())
        execution = attempts.get(row.execution, "")
        cells.append([str(row.line), row.type, row.who, ids, execution, row.text])
    cells = [[visible(cell) for cell in line] for line in cells]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)][:-1]
    lines = []
    for *head, text in cells:
        padded = [c + " " * (w - columns(c)) for c, w in zip(head, widths, strict=True)]
        lines.append(fit("  ".join([*padded, text]).rstrip(), width))
    return lines


def flaws(session: Session) -> list[Flaw]:
    """What is wrong or open in a session, in file order. Empty for a session that is whole."""
    history = History.of(session.records, session.lines, session.lost_lines)
    ledger = history.ledger
    found = [
        Flaw(d.line, "damage", f"{d.reason}, {d.size} bytes at byte {d.offset}")
        for d in session.damage
        if not d.acknowledged
    ]
    found += [
        Flaw(line, "illegal", problem)
        for line, problem in history.violations
        if not session.acknowledged(line)
    ]
    found += [Flaw(line, "stray", problem) for line, problem in ledger.oddities]
    found += [Flaw(c.line, "open", f"{c.name} ({c.id}) has no result") for c in ledger.open]
    for execution in ledger.executions.values():
        problem = execution.call and conflict(execution.call, execution)
        if problem:
            found.append(Flaw(execution.line, "conflict", f"{execution.id}: {problem}"))
    found += [
        Flaw(e.line, "unknown", f"{e.tool_name} {e.id}: nobody knows whether it happened")
        for e in ledger.unresolved()
    ]
    found += _misplaced(session)
    shown = [replace(flaw, text=visible(flaw.text)) for flaw in found]
    return sorted(shown, key=lambda flaw: flaw.line)


def _misplaced(session: Session) -> Iterator[Flaw]:
    """The compactions that say wrongly where a line begins: opening would count from there."""
    begins = dict(zip(session.lines, session.offsets, strict=True))
    for record, line in zip(session.records, session.lines, strict=True):
        if record["type"] != "compaction":
            continue
        for name, at in (("first_kept", "first_kept_offset"), ("resume_line", "resume_offset")):
            kept, claimed = record.get(name), record.get(at)
            found = begins.get(kept) if isinstance(kept, int) else None
            if claimed is not None and (type(claimed) is not int or claimed != found):
                truth = "holds no record" if found is None else f"begins at byte {found}"
                yield Flaw(line, "compaction", f"line {kept} {truth}, not at byte {claimed}")


def describe(action: Action) -> str:
    """An action as half a sentence; long ids are cut."""
    match action:
        case CallModel():
            return "the model is asked"
        case Compact(first_kept, _, _, tokens):
            return f"a summary of all before line {first_kept}; the request has {tokens:,} tokens"
        case Done():
            return "the turn is over"
        case _:
            call = f"{visible(action.call.name)} ({_cut(action.call.id)})"
            return f"{call}{_describe_step(action)}"


def _describe_step(action: Ask | Attempt | Settle | LookUp | AskVerdict | Publish) -> str:
    match action:
        case Ask():
            return " needs your approval"
        case Attempt(retry_of=Execution(id=earlier)):
            return f" runs again; {_cut(earlier)} stays on record"
        case Attempt():
            return " runs"
        case Settle(_, execution):
            return f": {_cut(execution.id)} was interrupted, so it is unknown"
        case LookUp(_, execution):
            return f": asking what became of {_cut(execution.id)}"
        case AskVerdict(_, execution):
            return f": {_cut(execution.id)} needs your verdict"
        case Publish(_, result):
            return f": result {visible(str(result.get('status')))} goes to the model"


def _cut(name: str) -> str:
    return visible(name if len(name) <= 24 else f"{name[: name.find('_') + 9]}…")
