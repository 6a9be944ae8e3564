"""The chat in a terminal or a pipe: recover first, finish the old turn, then listen.

Rules that live here and nowhere else:

1. Before the first ``You>`` everything that was interrupted is settled, with a line for
   each step of it.
2. End of input while a call waits for approval leaves it waiting (exit code 3). A verdict
   nobody gives leaves the outcome unknown.
3. A provider's failure ends nothing: the turn is on disk, and Enter tries again.
4. Text of the model and of tools reaches the terminal without its control characters.
"""

import contextlib
import os
import sys
from pathlib import Path

from lai import report
from lai.agent import Agent, TurnTooLong
from lai.approval import Kind, Question, visible
from lai.context import text_of
from lai.executor import EmptyReply
from lai.models import ModelError, model_from_environment
from lai.records import LaiError
from lai.session import Session, session_path
from lai.workspace import workspace_tools

with contextlib.suppress(ImportError):  # line editing, where the platform has it
    import readline  # noqa: F401 (importing it is all it takes)

HELP = "/context what the model sees · /ledger attempts · /abandon close the turn · /exit"


class _Waiting(Exception):
    """The input ended while a call waits for approval."""


class _Voice:
    """Streams the model's words behind ``Agent>`` and keeps lines apart."""

    def __init__(self) -> None:
        self._speaking = False

    def speak(self, piece: str) -> None:
        if not self._speaking:
            print("Agent> ", end="")
            self._speaking = True
        print(visible(piece, keep="\n\t\u200d\ufe0f"), end="", flush=True)

    def line(self, text: str) -> None:
        self.stop()
        print(text, flush=True)

    def stop(self) -> None:
        if self._speaking:
            print(flush=True)
        self._speaking = False

    def read(self, prompt: str) -> str:
        self.stop()
        text = input(prompt)
        if not sys.stdin.isatty():  # so that what came through a pipe can be read again
            print(visible(text), flush=True)
        return text

    def ask(self, question: Question) -> str | None:
        try:
            return self.read(str(question))
        except EOFError:
            print(flush=True)
            return None if question.kind is Kind.APPROVAL else ""


def chat(workspace: Path) -> int:
    """Talk until the input ends. Returns the exit code."""
    if not workspace.is_dir():
        raise LaiError(f"there is no folder {workspace}; make it first, or choose another")
    voice = _Voice()
    model, description = model_from_environment(voice.speak)
    path = session_path(workspace, os.environ.get("AGENT_SESSION_ID") or "demo")
    with Session.open(path) as session:
        voice.line(f"[session] {path}")
        voice.line(f"[model] {description}")
        for damage in session.unacknowledged:
            voice.line(f"[damage] {damage}")
        agent = Agent(session, model, workspace_tools(workspace), ask=voice.ask)
        try:
            return _talk(agent, voice)
        except _Waiting:
            question = agent.question
            what = f"{question.tool_name} ({question.call_id})" if question else "a call"
            voice.line(f"[waiting] {what} waits for your approval; start again to answer")
            return 3


def _talk(agent: Agent, voice: _Voice) -> int:
    _recover(agent, voice)
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
            case "/context":
                voice.line(_context(agent))
            case "/ledger":
                voice.line(_ledger(agent))
            case "/abandon":
                agent.abandon()
                voice.line("[abandoned] the turn is closed")
            case "" if not agent.turn_open:
                pass
            case word if word.startswith("/") and " " not in word:
                voice.line(HELP)
            case _:
                failed = not _advance(agent, voice, text if text.strip() else None)


def _recover(agent: Agent, voice: _Voice) -> None:
    """Answer what is open, one line a step; a fresh question is no recovery."""
    while agent.history.ledger.first_open() is not None:
        action = agent.next_action()
        voice.line(f"[recovery] {report.describe(action)}")
        agent.advance()
        _wait_if_asked(agent)


def _advance(agent: Agent, voice: _Voice, text: str | None) -> bool:
    """A new turn, or the rest of the old one. False if it could not be finished."""
    try:
        stopped = agent.continue_turn() if text is None else agent.run(text)
    except KeyboardInterrupt:
        voice.line("[interrupted] what had started is recorded; Enter goes on with the turn")
        return False
    except (ModelError, EmptyReply, TurnTooLong) as error:
        voice.line(f"[model] {error}")
        voice.line("[model] the turn is kept; Enter goes on with it")
        return False
    if isinstance(stopped, Question):
        agent.question = stopped
        raise _Waiting
    return True


def _wait_if_asked(agent: Agent) -> None:
    if agent.question is not None:
        raise _Waiting


def _context(agent: Agent) -> str:
    messages = agent.history.view.messages()
    lines = [f"{m['role']:<10}{visible(text_of(m) or _calls(m))[:100]}" for m in messages]
    return "\n".join([*lines, f"{len(messages)} messages; the ledger is not among them"])


def _calls(message: dict[str, list[dict[str, dict[str, str]]]]) -> str:
    return ", ".join(call["function"]["name"] for call in message.get("tool_calls", []))


def _ledger(agent: Agent) -> str:
    found = [r for r in report.rows(agent.journal.session) if r.type == "tool_execution"]
    return "\n".join(report.table(found)) if found else "no attempts yet"
