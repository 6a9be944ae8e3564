"""The chat in a terminal or a pipe: recover first, finish the old turn, then listen.

Rules that live here and nowhere else:

1. Before the first ``You>`` everything that was interrupted is settled, with a line for
   each step of it.
2. End of input while a call waits for approval leaves it waiting (exit code 3). A verdict
   nobody gives leaves the outcome unknown.
3. A provider's failure ends nothing: the turn is on disk, and Enter tries again.
4. Nothing is said to have happened before it has.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lai import report, window
from lai.actions import Action, Ask, AskVerdict, Compact
from lai.agent import Agent, TurnTooLong
from lai.approval import Question, visible
from lai.completion import ContextFull, EmptyReply
from lai.lines import TORN
from lai.models import ModelError, budget_from_environment, model_from_environment
from lai.records import LaiError
from lai.sandbox import from_environment
from lai.session import Session
from lai.storage import session_path
from lai.voice import Voice, width
from lai.workspace import workspace_tools

HELP = (
    "/context what the model sees · /compact summarise the older part · /ledger attempts · "
    "/abandon close the turn · /exit"
)


class _Waiting(Exception):
    """A question was left open."""


def chat(workspace: Path) -> int:
    """Talk until the input ends. Returns the exit code."""
    if not workspace.is_dir():
        raise LaiError(f"there is no folder {workspace}; make it first, or choose another")
    wanted = from_environment()
    voice = Voice()
    model, description = model_from_environment(voice.speak)
    budget = budget_from_environment()
    path = session_path(workspace, os.environ.get("AGENT_SESSION_ID") or "demo")
    with Session.open(path) as session:
        voice.line(f"[session] {path}")
        voice.line(f"[model] {description}")
        voice.line(f"[sandbox] {wanted}")
        for damage in session.damage:
            if damage.lost and not damage.acknowledged:
                voice.line(f"[damage] {damage}; python -m lai verify {path} shows it")
            elif damage.reason == TORN:
                voice.line(f"[mended] {damage}; it was sealed where it stands, nothing is lost")
        tools = workspace_tools(workspace, window=budget.window, sandbox=wanted)
        agent = Agent(session, model, tools, voice.ask, budget)
        agent.watch = partial(_tell, agent, voice)
        try:
            return _talk(agent, voice)
        except _Waiting:
            question = agent.question
            what = visible(f"{question.tool_name} ({question.call_id})") if question else "a call"
            voice.line(f"[waiting] {what} waits for your answer; start again to give it")
            if question and question.found.get("still_running"):
                voice.line("[waiting] its command is not over, so nobody can say it did not happen")
            return 3


def _talk(agent: Agent, voice: Voice) -> int:
    try:
        _recover(agent, voice)
    except KeyboardInterrupt:
        voice.line("[interrupted] what had started is recorded; start again to go on")
        return 130
    failed = agent.turn_open and not _advance(agent, voice, None)
    while True:
        try:
            text = voice.read("You> ")
        except EOFError:
            voice.line("")
            return 2 if failed else 0
        match text.strip():
            case "/exit":
                return 0
            case word if word in COMMANDS:
                voice.line(_done(agent, word))
            case "" if not agent.turn_open:
                pass
            case word if word.startswith("/") and " " not in word:
                voice.line(HELP)
            case _:
                failed = not _advance(agent, voice, text if text.strip() else None)


def _recover(agent: Agent, voice: Voice) -> None:
    """Answer what is open, one line a step."""
    while agent.history.ledger.first_open() is not None:
        asking = isinstance(agent.next_action(), Ask | AskVerdict)
        if asking:  # before the question; all else is told once it is done
            voice.line(f"[recovery] {report.describe(agent.next_action())}")
        done = agent.advance()
        if not asking:
            voice.line(f"[recovery] {report.describe(done)}")
        if agent.question is not None:
            raise _Waiting


def _advance(agent: Agent, voice: Voice, text: str | None) -> bool:
    """A new turn, or the rest of the old one. False if it could not be finished."""
    try:
        if text is None or agent.turn_open:
            stopped = agent.continue_turn()
            voice.end()
        if text is not None and not agent.turn_open:
            stopped = agent.run(text)
    except KeyboardInterrupt:
        voice.line("[interrupted] what had started is recorded; Enter goes on with the turn")
        return False
    except (ModelError, EmptyReply, ContextFull, TurnTooLong) as error:
        voice.line(f"[model] {error}")
        voice.line("[model] the turn is kept; Enter goes on with it")
        return False
    if isinstance(stopped, Question):
        raise _Waiting
    return True


def _tell(agent: Agent, voice: Voice, action: Action) -> None:
    """Say what became of a compaction; all other actions speak for themselves."""
    if isinstance(action, Compact):
        voice.line(window.outcome(agent, action))


def _ledger(agent: Agent) -> str:
    kinds = ("tool_execution", "resolution")
    found = [row for row in report.rows(agent.journal.session) if row.type in kinds]
    return "\n".join(report.table(found, width())) if found else "no attempts yet"


def _done(agent: Agent, command: str) -> str:
    try:
        return COMMANDS[command](agent)
    except KeyboardInterrupt:
        return f"[interrupted] {command} was not finished; what was recorded until then stays"


def _abandon(agent: Agent) -> str:
    said = "the turn is closed" if agent.turn_open else "no turn is open"
    agent.abandon()
    return f"[abandoned] {said}"


COMMANDS: dict[str, Callable[[Agent], str]] = {
    "/context": window.listed,
    "/compact": window.compacted,
    "/ledger": _ledger,
    "/abandon": _abandon,
}
