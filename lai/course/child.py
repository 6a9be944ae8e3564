"""A crash that is real: the agent runs in a process of its own and is killed with SIGKILL.

The notebook's kernel survives and reads what the dead process left on disk. A child is
forked from a helper process that has imported everything already, so it costs milliseconds.

Rules that live here:

1. The child is the ordinary agent under ``faults.Fault``; nothing is simulated. It dies at
   the point it was told, or lives to the end.
2. Before it dies it says how far it came. That goes through a pipe to whoever watches and
   never into the session.
3. Ids and the clock are those of ``place``: two runs leave the same bytes.

Linux and macOS, like the library's own tools.
"""

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lai.course.naive import turn
from lai.course.place import agent_on, workspace_of
from lai.faults import Fault, FaultySession, kill
from lai.models import offline_model
from lai.workspace import workspace_tools

Point = str | tuple[str, int] | int
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["lai.course.warm"])


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: -9 is killed by SIGKILL, 0 came to its end.

    ``points`` are the places it passed, in order; a killed child died at the last one.
    """

    returncode: int
    points: tuple[str, ...]

    def __str__(self) -> str:
        how = "killed" if self.returncode == -9 else "ended"
        place = repr(self.points[-1]) if self.points else "its start"
        return f"return code {self.returncode}: {how} at {place}"


@dataclass(frozen=True, slots=True)
class _Job:
    path: Path
    text: str | None
    at: Point | None
    answer: str | None
    naive: bool


def run_child(
    path: Path,
    text: str | None = None,
    *,
    at: Point | None = None,
    answer: str | None = "y",
    naive: bool = False,
) -> Ended:
    """Let a process run one turn on the session ``path`` and wait for its end.

    Without ``text`` it goes on with what it finds there. ``at`` is the point of death: a
    name (the first of that name), a name and a count from 1, or its number from 0; None
    lets it live. ``answer`` is given to every question, None for "not now"; a verdict is
    none of ``y`` and ``n``. ``naive`` runs the agent that keeps no ledger; it can only begin.
    """
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    job = _Job(path, text, at, answer, naive)
    process = _CONTEXT.Process(target=_run, args=(job, theirs))
    process.start()
    theirs.close()
    try:
        points = ours.recv()
    except EOFError:  # it died before it could say anything
        points = ()
    process.join()
    code = process.exitcode
    process.close()
    return Ended(-1 if code is None else code, tuple(points))


class _Aimed(Fault):
    """A fault that can be told its point by name."""

    def __init__(self, job: _Job, die: Callable[[], NoReturn]) -> None:
        super().__init__(at=job.at if isinstance(job.at, int) else None, die=die)
        self._name, self._left = job.at if isinstance(job.at, tuple) else (job.at, 1)

    def point(self, name: str, first: Callable[[], object] = lambda: None) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                self.at = len(self.points)
        super().point(name, first)


def _run(job: _Job, watcher: Connection) -> None:
    def die() -> NoReturn:
        watcher.send(fault.points)
        kill()

    fault = _Aimed(job, die)
    model = fault.model(offline_model())
    tools = fault.tools(workspace_tools(workspace_of(job.path)))
    with FaultySession.under(job.path, fault) as session:
        agent = agent_on(session, lambda _: job.answer, model=model, tools=tools)
        if job.text is None:
            agent.continue_turn()
        elif job.naive:
            turn(session, model, tools, job.text, lambda _: job.answer)
        else:
            agent.run(job.text)
    watcher.send(fault.points)
