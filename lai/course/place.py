"""A place for one demonstration: a fresh workspace, and an agent whose runs repeat exactly.

Rules that live here:

1. Every demonstration has a workspace of its own, so a cell can be run again. The folders
   are removed when the kernel ends in its own time; their names are never shown.
2. Ids and the clock are handed in, so that a run prints the same bytes today and tomorrow.
   An id depends on where in the log it is made, so it is new in every process.
3. The answers come from the offline model: a lesson needs no key and costs nothing.
4. Commands run without a sandbox, because what one lets through differs from machine to
   machine. The lesson about them asks for one by name.
"""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lai.agent import Agent
from lai.approval import Question
from lai.budget import Budget
from lai.models import Model, offline_model
from lai.session import Session
from lai.tools import Tool
from lai.workspace import workspace_tools

MORNING = 1_700_000_000.0  # what the clock of a demonstration says, in seconds
Ask = Callable[[Question], str | None]


def fresh() -> Path:
    """A new, empty workspace."""
    folder = Path(tempfile.mkdtemp(prefix="lai-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def workspace_of(path: Path) -> Path:
    """The workspace that a session file belongs to."""
    return path.parent.parent


def ids(session: Session) -> Callable[[str], str]:
    """Makes ids that look like any others and are the same in every run."""

    def new_id(prefix: str) -> str:
        place = f"{prefix} {session.id} {session.last_line}"
        return f"{prefix}_{hashlib.sha256(place.encode()).hexdigest()[:32]}"

    return new_id


@contextmanager
def agent_at(
    path: Path,
    ask: Ask | None = None,
    *,
    model: Model | None = None,
    tools: Sequence[Tool] | None = None,
    budget: Budget | None = None,
) -> Iterator[Agent]:
    """Open a session and put an agent on it; both are closed at the end of the block."""
    with Session.open(path) as session:
        yield agent_on(session, ask, model=model, tools=tools, budget=budget)


def agent_on(
    session: Session,
    ask: Ask | None = None,
    *,
    model: Model | None = None,
    tools: Sequence[Tool] | None = None,
    budget: Budget | None = None,
) -> Agent:
    """An agent on an open session, with the offline model and the tools of its workspace.

    The tools return as much as the window of the budget has room for.
    """
    window = budget.window if budget else None
    return Agent(
        session,
        model or offline_model(),
        tools or workspace_tools(workspace_of(session.path), window=window, sandbox="none"),
        ask=ask,
        budget=budget,
        new_id=ids(session),
        now=lambda: MORNING,
    )
