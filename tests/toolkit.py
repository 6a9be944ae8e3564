"""Small tools, logs and answers for tests. What a tool did is counted outside the library."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sums import without

from lai import (
    Agent,
    Answer,
    Arguments,
    Effect,
    Finding,
    Question,
    Run,
    Session,
    Tool,
    ToolError,
    arguments_sha256,
    scripted,
)

JSON = dict[str, Any]
AnswerTo = str | None | BaseException


class answers:  # noqa: N801  (read as a verb: ask=answers(["y"]))
    """A person who says these things in this order, and is asked no more than that."""

    def __init__(self, said: Sequence[AnswerTo]) -> None:
        self.said = list(said)
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> str | None:
        """Keep the question and give the next answer."""
        self.questions.append(question)
        assert self.said, f"nobody expected this question: {question}"
        answer = self.said.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


# --- tools --------------------------------------------------------------------------------


class Text(Arguments):
    """One text."""

    text: str


class NamedText(Arguments):
    """A text with a name."""

    name: str
    text: str


def lines(file: Path) -> list[str]:
    """The lines that effects left in a file."""
    return file.read_text("utf-8").split("\n")[:-1] if file.exists() else []


def note(file: Path, text: str) -> None:
    """Count an effect."""
    with file.open("a", encoding="utf-8", newline="") as out:
        out.write(json.dumps(text) + "\n")


def opaque(counter: Path, name: str = "send") -> Tool:
    """Adds a line for every run, and promises nothing."""

    def run(arguments: JSON, run: Run) -> JSON:
        del run
        note(counter, arguments["text"])
        return {"sent": arguments["text"]}

    return Tool(name=name, description="Send a text.", arguments=Text, run=run)


def idempotent(folder: Path) -> Tool:
    """Sets a file to a text. The writes are counted in ``writes`` beside it."""

    def version(arguments: JSON) -> str | None:
        file = folder / arguments["name"]
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None

    def wanted(arguments: JSON) -> str:
        return hashlib.sha256(arguments["text"].encode()).hexdigest()

    def run(arguments: JSON, run: Run) -> JSON:
        if version(arguments) not in (run.bases or {None, wanted(arguments)}):
            raise ToolError("the file changed; nothing was written")
        (folder / arguments["name"]).write_bytes(arguments["text"].encode())
        note(folder / "writes", arguments["text"])
        return {"set": arguments["name"]}

    def check(arguments: JSON) -> JSON:
        file = folder / arguments["name"]
        there = file.read_text("utf-8") if file.exists() else "(nothing)"
        return {**arguments, "there now": there}

    return Tool(
        name="store",
        description="Set a file to a text.",
        arguments=NamedText,
        run=run,
        effect=Effect.IDEMPOTENT,
        check=check,
        version=version,
        wanted=wanted,
    )


def keyed(database: Path, retention: float = 60.0) -> Tool:
    """Pays once for each key: the service, not the tool, refuses a second payment."""

    def run(arguments: JSON, run: Run) -> JSON:
        with closing(sqlite3.connect(database)) as db, db:
            db.execute("CREATE TABLE IF NOT EXISTS seen (key TEXT)")
            db.execute("CREATE TABLE IF NOT EXISTS paid (key TEXT UNIQUE, text TEXT)")
            db.execute("INSERT INTO seen VALUES (?)", (run.key,))
            db.execute("INSERT OR IGNORE INTO paid VALUES (?, ?)", (run.key, arguments["text"]))
        return {"paid": arguments["text"]}

    return Tool(
        name="pay",
        description="Pay.",
        arguments=Text,
        run=run,
        effect=Effect.KEYED,
        key_scope="account",
        key_retention=retention,
    )


def column(database: Path, table: str) -> list[str]:
    """The keys in a table of the payment service."""
    with closing(sqlite3.connect(database)) as db:
        return [key for (key,) in db.execute(f"SELECT key FROM {table} ORDER BY rowid")]  # noqa: S608


def queryable(service: Path, *, final: bool = True) -> Tool:
    """Adds a job to a JSON file that can be asked later; ``down`` in it gives no answer."""

    def load() -> JSON:
        return json.loads(service.read_text("utf-8")) if service.exists() else {"jobs": []}

    def run(arguments: JSON, run: Run) -> JSON:
        state = load()
        state["jobs"].append([run.key, arguments["text"]])
        service.write_text(json.dumps(state), encoding="utf-8")
        return {"job": len(state["jobs"])}

    def lookup(arguments: JSON, key: str) -> Answer:
        state = load()
        if state.get("down"):
            return Answer(Finding.INCONCLUSIVE, "no connection")
        for number, job in enumerate(state["jobs"], start=1):
            if job == [key, arguments["text"]]:
                return Answer(Finding.FOUND, f"job {number}", {"job": number})
        return Answer(Finding.ABSENT, "no such job")

    return Tool(
        name="submit",
        description="Submit a job.",
        arguments=Text,
        run=run,
        effect=Effect.QUERYABLE,
        lookup=lookup,
        absent_is_final=final,
    )


def read_only(reads: Path) -> Tool:
    """Answers with its own text; the reads are counted."""

    def run(arguments: JSON, run: Run) -> JSON:
        del run
        note(reads, arguments["text"])
        return {"seen": arguments["text"]}

    return Tool(name="look", description="Look.", arguments=Text, run=run, effect=Effect.READ_ONLY)


def ending(tool: Tool, error: Callable[[], BaseException], *, after: bool, times: int = 1) -> Tool:
    """``tool`` whose first runs end in ``error()``, before or after their effect."""
    left = [times]

    def run(arguments: JSON, run: Run) -> JSON:
        left[0] -= 1
        if left[0] < 0:
            return tool.run(arguments, run)
        if after:
            tool.run(arguments, run)
        raise error()

    return replace(tool, run=run)


# --- logs ---------------------------------------------------------------------------------


def user(text: str = "请做这件事 \u2028\x85😀") -> JSON:
    """A user message."""
    return {"type": "message", "message": {"role": "user", "content": text}}


def assistant(*calls: tuple[str, str, JSON | str], text: str = "", **record: Any) -> JSON:
    """An assistant message with ``(id, tool, arguments)`` calls."""
    made = []
    for call_id, name, arguments in calls:
        sent = arguments if isinstance(arguments, str) else json.dumps(arguments)
        made.append(
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": sent}}
        )
    message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    return {"type": "message", "message": message, **record}


def attempt(
    call: tuple[str, str, JSON], *statuses: str, execution_id: str = "exec_1", **details: Any
) -> list[JSON]:
    """The records of one attempt at a call; ``details`` go with every one of them."""
    call_id, name, arguments = call
    sha256 = arguments_sha256(arguments)
    head = {"type": "tool_execution", "execution_id": execution_id, "tool_call_id": call_id}
    tail = {
        "tool_name": name,
        "idempotency_key": f"{name}:{call_id}",
        "arguments_sha256": sha256,
        **details,
    }
    ended = ("succeeded", "failed", "unknown")
    said = {s: {"result": {"status": s, "execution_id": execution_id}} for s in ended}
    return [{**head, "status": s, **said.get(s, {}), **tail} for s in statuses]


def resolution(outcome: str, execution_id: str = "exec_1", evidence: str = "看过日志") -> JSON:
    """A person's verdict."""
    head = {"type": "resolution", "execution_id": execution_id, "outcome": outcome}
    return {**head, "evidence": evidence, "by": "person"}


def write_log(path: Path, *records: JSON) -> Path:
    """A session file with these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records))
    return path


def log(path: Path) -> list[JSON]:
    """The records of a session file, read without the library; other lines are left out."""
    found = []
    for line in path.read_bytes().split(b"\n"):
        with suppress(ValueError):
            found.append(json.loads(line))
    return [without(record) if isinstance(record, dict) else record for record in found]


def statuses(path: Path) -> list[tuple[str, str]]:
    """What the ledger lines of a file say, attempts numbered in their order."""
    order: dict[str, str] = {}
    found = [r for r in log(path) if r["type"] in ("tool_execution", "resolution")]
    for record in found:
        order.setdefault(record["execution_id"], f"#{len(order) + 1}")
    return [(order[r["execution_id"]], r.get("status") or r["outcome"]) for r in found]


def receipts(path: Path) -> list[tuple[str, JSON]]:
    """The tool results of a file: call id and content."""
    found = [r["message"] for r in log(path) if r.get("message", {}).get("role") == "tool"]
    return [(m["tool_call_id"], json.loads(m["content"])) for m in found]


def kinds(path: Path) -> list[str]:
    """One word for each record: the role of a message, the status of an attempt."""
    return [
        r["message"]["role"] if r["type"] == "message" else r.get("status", r["type"])
        for r in log(path)
    ]


@contextmanager
def agent(
    path: Path,
    replies: Sequence[Any],
    tools: Sequence[Tool],
    ask: Callable[[Question], str | None] | None = None,
    **more: Any,
) -> Iterator[Agent]:
    """An agent on the session file ``path`` with a scripted model."""
    with Session.open(path) as session:
        yield Agent(session, scripted(replies), tools, ask, **more)
