"""Questions in a notebook, without a browser: buttons are clicked, threads are stopped."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lai import (
    Ask,
    LaiError,
    Question,
    Session,
    scripted,
    session_path,
)
from lai.approval import Kind, read_verdict
from lai.course.place import agent_at, workspace_of
from lai.course.widgets import Card, Prompt

COMMAND = "append a line to the audit log"


def question(kind: Kind = Kind.APPROVAL, **changes: Any) -> Question:
    fields = {
        "kind": kind,
        "tool_name": "run_bash",
        "call_id": "call_书",
        "arguments": {"command": "echo <b>"},
        "sha256": "0" * 64,
        "key": "k",
        "shown": {"command": "echo <b>"},
    }
    return Question(**{**fields, **changes})


def statuses(path: Path) -> list[str]:
    return [r["status"] for r in Session.read(path).records if r["type"] == "tool_execution"]


def sent(path: Path) -> int:
    """Lines in the audit log, counted outside of the agent."""
    log = workspace_of(path) / "audit.log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


@pytest.mark.parametrize(("first", "second"), [("Approve", "Reject"), ("Reject", "Approve")])
def test_first_click_wins(first: str, second: str, caplog: pytest.LogCaptureFixture) -> None:
    """A later click on the other button changes nothing, without an error; all are greyed."""
    card = Card(question())
    buttons = {button.description: button for button in card.buttons}
    buttons[first].click()
    buttons[second].click()
    assert asyncio.run(card.answer()) == {"Approve": "y", "Reject": "n"}[first]
    assert [button.disabled for button in card.buttons] == [True, True]
    assert caplog.records == []


def test_question_is_shown_whole_and_escaped() -> None:
    """The card holds every line of the question, and its HTML cannot act."""
    text = Card(question(cautions=("书 <i>", "x" * 3000))).box.children[0].value
    assert text.startswith("<pre")
    assert "echo &lt;b&gt;" in text
    assert "<b>" not in text
    assert "书 &lt;i&gt;" in text
    assert "x" * 3000 in text
    assert "anything else" not in text


@pytest.mark.parametrize("label", ["It happened", "It did not happen"])
def test_verdict_needs_evidence(label: str) -> None:
    """Without evidence a verdict button gives a hint and no answer; with it, a valid verdict."""
    card = Card(question(Kind.VERDICT))
    button = next(b for b in card.buttons if b.description == label)
    card.evidence.value = " \n "
    button.click()
    assert "Without evidence" in card.hint.value
    assert not button.disabled
    card.evidence.value = "looked at audit.log: 一行"
    button.click()
    outcome = read_verdict(str(asyncio.run(card.answer())))
    assert outcome == ({"It happened": "happened"}.get(label, "not_happened"), card.evidence.value)


def test_verdict_can_be_left_unknown_and_never_retried() -> None:
    """A verdict card says so plainly, offers three buttons, and none of them runs anything."""
    card = Card(question(Kind.VERDICT))
    assert "Result not confirmed" in card.box.children[0].value
    labels = [button.description for button in card.buttons]
    assert labels == ["It happened", "It did not happen", "Leave it unknown"]
    card.buttons[2].click()
    answer = asyncio.run(card.answer())
    assert answer == ""
    assert read_verdict(answer) is None


@pytest.mark.parametrize("answer", ["y", "n"])
def test_headless_answers_approvals_alone(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """LAI_ANSWER answers an approval and says so; a verdict stays unknown."""
    monkeypatch.setenv("LAI_ANSWER", answer)
    assert Prompt()(question()) == answer
    assert {"y": "approved", "n": "rejected"}[answer] in capsys.readouterr().out
    assert Prompt()(question(Kind.VERDICT)) == ""
    assert "LAI_ANSWER is set: left unknown" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["", "yes", "happened: I say so", "Y"])
def test_headless_refuses_every_other_value(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that is neither y nor n is an error, never an approval."""
    monkeypatch.setenv("LAI_ANSWER", value)
    with pytest.raises(LaiError, match="must be y or n"):
        Prompt()(question())


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may click: no scripted answer."""
    monkeypatch.delenv("LAI_ANSWER", raising=False)


async def until(holds: Callable[[], Any]) -> None:
    """Let other things happen until this holds."""
    async with asyncio.timeout(60):  # so that a fault is a failure and not a hang
        while not holds():  # noqa: ASYNC110 (what holds is a fact of the disk or of a thread)
            await asyncio.sleep(0.01)


async def pressed(prompt: Prompt, label: str) -> None:
    """Click a button as soon as it is there."""
    await until(lambda: prompt._card)
    next(b for b in prompt._card.buttons if b.description == label).click()


async def awaited(work: Callable[..., Any], prompt: Prompt, meanwhile: Any) -> Any:
    """What a cell shows: the result, or the name of what stopped it."""
    cell = asyncio.ensure_future(_cell(work, prompt))
    await meanwhile(cell)
    return await cell


async def _cell(work: Callable[..., Any], prompt: Prompt) -> Any:
    try:
        return await prompt.during(work)
    except KeyboardInterrupt:
        return "KeyboardInterrupt"


@pytest.mark.usefixtures("nobody")
def test_cell_awaits_the_click(tmp_path: Path) -> None:
    """A turn asked from a thread goes on with the answer of the clicked button."""
    prompt, path = Prompt(), session_path(tmp_path)
    with agent_at(path, ask=prompt) as agent:
        asyncio.run(
            awaited(lambda: agent.run(COMMAND), prompt, lambda _: pressed(prompt, "Approve"))
        )
    assert (sent(path), statuses(path)) == (1, ["approved", "running", "succeeded"])


@pytest.mark.usefixtures("nobody")
def test_stop_leaves_an_approval_open(tmp_path: Path) -> None:
    """Stop at a question: nothing recorded, nothing run, and the question is asked again later."""
    prompt, path = Prompt(), session_path(tmp_path)

    async def stop(cell: "asyncio.Future[Any]") -> None:
        await until(lambda: prompt._card)
        cell.cancel()

    with agent_at(path, ask=prompt) as agent:
        seen = asyncio.run(awaited(lambda: agent.run(COMMAND), prompt, stop))
        assert seen == "KeyboardInterrupt"
        assert isinstance(agent.next_action(), Ask)
    assert (sent(path), statuses(path)) == (0, [])
    with agent_at(path, ask=lambda _: "y") as agent:
        agent.continue_turn()
    assert sent(path) == 1


@pytest.mark.usefixtures("nobody")
def test_stop_interrupts_a_running_tool(tmp_path: Path) -> None:
    """Stop in the middle of a command: unknown, published, and the thread is over at once."""
    prompt, path = Prompt(), session_path(tmp_path)
    call = ("run_bash", {"command": "echo 书 >> audit.log; sleep 60"})

    async def stop(cell: "asyncio.Future[Any]") -> None:
        await pressed(prompt, "Approve")
        await until(lambda: sent(path))
        cell.cancel()

    with agent_at(path, ask=prompt, model=scripted([[call]])) as agent:
        assert asyncio.run(awaited(lambda: agent.run("go"), prompt, stop)) == "KeyboardInterrupt"
        assert not agent.history.ledger.open
    assert (sent(path), statuses(path)) == (1, ["approved", "running", "unknown"])


@pytest.mark.usefixtures("nobody")
def test_errors_of_the_thread_reach_the_cell() -> None:
    """What the agent raises is raised by the await, unchanged, and the prompt is free again."""
    prompt = Prompt()

    def fail(error: BaseException) -> None:
        raise error

    async def three(*errors: BaseException) -> int:
        for error in errors:
            with pytest.raises(type(error), match="书"):
                await prompt.during(fail, error)
        return await prompt.during(lambda: 7)

    assert asyncio.run(three(LaiError("书"), KeyboardInterrupt("书"))) == 7


@pytest.mark.usefixtures("nobody")
def test_prompt_without_a_cell_says_what_to_do(tmp_path: Path) -> None:
    """An agent that asks outside of `during` gets an error, and nothing is recorded or run."""
    path = session_path(tmp_path)
    with agent_at(path, ask=Prompt()) as agent, pytest.raises(LaiError, match="await prompt"):
        agent.run(COMMAND)
    assert (sent(path), statuses(path)) == (0, [])


@pytest.mark.usefixtures("nobody")
def test_prompt_serves_one_agent_at_a_time() -> None:
    """A second `during` on a prompt in use is refused; the first goes on."""
    prompt = Prompt()

    async def both() -> str:
        first = asyncio.ensure_future(prompt.during(lambda: (time.sleep(0.1), "first")[1]))
        await asyncio.sleep(0)
        with pytest.raises(LaiError, match="in use"):
            await prompt.during(lambda: "second")
        return await first

    assert asyncio.run(both()) == "first"
