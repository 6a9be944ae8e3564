"""One writer: whoever else touches a session is refused, and nothing runs twice because of it."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from lai import (
    Agent,
    Arguments,
    Effect,
    Run,
    Session,
    SessionFailed,
    SessionLocked,
    Tool,
    scripted,
)


class Nothing(Arguments):
    """No arguments."""


def counting(effects: list[str], during: Callable[[], object] = lambda: None) -> Tool:
    """An opaque tool that counts its runs in a list, outside of the library."""

    def run(arguments: dict[str, Any], run: Run) -> dict[str, Any]:
        del arguments
        effects.append(run.execution_id)
        during()
        return {"说": "好"}

    return Tool(name="send", description="寄信", arguments=Nothing, run=run, effect=Effect.OPAQUE)


def agent_on(session: Session, tool: Tool) -> Agent:
    """An agent whose model asks for the tool once."""
    return Agent(session, scripted([[("send", {})], "寄了"]), [tool], ask=lambda _: "y")


def refused(call: Callable[[], object], problems: list[str]) -> Callable[[], None]:
    """Try a call while another is at work, and keep what it says."""

    def attempt() -> None:
        try:
            call()
        except SessionLocked as error:
            problems.append(str(error))

    return attempt


@pytest.mark.parametrize("name", ["continue_turn", "recover", "advance", "abandon"])
def test_a_tool_cannot_enter_the_loop_again(tmp_path: Path, name: str) -> None:
    """A tool that calls the agent it runs under is refused; its attempt ends as it would have."""
    effects: list[str] = []
    problems: list[str] = []
    with Session.open(tmp_path / "s.jsonl") as session:
        agent: Agent
        enter = lambda: refused(getattr(agent, name), problems)()  # noqa: E731, PLW0108 (made below)
        tool = counting(effects, enter)
        agent = agent_on(session, tool)
        assert agent.run("寄信") == "寄了"
        statuses = [r["status"] for r in session.records if r["type"] == "tool_execution"]
    assert statuses == ["approved", "running", "succeeded"]
    assert (len(effects), len(problems)) == (1, 1)


def test_a_second_thread_is_refused(tmp_path: Path) -> None:
    """While a tool runs in one thread, another thread can neither settle nor repeat it."""
    effects: list[str] = []
    problems: list[str] = []
    started, go_on = Event(), Event()

    def wait() -> None:
        started.set()
        assert go_on.wait(60)

    with Session.open(tmp_path / "s.jsonl") as session:
        agent = agent_on(session, counting(effects, wait))
        thread = Thread(target=agent.run, args=("寄信",))
        thread.start()
        assert started.wait(60)
        refused(agent.continue_turn, problems)()
        go_on.set()
        thread.join()
        assert session.records[-1]["message"]["content"] == "寄了"
    assert (len(effects), len(problems)) == (1, 1)


def test_a_second_agent_on_the_session_is_refused(tmp_path: Path) -> None:
    """An agent that has not read what another wrote records and runs nothing."""
    effects: list[str] = []
    with Session.open(tmp_path / "s.jsonl") as session:
        first, second = (agent_on(session, counting(effects)) for _ in range(2))
        first.run("寄信")
        before = session.path.read_bytes()
        with pytest.raises(SessionFailed, match="another agent"):
            second.run("寄信")
        assert session.path.read_bytes() == before
    assert len(effects) == 1


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_another_name_of_the_file_is_locked_too(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    """A link to an open session is the same session, and so is one whose lock file is gone."""
    path, other = tmp_path / "a.jsonl", tmp_path / "乙.jsonl"
    with Session.open(path):
        link(path, other)
        with pytest.raises(SessionLocked):
            Session.open(other)
        path.with_name("a.jsonl.lock").unlink()
        with pytest.raises(SessionLocked):
            Session.open(path)


def vanish(path: Path) -> None:
    """Remove the file."""
    path.unlink()


def replace(path: Path) -> None:
    """Put a copy in its place, as an editor does."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


def write_into(path: Path) -> None:
    """Append behind the agent's back."""
    with path.open("ab") as file:
        file.write(b'{"type":"note"}\n')


@pytest.mark.parametrize("meddle", [vanish, replace, write_into])
def test_a_file_that_changed_hands_takes_no_records(
    tmp_path: Path, meddle: Callable[[Path], None]
) -> None:
    """If the file is removed, replaced or written by others meanwhile, no effect starts."""
    effects: list[str] = []

    with Session.open(tmp_path / "s.jsonl") as session:

        def answer(question: object) -> str:
            del question
            meddle(session.path)
            return "y"

        agent = agent_on(session, counting(effects))
        agent.executor.ask = answer
        with pytest.raises(SessionFailed):
            agent.run("寄信")
    assert effects == []


def test_a_forked_child_cannot_write(tmp_path: Path) -> None:
    """A child that inherits an open session is refused, and the file stays its parent's."""
    with Session.open(tmp_path / "s.jsonl") as session:
        session.append({"type": "note", "text": "父"})
        child = os.fork()
        if child == 0:
            try:
                session.append({"type": "note", "text": "子"})
            except SessionFailed:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        session.append({"type": "note", "text": "还是父"})
        assert [r["text"] for r in Session.read(session.path).records] == ["父", "还是父"]
