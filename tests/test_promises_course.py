"""The tools and post offices of the notebook on promises: who gets a key, and who refuses."""

import json
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from lai import Agent, Effect, Run, Session, Tool, scripted, session_path
from lai.course import promises
from lai.course.promises import (
    answer_lost,
    by_bash,
    by_service,
    by_table,
    careful,
    deaf,
    letters,
    post_office,
)

TEXT = " 书\u2028🙂\x85 $(touch hole) \"'`"
RUN = Run(execution_id="exec_1", key="书面:send:call_1".encode().hex())
OTHER = Run(execution_id="exec_2", key="another")


def lines(root: Path) -> int:
    """What bash sent, counted in the bytes of its file."""
    return (root / "audit.log").read_bytes().count(b"\n")


def payments(root: Path) -> int:
    """What the table sent, counted by SQLite."""
    with closing(sqlite3.connect(root / "payments.db")) as database:
        return int(database.execute("SELECT count(*) FROM payments").fetchone()[0])


def posted(root: Path) -> int:
    """What a post office sent, counted in the bytes of its book."""
    return (root / "letters.jsonl").read_bytes().count(b"\n")


# Who sends, how often after one order twice under one key, and who counts.
SENDERS: list[tuple[str, int, Callable[[Path], int]]] = [
    ("bash", 2, lines),
    ("table", 1, payments),
    ("deaf", 2, posted),
    ("careful", 1, posted),
]


def using(name: str, root: Path, work: Callable[[Tool], object]) -> None:
    """Let ``work`` have the tool of that name; its post office is open meanwhile."""
    if name in ("bash", "table"):
        work(by_bash(root) if name == "bash" else by_table(root))
    else:
        with post_office(root, deaf if name == "deaf" else careful) as address:
            work(by_service(address))


@pytest.mark.parametrize(("name", "sent", "counted"), SENDERS)
def test_one_key_twice(
    name: str, sent: int, counted: Callable[[Path], int], tmp_path: Path
) -> None:
    """Two runs under one key leave two effects, or one where the other side refuses."""
    using(name, tmp_path, lambda tool: [tool.run({"text": TEXT}, RUN) for _ in range(2)])
    assert counted(tmp_path) == sent


@pytest.mark.parametrize(("name", "_", "counted"), SENDERS)
def test_two_keys(name: str, _: int, counted: Callable[[Path], int], tmp_path: Path) -> None:
    """The same text under two keys is two actions, and nobody refuses the second."""
    using(name, tmp_path, lambda tool: [tool.run({"text": TEXT}, run) for run in (RUN, OTHER)])
    assert counted(tmp_path) == 2


@pytest.mark.parametrize(("name", "sent", "counted"), SENDERS)
def test_the_agent_sends_again_under_the_same_key(
    name: str, sent: int, counted: Callable[[Path], int], tmp_path: Path
) -> None:
    """After a lost answer the agent makes a second attempt, told as one success, under one key."""
    keys: list[str] = []

    def turn(tool: Tool) -> None:
        def run(arguments: dict[str, Any], attempt: Run) -> dict[str, Any]:
            keys.append(attempt.key)
            return real(arguments, attempt)

        lossy = answer_lost(tool)
        real = lossy.run
        object.__setattr__(lossy, "run", run)
        model = scripted([[("send", {"text": TEXT})], "done"])
        with Session.open(session_path(tmp_path)) as session:
            Agent(session, model, [lossy], ask=lambda _: "y").run("send it")

    using(name, tmp_path, turn)
    records = Session.read(session_path(tmp_path)).records
    statuses = [r["status"] for r in records if r["type"] == "tool_execution"]
    again = ["approved", "running", "succeeded"]
    assert statuses == ["approved", "running", "unknown", *again]
    assert keys == ["demo:send:call_1"] * 2
    assert [json.loads(records[-2]["message"]["content"])["status"]] == again[-1:]
    assert counted(tmp_path) == sent


@pytest.mark.parametrize(("name", "_", "counted"), SENDERS)
def test_the_first_answer_is_lost_and_no_other(
    name: str, _: int, counted: Callable[[Path], int], tmp_path: Path
) -> None:
    """The effect of the call whose answer is lost is there; the second call answers."""

    def calls(tool: Tool) -> None:
        lossy = answer_lost(tool)
        with pytest.raises(TimeoutError):
            lossy.run({"text": TEXT}, RUN)
        assert counted(tmp_path) == 1
        assert TEXT in lossy.run({"text": TEXT}, RUN).values()

    using(name, tmp_path, calls)


def test_every_sender_says_the_same_of_itself(tmp_path: Path) -> None:
    """All promise to be keyed under one name and schema: what they say does not tell them apart."""
    told: list[Tool] = []
    for name, _, _ in SENDERS:
        using(name, tmp_path, told.append)
    assert {tool.effect for tool in told} == {Effect.KEYED}
    assert len({json.dumps(tool.schema()) for tool in told}) == 1
    assert len({(tool.name, tool.key_scope, tool.key_retention) for tool in told}) == 1


def test_bash_gets_the_key_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command could read the key: it is there, under a name of its own."""
    found: dict[str, str] = {}
    monkeypatch.setattr(subprocess, "run", lambda *_, env, **__: found.update(env))
    by_bash(tmp_path).run({"text": TEXT}, RUN)
    assert found["IDEMPOTENCY_KEY"] == RUN.key


@pytest.mark.parametrize("text", [TEXT, "-n", "-e \\a", "%s", ""])
def test_a_text_is_no_command(text: str, tmp_path: Path) -> None:
    """What bash is given to write is written as it is and never run."""
    by_bash(tmp_path).run({"text": text}, RUN)
    assert (tmp_path / "audit.log").read_bytes() == f"{text}\n".encode()
    assert not (tmp_path / "hole").exists()


def test_a_command_that_fails_is_no_success(tmp_path: Path) -> None:
    """Where bash cannot write, the tool says so and nothing is sent."""
    (tmp_path / "audit.log").mkdir()
    with pytest.raises(subprocess.CalledProcessError):
        by_bash(tmp_path).run({"text": TEXT}, RUN)


@pytest.mark.parametrize("office", [deaf, careful])
def test_the_key_travels_in_a_header(office: promises.Office, tmp_path: Path) -> None:
    """The post office finds key and text as they were sent, and writes both down."""
    with post_office(tmp_path, office) as address:
        answer = by_service(address).run({"text": TEXT}, RUN)
    book = (tmp_path / "letters.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line) for line in book.split("\n")[:-1]] == [{"key": RUN.key, "text": TEXT}]
    assert answer == {"sent": TEXT}


# Letters as (key, text), and the numbers of those that a careful office sends.
POSTED = [
    ([("a", "书"), ("a", "书")], [0]),
    ([("a", "书"), ("b", "书"), ("a", "书"), ("b", "书")], [0, 1]),
    ([("a", "书"), ("a", "画")], [0]),
    ([("", "书"), ("", "书")], [0]),
    ([("a", "x"), ("A", "x"), ("a ", "x")], [0, 1, 2]),
    ([("书", TEXT), ("书", TEXT)], [0]),
]


@pytest.mark.parametrize(("given", "kept"), POSTED)
def test_a_careful_office_goes_by_the_key(
    given: list[tuple[str, str]], kept: list[int], tmp_path: Path
) -> None:
    """A careful office sends the first letter of each key, a deaf one every letter."""
    post = [{"key": key, "text": text} for key, text in given]
    books = tmp_path / "careful", tmp_path / "deaf"
    for letter in post:
        careful(books[0], letter)
        deaf(books[1], letter)
    assert letters(books[0]) == [post[number] for number in kept]
    assert letters(books[1]) == post


def test_an_office_without_letters_has_an_empty_book(tmp_path: Path) -> None:
    """Asking for letters before any was sent gives none and makes no file."""
    assert letters(tmp_path / "book") == []
    assert not list(tmp_path.iterdir())


def test_the_office_closes(tmp_path: Path) -> None:
    """Behind the block nobody listens, no thread is left, and a new office reads the old book."""
    before = threading.active_count()
    with post_office(tmp_path, careful) as address:
        by_service(address).run({"text": TEXT}, RUN)
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        HTTPConnection(*address, timeout=5).request("POST", "/", "{}")
    with post_office(tmp_path, careful) as address:
        by_service(address).run({"text": TEXT}, RUN)
    assert posted(tmp_path) == 1


def test_the_office_closes_when_its_customer_fails(tmp_path: Path) -> None:
    """An error in the block reaches its caller, and the office is closed all the same."""
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), post_office(tmp_path, deaf):
        raise ZeroDivisionError
    assert threading.active_count() == before
