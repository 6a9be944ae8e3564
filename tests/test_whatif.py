"""The slider "what if it died after line k", against real files that are cut there."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lai import Effect, Session, Tool, session_path, workspace_tools
from lai.course import scenes, whatif
from lai.course.child import run_child
from lai.course.place import agent_at, fresh, workspace_of
from lai.course.whatif import WhatIf, what_if
from lai.records import message_record
from lai.report import describe


def recovered() -> Path:
    """Experiment 2: twelve records, two attempts."""
    path = scenes.stage("interrupted-write", fresh())
    run_child(path)
    return path


def over(path: Path) -> WhatIf:
    return what_if(path, workspace_tools(workspace_of(path)))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def cut(path: Path, line: int) -> Path:
    """The first lines of a session in a file of its own, as a death would have left them."""
    copy = session_path(fresh())
    copy.parent.mkdir()
    copy.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:line]))
    return copy


@pytest.mark.parametrize("name", [*scenes.SCENES, "recovered"])
def test_each_answer_is_that_of_a_restart(name: str) -> None:
    """What is said of line k is what a process decides that opens a file cut after line k."""
    path = recovered() if name == "recovered" else scenes.stage(name, fresh())
    found = over(path)
    assert [step.line for step in found.steps] == list(range(len(found.steps)))
    for step in found.steps:
        with agent_at(cut(path, step.line)) as agent:
            assert step.next == describe(agent.next_action()), step.line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (0, "nobody asked anything"),
        (1, "no call is open, and the model has not answered"),
        (2, "no attempt × idempotent → ask"),
        (3, "approved earlier, never started × idempotent → ask"),
        (4, "running, so interrupted × idempotent → settle as unknown"),
        (5, "unknown, attempts left × idempotent → attempt"),
        (6, "a retry approved earlier, never started × idempotent → attempt"),
        (8, "succeeded or failed × idempotent → publish"),
        (10, "no attempt × read_only → attempt"),
        (12, "the last message is a final answer"),
    ],
)
def test_the_reason_is_a_row_of_the_policy(line: int, why: str) -> None:
    """Where the call stands times what its tool promises; in words where no call is open."""
    assert over(recovered()).steps[line].why == why


def test_the_promise_decides_not_the_status() -> None:
    """The same death has another answer for a tool that promises something else."""
    path = scenes.stage("unknown-published", fresh())
    (*_, bash) = workspace_tools(workspace_of(path))
    other = what_if(path, [replace(bash, effect=Effect.IDEMPOTENT)])
    assert over(path).steps[5].why == "unknown, attempts left × opaque → ask for a verdict"
    assert other.steps[5].why == "unknown, attempts left × idempotent → attempt"
    assert other.steps[5].next != over(path).steps[5].next


def test_nothing_is_executed() -> None:
    """Moving over every line runs no tool and changes no byte, not even a torn tail."""

    def run(*_: Any) -> Any:
        pytest.fail("a tool ran")

    path = scenes.stage("torn-tail", fresh())
    before = tree(workspace_of(path))
    tools = [replace(tool, run=run, check=run) for tool in workspace_tools(workspace_of(path))]
    found = what_if(path, tools)
    for line in range(len(found.steps)):
        found.slider.value = line
    assert tree(workspace_of(path)) == before


def test_the_slider_shows_the_line_it_stands_on() -> None:
    """Each place shows the last records, what comes next and why, and nothing of later lines."""
    found = over(recovered())
    assert (found.slider.min, found.slider.max, found.slider.value) == (0, 12, 12)
    for line in (4, 8, 0, 12):
        found.slider.value = line
        step = found.steps[line]
        assert step.next in found.answer.value
        assert step.why in found.answer.value
    found.slider.value = 4
    assert "● running" in found.answer.value
    assert "unknown</pre>" not in found.answer.value
    assert "◆" not in found.answer.value


def test_no_event_loop_is_needed() -> None:
    """The widgets are made and moved where no loop runs, and inside of one."""

    async def inside() -> str:
        found = over(scenes.stage("interrupted-write", fresh()))
        found.slider.value = 2
        return str(found.answer.value)

    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    found = over(scenes.stage("interrupted-write", fresh()))
    found.slider.value = 2
    assert asyncio.run(inside()) == found.answer.value


def test_a_hostile_text_is_only_shown(tmp_path: Path) -> None:
    """HTML, control characters and line separators from a session do nothing in the notebook."""
    path, name = session_path(tmp_path), "<script>书\u2028\x1b"
    call = {"id": "call_<b>", "function": {"name": name, "arguments": "{}"}}
    with Session.open(path) as session:
        session.append(message_record({"role": "user", "content": "🙂"}))
        session.append(message_record({"role": "assistant", "content": "", "tool_calls": [call]}))
    found = over(path)
    for text in (found.answer.value, found.table._repr_html_()):
        assert "<script>" not in text
        assert "<b>call" not in text
        assert "\u2028" not in text
    assert "&lt;script&gt;书⟦U+2028⟧⟦ESC⟧" in found.answer.value
    assert "but it cannot run: There is no tool" in found.steps[2].why


def test_damage_is_said_where_a_tool_would_wait_for_it() -> None:
    """From the damaged line on, whatever needs the whole log says that a person comes first."""
    steps = over(scenes.stage("damaged-middle", fresh())).steps
    halted = [step.line for step in steps if "line 4 must be acknowledged first" in step.why]
    assert halted == [4, 5, 9]  # 6 to 8 ask the model or end: no tool, so no wait


def test_a_conflict_is_said() -> None:
    """A ledger that does not fit its call is named before any row of the table."""
    path = scenes.stage("interrupted-command", fresh())
    path.write_text(path.read_text("utf-8").replace("echo sent", "echo lost"), "utf-8")
    assert over(path).steps[4].why.startswith("the ledger and the call differ: ")


@pytest.mark.parametrize(("answer", "shown"), [("y", ["table"]), (None, ["box", "table"])])
def test_a_saved_notebook_holds_the_static_twin_only(
    answer: str | None, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nobody there the table alone is displayed; else the slider stands above it."""
    displayed: list[Any] = []
    monkeypatch.setattr(whatif, "display", displayed.append)
    monkeypatch.delenv("LAI_ANSWER", raising=False)
    if answer:
        monkeypatch.setenv("LAI_ANSWER", answer)
    found = over(recovered())
    found._ipython_display_()
    assert ["box" if one is found.box else "table" for one in displayed] == shown
    assert repr(displayed[-1]) == repr(found) == repr(over(recovered()))
    assert len(repr(found).splitlines()) == 1 + 13


def test_an_open_session_is_read_too(tmp_path: Path) -> None:
    """An empty session has one answer, and a session that is open is read as it is."""
    tools: list[Tool] = list(workspace_tools(tmp_path))
    with Session.open(session_path(tmp_path)) as session:
        assert [step.why for step in what_if(session, tools).steps] == ["nobody asked anything"]
        session.append(message_record({"role": "user", "content": "书"}))
        assert what_if(session, tools).slider.max == 1
    shutil.rmtree(tmp_path / ".agent_state")
