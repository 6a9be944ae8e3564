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
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from lai.actions import Action, Ask, AskVerdict, Attempt, CallModel, LookUp, Publish, Settle
from lai.course import naive
from lai.course.place import agent_on, ids, workspace_of
from lai.course.worlds import ASKED, WORLDS, World, next_start
from lai.faults import Fault, FaultySession, kill
from lai.models import offline_model
from lai.recovery import Move
from lai.workspace import workspace_tools

Point = str | tuple[str, int] | int
KILLED = -9  # the return code of a process that SIGKILL ended
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["lai.course.warm"])


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: -9 is killed by SIGKILL, 0 came to its end.

    ``points`` are the places it passed, in order; a killed child died at the last one.
    ``did`` are the actions it finished, in the words of the policy table.
    """

    returncode: int
    points: tuple[str, ...]
    did: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.returncode == 0:
            return "return code 0: came to its end"
        how = "killed" if self.returncode == KILLED else "ended"
        place = repr(self.points[-1]) if self.points else "its start"
        return f"return code {self.returncode}: {how} at {place}"


@dataclass(frozen=True, slots=True)
class _Job:
    path: Path
    text: str | None
    at: Point | None
    answer: str | None
    naive: bool
    world: str | None


def run_child(
    path: Path,
    text: str | None = None,
    *,
    at: Point | None = None,
    answer: str | None = "y",
    naive: bool = False,
    world: str | None = None,
) -> Ended:
    """Let a process run one turn on the session ``path`` and wait for its end.

    Without ``text`` it goes on with what it finds there. ``at`` is the point of death: a
    name (the first of that name), a name and a count from 1, or its number from 0; None
    lets it live. ``answer`` is given to every question, None for "not now"; a verdict is
    none of ``y`` and ``n``. ``naive`` runs the agent that keeps no ledger; it can only begin.
    ``world`` names one of ``WORLDS``, which brings text, model, tool and person; its turn
    is begun, or gone on with. Raises ValueError for a naive agent that is told nothing.
    """
    if naive and text is None:
        raise ValueError("the naive agent can only begin: give it a text")
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    job = _Job(path, text, at, answer, naive, world)
    process = _CONTEXT.Process(target=_run, args=(job, theirs))
    process.start()
    theirs.close()
    try:
        points, did = ours.recv()
    except EOFError:  # it died before it could say anything
        points, did = (), ()
    except BaseException:  # whoever waits here is stopped, and nobody would watch the child
        process.kill()
        raise
    process.join()
    code = process.exitcode
    process.close()
    return Ended(-1 if code is None else code, tuple(points), tuple(did))


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
    did: list[str] = []

    def die() -> NoReturn:
        watcher.send((fault.points, did))
        kill()

    fault = _Aimed(job, die)
    with FaultySession.under(job.path, fault) as session:
        if job.world is None:
            _in_workspace(job, fault, session, did)
        else:
            _in_world(WORLDS[job.world], fault, session, did)
    watcher.send((fault.points, did))


def _in_workspace(job: _Job, fault: Fault, session: FaultySession, did: list[str]) -> None:
    """One turn with the offline model and the tools of the workspace."""
    model = fault.model(offline_model())
    tools = fault.tools(workspace_tools(workspace_of(job.path), sandbox="none"))
    agent = agent_on(session, lambda _: job.answer, model=model, tools=tools)
    agent.watch = lambda action: did.append(words(action))
    if job.text is None:
        agent.continue_turn()
    elif job.naive:
        naive.turn(session, model, tools, job.text, lambda _: job.answer, new_id=ids(session))
    else:
        agent.run(job.text)


def _in_world(world: World, fault: Fault, session: FaultySession, did: list[str]) -> None:
    """The world's turn: begun if the file knows nothing of it, else gone on with."""
    root = workspace_of(session.path)
    model, tools = fault.model(world.model()), fault.tools([world.tool(root, fault.point)])
    begun = any(record["type"] == "message" for record in session.records)
    if not world.naive:
        agent = agent_on(session, partial(world.answer, root), model=model, tools=tools)
        agent.watch = lambda action: did.append(words(action))
        _ = agent.continue_turn() if begun else agent.run(ASKED)
    elif begun:
        done = naive.carry_on(session, model, tools[0], partial(next_start, root))
        did.extend(map(words, done))
    else:
        names = partial(next_start, root)
        naive.turn(session, model, tools, ASKED, lambda _: "y", new_id=names)


def words(action: Action) -> str:
    """An action as the policy table calls it."""
    match action:
        case CallModel():
            return "ask the model"
        case Ask():
            return str(Move.ASK)
        case Attempt():
            return str(Move.ATTEMPT)
        case Settle():
            return str(Move.SETTLE)
        case LookUp():
            return str(Move.LOOK_UP)
        case AskVerdict():
            return str(Move.VERDICT)
        case Publish(_, result):
            return f"{Move.PUBLISH} {result.get('status')}"
    return type(action).__name__.lower()
