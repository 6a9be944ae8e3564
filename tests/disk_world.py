"""A world on a real disk: what is asked for, what is seen from outside, and how room runs out.

The command is counted by the line that it wrote, so also where its agent did not live to see
it return. The person looks before answering.
"""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from crash_scenarios import COMMAND, FILE
from crash_world import Scenario
from killed import Outside
from story import Deed

from lai import Question, Run, Session, Tool

LARGE = {"path": FILE["path"], "content": "长长的一行 🖋\u2028\n" * 300}
TURN = [("write_file", FILE), ("run_bash", COMMAND), ("send", {"text": "笔\u0085②"})]
EVERY: dict[str, list[tuple[str, Any]]] = {
    "turn": TURN,
    "large turn": [("write_file", LARGE), *TURN[1:]],
    "write": TURN[:1],
    "write much": [("write_file", LARGE)],
    "send": TURN[2:],
}


class Witness(Outside):
    """A world in files whose command is counted by the line that it wrote, not by its return."""

    inside = False  # in the life itself: a look into the session would be one more call to fail

    def __post_init__(self) -> None:
        super().__post_init__()
        self.path = self.root / ".agent_state" / "session-world.jsonl"
        self.started = [
            Deed(*note["started"]) for note in map(json.loads, self._notes()) if "started" in note
        ]

    @property
    def data(self) -> bytes:
        """The session file as it is now; from inside its size alone is right."""
        if self.inside and self.path.exists():
            return bytes(self.path.stat().st_size)
        return super().data

    def _notes(self) -> list[bytes]:
        return self.notes.read_bytes().splitlines() if self.notes.exists() else []

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """What the model asks for: the tools and their arguments."""
        return EVERY[self.scenario.name]

    @property
    def audit(self) -> list[str]:
        """The lines that the command wrote."""
        file = self.root / "audit.log"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def note(self, **noted: Any) -> None:
        """What is noted outside always finds room."""
        with limited(None):
            super().note(**noted)

    def look(self) -> Self:
        """Count a command that acted and whose agent did not live to tell."""
        if len(self.audit) > sum(deed.tool == "run_bash" for deed in self.deeds):
            self.deeds.append(self.started[-1])
            self.note(deeds=self.deeds[-1:])
        return self

    def ask(self, question: Question) -> str | None:
        """The person looks first."""
        return self.look() and super().ask(question)

    def tools(self) -> list[Tool]:
        """The tools of the scenario; of the command it is noted before that it starts."""
        return [
            replace(tool, run=self._noting(tool)) if tool.name == "run_bash" else tool
            for tool in super().tools()
        ]

    def _noting(self, tool: Tool) -> Any:
        def run(arguments: Any, attempt: Run) -> Any:
            about = json.dumps(arguments), attempt.execution_id, attempt.key, len(self.data)
            self.started.append(Deed(tool.name, *about))
            self.note(started=self.started[-1])
            return tool.run(arguments, attempt)

        return run


def world_of(folder: Path, name: str, policy: str) -> Witness:
    """The world in a folder; what it saw in earlier lives is in its notes."""
    tools = tuple(dict.fromkeys(tool for tool, _ in EVERY[name]))
    return Witness(folder, Scenario(name, tools, (EVERY[name],)), policy).look()


class Limited(Session):
    """A session whose file may not grow beyond ``most`` bytes."""

    most: int | None = None

    def _write(self, mend: bytes, line: bytes) -> int:
        with limited(self.most):
            return super()._write(mend, line)


@contextmanager
def limited(size: int | None) -> Iterator[None]:
    """No file may grow beyond ``size`` bytes meanwhile; None for as far as it goes.

    A write ends there. The next is refused with EFBIG, as Python ignores SIGXFSZ.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def with_room(tool: Tool, size: int | None) -> Tool:
    """The tool; if it is ``write_file``, its file may have ``size`` bytes."""

    def run(arguments: Any, attempt: Run) -> Any:
        with limited(size):
            return tool.run(arguments, attempt)

    return replace(tool, run=run) if tool.name == "write_file" else tool
