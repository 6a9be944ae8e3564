"""The things that can happen next, as values.

``recovery.decide`` returns one of them and does nothing; ``executor.perform`` does it and
writes it down. Because an action is a value, a reader can ask what would happen, look
at the answer, and only then let it happen.
"""

from dataclasses import dataclass

from lai.calls import Call
from lai.executions import Execution
from lai.records import JSON, Message


@dataclass(frozen=True, slots=True)
class CallModel:
    """Send the prompt view to the model and record its answer."""


@dataclass(frozen=True, slots=True)
class Compact:
    """Let a summary take the place of all messages before the line ``first_kept``.

    ``pinned`` is kept word for word: texts beside the summary, messages of their own.
    ``resume`` is the first line that a reader of the log still needs, ``tokens`` the size
    of the next request as it is now.
    """

    first_kept: int
    resume: int
    pinned: tuple[str | Message, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a person whether this call may run.

    ``earlier`` is an approval that was given and never used. ``caution`` says what makes
    this question different from an ordinary one.
    """

    call: Call
    earlier: Execution | None = None
    caution: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Run the tool.

    ``approved`` is the approved attempt to start; without one, a new attempt is made on
    the strength of the approval that ``retry_of`` once had. A read-only call has neither.
    """

    call: Call
    approved: Execution | None = None
    retry_of: Execution | None = None


@dataclass(frozen=True, slots=True)
class Settle:
    """Record that the outcome of an interrupted attempt is unknown."""

    call: Call
    execution: Execution


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the authority what became of an attempt, and record the answer."""

    call: Call
    execution: Execution


@dataclass(frozen=True, slots=True)
class AskVerdict:
    """Ask a person whether an attempt with an unknown outcome happened."""

    call: Call
    execution: Execution


@dataclass(frozen=True, slots=True)
class Publish:
    """Append the tool result, the call's only receipt, for the model to read."""

    call: Call
    result: JSON


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over; ``text`` is its final answer."""

    text: str


Action = CallModel | Compact | Ask | Attempt | Settle | LookUp | AskVerdict | Publish | Done
