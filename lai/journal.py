"""Writing the log: every record of a turn passes through here, checked first.

Check, write, then learn: a record that the transition table forbids is never written,
and what the process believes is always what the disk already says.

It does not choose what to write, and it does not act.
"""

import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lai.calls import Call, digest
from lai.executions import Execution
from lai.history import History
from lai.ledger import IllegalTransition
from lai.logfile import no_collection
from lai.receipts import interrupted
from lai.records import (
    JSON,
    LaiError,
    Outcome,
    Record,
    RecordError,
    Status,
    execution_record,
    message_record,
    resolution_record,
    result_message,
)
from lai.session import Session
from lai.storage import SessionDamaged, SessionFailed
from lai.tools import Effect, Tool


def fresh_id(prefix: str) -> str:
    """A new ``exec_`` id of 32 hex digits, or an id of 24 for everything else."""
    return f"{prefix}_{uuid.uuid4().hex[: 32 if prefix == 'exec' else 24]}"


def history_of(session: Session) -> History:
    """What follows from what has been read of a session, or from all of it.

    A part is enough as long as it hangs together. A line that was lost there, and a record
    that goes on with something unread, nobody can judge without the rest.
    """
    history = _fold(session)
    ledger, lost = history.ledger, session.recent.lost_lines
    if history.partial and (history.violations or ledger.oddities or lost):
        session.read_all()
        history = _fold(session)
    return history


def _fold(session: Session) -> History:
    part = session.recent
    with no_collection():
        return History.of(part.records, part.lines, part.lost_lines, partial=part.start > 1)


@dataclass(slots=True)
class Journal:
    """One session and the history that follows from it. ``new_id`` makes an id from a prefix."""

    session: Session
    history: History
    new_id: Callable[[str], str] = fresh_id
    read: int = field(init=False)  # the last line of the session that this history has seen

    def __post_init__(self) -> None:
        self.read = self.session.last_line

    def append(self, record: Record) -> None:
        """Raises IllegalTransition with nothing written, SessionFailed when the disk refuses."""
        self._require_nothing_unread()
        self.history.ledger.check(record)
        try:
            line = self.session.append(record)
            self.history.learn(self.session.recent.records[-1], line)
            self.read = line
        except LaiError:
            raise  # nothing was written, or the session refuses by itself from now on
        except BaseException:
            self.session.distrust("a stop fell between the file and what is known of it")
            raise

    def _require_nothing_unread(self) -> None:
        """Raise SessionFailed if somebody else wrote to the session; acknowledging is no matter."""
        part = self.session.recent
        for record in part.records[bisect_right(part.lines, self.read) :]:
            if record["type"] != "repair":
                raise SessionFailed(
                    f"{self.session.path}: another agent has written to this session since this "
                    "one read it; make a new agent"
                )
        self.read = self.session.last_line

    def publish(self, call: Call, result: JSON) -> None:
        """Append the one receipt of a call."""
        self.append(message_record(result_message(call.id, result)))

    def begin(self, call: Call, tool: Tool, status: Status, **details: Any) -> Execution:
        """The first record of a new attempt: approved or rejected."""
        record = execution_record(
            self.new_id("exec"),
            call.id,
            status,
            tool_name=call.name,
            key=self.key(call, tool),
            sha256=digest(call.text),
        )
        self.append(record | details)
        return self.history.ledger.executions[record["execution_id"]]

    def proceed(
        self, execution: Execution, status: Status, result: JSON | None = None, **details: Any
    ) -> Execution:
        """The next record of an attempt."""
        record = execution_record(
            execution.id,
            execution.call_id,
            status,
            result=result,
            tool_name=execution.tool_name,
            key=execution.key,
            sha256=execution.sha256,
        )
        self.append(record | details)
        return self.history.ledger.executions[execution.id]

    def conclude(self, running: Execution, status: Status, result: JSON) -> Execution:
        """Record the outcome; of a result that cannot be written, at least that there was one."""
        try:
            return self.proceed(running, status, result)
        except RecordError as error:
            told = {"status": str(status), "execution_id": running.id, "message": str(error)}
            return self.proceed(running, status, told)

    def settle(self, execution: Execution, cause: str, seen: JSON | None = None) -> Execution:
        """Record that the outcome is unknown, why nobody saw it, and what is ``seen`` of it."""
        result = {**interrupted(execution.id, cause), **(seen or {})}
        return self.proceed(execution, Status.UNKNOWN, result, cause=cause)

    def reject(self, call: Call, tool: Tool, earlier: Execution | None) -> Execution:
        """Record a person's no; an ``earlier`` yes that was never used is withdrawn by it."""
        if earlier is not None and earlier.status is Status.APPROVED:
            return self.proceed(earlier, Status.REJECTED)
        return self.begin(call, tool, Status.REJECTED)

    def resolve(self, execution_id: str, outcome: Outcome, evidence: str, by: str) -> None:
        """Record a person's verdict on an attempt that is unknown.

        Raises IllegalTransition, with nothing written, for any other attempt. If its call
        was answered already, the model is told in front of the next user text.
        """
        if not evidence.strip():
            raise LaiError("a verdict needs evidence: say what you looked at and what you saw")
        if self.history.partial and execution_id not in self.history.ledger.executions:
            raise IllegalTransition(
                f"{execution_id} is not in the part of the session that was read; to look through "
                f"all of it, close it here: python -m lai resolve {self.session.path} "
                f"{execution_id} …"
            )
        self.append(resolution_record(execution_id, outcome, evidence, by))

    def key(self, call: Call, tool: Tool) -> str:
        """One business action, one key: the recorded one, else what the promise asks for."""
        for attempt in self.history.ledger.attempts(call):
            if attempt.key is not None:
                return attempt.key
        if tool.effect is Effect.IDEMPOTENT:
            return f"{call.name}:{digest(call.text)}"
        return f"{call.name}:{call.id}"  # two intended identical commands are two actions

    def remote_key(self, call: Call) -> str:
        """The key as a service outside sees it: other sessions use the same call ids."""
        return f"{self.session.id}:{call.name}:{call.id}"

    def require_whole_history(self) -> None:
        """Raise SessionDamaged while something is amiss that no person has acknowledged."""
        places = [str(found) for found in self.session.unacknowledged]
        places += [
            f"line {line}: {problem}"
            for line, problem in self.history.violations
            if not self.session.acknowledged(line)
        ]
        if places:
            raise SessionDamaged(
                f"{self.session.path}: {'; '.join(places)}. No tool runs until you have looked and "
                f"acknowledged it: python -m lai repair {self.session.path}"
            )
