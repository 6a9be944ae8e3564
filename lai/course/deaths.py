"""One death and what came of it: the points of a turn, the promises, the judgement.

A point of death is a step of the turn and before, during or after it.

Rules that live here:

1. ``PROMISES`` is the whole judgement of an end: what the model may be told, and how many
   effects may be there. Effects are counted by the world (``World.count``); the session is
   read only for what it claims, and the claim is held against the count.
2. An end is judged more strictly where the outcome was never open (``gap``): there nobody
   may say "unknown".
3. What was not killed where it should have been, or did not come to its end, is broken too.

``crashes`` makes many of these and draws them up.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lai.course.child import KILLED, Ended, run_child
from lai.course.worlds import WORLDS, World, starts
from lai.ledger import pending_tool_calls
from lai.records import Message, Record
from lai.session import Session
from lai.storage import session_path

End = tuple[str, int]  # the status that the model was told, and the effects that are there
ONCE: frozenset[End] = frozenset({("succeeded", 1)})
READ: frozenset[End] = frozenset({("completed", 0)})
OPEN: frozenset[End] = frozenset({("unknown", 0), ("unknown", 1)})
# How a turn may end: killed elsewhere, and killed while the outcome was open.
PROMISES: MappingProxyType[str, tuple[frozenset[End], frozenset[End]]] = MappingProxyType(
    {
        "read_file": (READ, READ),
        "write_file": (ONCE, ONCE),
        "pay": (ONCE, ONCE),
        "submit": (ONCE, ONCE),
        "run_bash": (ONCE, OPEN),
        "run_bash+look": (ONCE, ONCE),
        "naive": (ONCE, ONCE | OPEN),
    }
)
# The steps of a turn, each with the name that ``faults`` has for its points.
STEPS = (
    ("user message", "append"),
    ("model call 1", "model call"),
    ("tool call", "append"),
    ("approved", "append"),
    ("running", "append"),
    ("effect", "effect of {}"),
    ("outcome", "append"),
    ("receipt", "append"),
    ("model call 2", "model call"),
    ("final answer", "append"),
)
MOMENTS = ("before", "during", "after")
EVERY = tuple(f"{moment} {step}" for step, _ in STEPS for moment in MOMENTS)
_LEDGER = ("approved", "running", "outcome")
_NO_MIDDLE = ("model call", "effect of read_file")


@dataclass(frozen=True, slots=True)
class Death:
    """One run: where it was killed, what the restart did, and what was there in the end.

    ``executions`` are the attempts that the ledger saw start (None: there is no ledger);
    ``starts`` of the tool and ``effects`` are counted outside. ``broken`` says what was
    promised and not kept. ``path`` is the session file.
    """

    tool: str
    killed_at: str
    killed_again: str
    recovery: tuple[str, ...]
    executions: int | None
    starts: int
    effects: int
    status: str
    broken: tuple[str, ...]
    path: Path = field(repr=False, compare=False)

    @property
    def naive(self) -> bool:
        """Whether this is the control, of which no promise is expected to hold."""
        return WORLDS[self.tool].naive


def points(tool: str) -> tuple[str, ...]:
    """Every point at which a run with this tool can be killed, in order. Nothing is run."""
    return tuple(label for label, _ in _points(WORLDS[tool]))


def gap(tool: str) -> tuple[str, ...]:
    """The points at which the outcome is open: it may have happened, and nobody wrote it."""
    names, ledger = points(tool), WORLDS[tool].ledger
    begins = names.index("after running" if ledger else "before effect")
    return names[begins : names.index("after outcome" if ledger else "after receipt")]


def prepare(folder: Path, tool: str) -> Path:
    """A new workspace ``folder`` for a run; the path of its session."""
    folder.mkdir(parents=True)
    WORLDS[tool].prepare(folder)
    return session_path(folder)


def kill(tool: str, path: Path, point: str) -> list[str]:
    """Begin the turn and kill it at a point; what went wrong with that."""
    labels = list(_points(WORLDS[tool]))
    number, name = next((n, raw) for n, (label, raw) in enumerate(labels) if label == point)
    return not_killed(run_child(path, at=number, world=tool), name)


def not_killed(ended: Ended, name: str) -> list[str]:
    """What is wrong if a process was to die at the point ``name``."""
    if ended.returncode == KILLED and ended.points[-1:] == (name,):
        return []
    return [f"to be killed at {name!r}, but {ended}"]


def finish(tool: str, path: Path, at: str, again: str = "", wrong: Iterable[str] = ()) -> Death:
    """Start the process that comes after a death, let it live, and judge what it leaves."""
    world, root = WORLDS[tool], path.parent.parent
    left = world.count(root)
    ended = run_child(path, world=tool)
    session = Session.read(path)
    elsewhere, in_gap = PROMISES[tool]
    allowed = elsewhere | in_gap if again else in_gap if at in gap(tool) else elsewhere
    broken = [*wrong, *_broken(world, root, session, allowed)]
    if ended.returncode:
        broken.append(f"the restart: {ended}")
    status, effects = _told(session.records), world.count(root)
    if status == "unknown" and effects != left:
        broken.append("it acted, and then said that nobody knows")
    executions = len(_running(session.records)) if world.ledger else None
    counted = len(starts(root)), effects
    return Death(tool, at, again, ended.did, executions, *counted, status, tuple(broken), path)


def _points(world: World) -> Iterator[tuple[str, str]]:
    """The label of each point, and its name in ``faults``."""
    for step, raw in STEPS:
        if world.ledger or step not in _LEDGER:
            name = raw.format(world.order[0])
            for moment in MOMENTS:
                if moment != "during" or name not in _NO_MIDDLE:
                    yield f"{moment} {step}", f"{moment} {name}"


def _broken(world: World, root: Path, session: Session, allowed: frozenset[End]) -> Iterator[str]:
    records = session.records
    receipts = _receipts(records)
    end = _told(records), world.count(root)
    if end not in allowed:
        yield f"{end[0]} with {end[1]} effect{'s' * (end[1] != 1)}"
    if len(receipts) != 1:
        yield f"{len(receipts)} receipts"
    if world.ledger and not set(starts(root)) <= set(_running(records)):
        yield "started before `running` was on disk"
    if pending_tool_calls(records) or _messages(records)[-1:] == receipts[-1:]:
        yield "the turn has no end"
    if session.unacknowledged:
        yield "the file is damaged"


def _messages(records: list[Record]) -> list[Message]:
    return [record["message"] for record in records if record["type"] == "message"]


def _receipts(records: list[Record]) -> list[Message]:
    return [message for message in _messages(records) if message["role"] == "tool"]


def _told(records: list[Record]) -> str:
    """The status in the last receipt."""
    receipts = _receipts(records)
    return str(json.loads(receipts[-1]["content"])["status"]) if receipts else "nothing"


def _running(records: list[Record]) -> list[str]:
    return [r["execution_id"] for r in records if r.get("status") == "running"]
