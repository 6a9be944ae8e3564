"""Tools for the crash runs, one for each promise, and the counters that judge them.

Rules that live here:

1. What a tool did is counted in the world: rows, lines, files. No counter reads a session.
2. A tool has a middle, at which a process can die with half an effect: bytes that are not
   in place, a row that is not committed, half a line, a command that nobody waits for.
3. The middle of a workspace tool is found by replacing one function of the process for as
   long as the tool runs. So these tools are for a process that does nothing else.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lai import traces
from lai.records import JSON
from lai.tools import Answer, Arguments, Effect, Finding, Run, Tool, find
from lai.workspace import workspace_tools

# A place where a process may die: its name, and what still happens if it dies here.
Point = Callable[[str, Callable[[], object]], None]
Make = Callable[[Path, Point], Tool]
PAYMENTS, JOBS, AUDIT = "payments.db", "jobs.jsonl", "audit.log"
_TABLE = "CREATE TABLE IF NOT EXISTS payments (key TEXT UNIQUE, text TEXT)"


class Text(Arguments):
    """What the small tools take."""

    text: str


def nothing() -> None:
    """What still happens at most points."""


def middle(tool: str) -> str:
    """The name of the point in the middle of an effect."""
    return f"during effect of {tool}"


# Keyed: a UNIQUE column refuses the second row.


def pay(root: Path, point: Point) -> Tool:
    """Puts a row into a table, once a key."""

    def run(arguments: JSON, attempt: Run) -> JSON:
        with closing(sqlite3.connect(root / PAYMENTS)) as database:
            database.execute(_TABLE)
            row = attempt.key, arguments["text"]
            new = database.execute("INSERT OR IGNORE INTO payments VALUES (?, ?)", row).rowcount
            point(middle("pay"), nothing)  # there, and not committed
            database.commit()
        return {"paid": arguments["text"], "new": bool(new)}

    return Tool(
        name="pay",
        description="Pay, once a key.",
        arguments=Text,
        run=run,
        effect=Effect.KEYED,
        key_scope=PAYMENTS,
        key_retention=3600.0,
    )


def rows(root: Path) -> int:
    """How many payments there are, whoever made them."""
    if not (root / PAYMENTS).exists():
        return 0
    with closing(sqlite3.connect(root / PAYMENTS)) as database:
        database.execute(_TABLE)
        return int(database.execute("SELECT count(*) FROM payments").fetchone()[0])


# Queryable: the list of jobs can be asked for a key.


def submit(root: Path, point: Point) -> Tool:
    """Adds a line to a list of jobs; the list tells whether a key is in it."""

    def run(arguments: JSON, attempt: Run) -> JSON:
        job = {"key": attempt.key, "text": arguments["text"]}
        line = json.dumps(job, ensure_ascii=False).encode() + b"\n"
        with (root / JOBS).open("ab", buffering=0) as file:
            left = _list(root)
            if left and not left.endswith(b"\n"):
                file.write(b"\n")  # what a dead process left unfinished stays on its own line
            point(middle("submit"), lambda: file.write(line[: len(line) // 2]))
            file.write(line)
        return {"job": jobs(root)}

    def lookup(_: JSON, key: str) -> Answer:
        for number, job in enumerate(_jobs(root), 1):
            if job["key"] == key:
                return Answer(Finding.FOUND, f"job {number}", {"job": number})
        return Answer(Finding.ABSENT, "no job in the list has this key")

    return Tool(
        name="submit",
        description="Submit a job.",
        arguments=Text,
        run=run,
        effect=Effect.QUERYABLE,
        lookup=lookup,
        absent_is_final=True,
    )


def jobs(root: Path) -> int:
    """How many jobs are in the list; half a line is none."""
    return len(_jobs(root))


def _jobs(root: Path) -> list[JSON]:
    return [json.loads(line) for line in _list(root).split(b"\n") if line.endswith(b"}")]


def _list(root: Path) -> bytes:
    return (root / JOBS).read_bytes() if (root / JOBS).exists() else b""


# The tools of the workspace, with a middle.


def read_file(root: Path, _point: Point) -> Tool:
    """The workspace's own; a read has no effect, so it has no middle either."""
    return _own(root, "read_file")


def write_file(root: Path, point: Point) -> Tool:
    """The workspace's own; in its middle the new bytes are written and not yet in place."""
    real = os.replace

    def put_in_place(*paths: Any, **folders: Any) -> None:
        point(middle("write_file"), nothing)
        real(*paths, **folders)

    return _with(_own(root, "write_file"), os, "replace", put_in_place)


def run_bash(root: Path, point: Point) -> Tool:
    """The workspace's own; in its middle the command runs to its end and nobody hears of it."""
    real = traces.leave

    def started(folder: Path, execution_id: str, pid: int) -> None:
        real(folder, execution_id, pid)
        point(middle("run_bash"), lambda: os.waitpid(pid, 0))

    return _with(_own(root, "run_bash"), traces, "leave", started)


def lines(root: Path) -> int:
    """How many lines the audit log has."""
    return (root / AUDIT).read_bytes().count(b"\n") if (root / AUDIT).exists() else 0


def _own(root: Path, name: str) -> Tool:
    tool = find(workspace_tools(root, sandbox="none"), name)
    assert tool is not None, "every workspace has these tools"
    return tool


def _with(tool: Tool, module: Any, name: str, new: Callable[..., Any]) -> Tool:
    def run(arguments: JSON, attempt: Run) -> JSON:
        with _instead(module, name, new):
            return tool.run(arguments, attempt)

    return replace(tool, run=run)


@contextmanager
def _instead(module: Any, name: str, new: Callable[..., Any]) -> Iterator[None]:
    old = getattr(module, name)
    setattr(module, name, new)
    try:
        yield
    finally:
        setattr(module, name, old)
