"""The executor's reading of the log: which attempts exist, and which calls are open.

The same file has a second reading, the model's conversation (``context``); neither
knows the other. Fed one record at a time, so a step costs the same at any length.

Rules that live here and nowhere else:

1. ``LEGAL`` is the whole transition table: what is not in it raises and changes nothing.
2. An attempt belongs, for good, to the call that a result of its id would answer; where
   none is open, to the latest. A second use of an id never finds the first use's outcome.
3. What belongs to nothing (a result without a call, an attempt without a call) is kept
   as an oddity for ``verify``; nothing is ever run for it.
4. Across a lost line a transition is not checked: the missing one may have stood there.
5. The ledger's hash, tool name and key must fit the call. A difference is a conflict.

It does not know tools, promises or what to do next: that is ``recovery``.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from lai.calls import ArgumentsError, Call, Pairing, digest
from lai.executions import Execution, after, as_record, resolved
from lai.records import JSON, LaiError, Record, Status

LEGAL: Mapping[Status | None, frozenset[Status]] = MappingProxyType(
    {
        None: frozenset({Status.APPROVED, Status.REJECTED}),
        Status.APPROVED: frozenset({Status.RUNNING, Status.REJECTED}),
        Status.RUNNING: frozenset({Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN}),
        # by a look-up, a moved target, an expired key, or a person's verdict
        Status.UNKNOWN: frozenset({Status.SUCCEEDED, Status.FAILED, Status.UNKNOWN}),
        Status.REJECTED: frozenset(),
        Status.SUCCEEDED: frozenset(),
        Status.FAILED: frozenset(),
    }
)


class IllegalTransition(LaiError):
    """A record that the transition table does not allow after what is already known."""


class Ledger:
    """The fold of a log into calls and attempts.

    ``news`` holds verdicts that came after their call was answered and that the model
    has not been told yet. ``oddities`` are (line, sentence) pairs.
    """

    def __init__(self) -> None:
        self.executions: dict[str, Execution] = {}
        self.news: list[Execution] = []
        self.oddities: list[tuple[int, str]] = []
        self.calls: dict[str, Call] = {}  # by id, the latest
        self.open: dict[Call, None] = {}  # in order; calls without a result
        self._attempts: dict[Call, list[str]] = {}
        self._unresolved: dict[Call, Execution] = {}
        self._running: dict[str, Execution] = {}
        self._pairing = Pairing()
        self._lost_at = 0

    def check(self, record: Record) -> None:
        """Raise :class:`IllegalTransition` if ``record`` may not come next. Changes nothing."""
        if record["type"] == "tool_execution":
            self._check_attempt(self.executions.get(record["execution_id"]), record)
        elif record["type"] == "resolution":
            self._check_verdict(self.executions.get(record["execution_id"]), record)

    def feed(self, record: Record, line: int) -> None:
        """Read the next record. Raises :class:`IllegalTransition` and changes nothing."""
        self.check(record)
        self.learn(record, line)

    def learn(self, record: Record, line: int) -> None:
        """Read a record that ``check`` has let pass."""
        kind = record["type"]
        if kind == "message":
            self._learn_message(record, line)
        elif kind == "tool_execution":
            self._keep(record, line)
        elif kind == "resolution":
            known = self.executions[record["execution_id"]]
            execution = self._keep(resolved(as_record(known), record), line)
            if execution.call not in self.open:
                self.news.append(execution)

    def _learn_message(self, record: Record, line: int) -> None:
        role = record["message"]["role"]
        if role == "assistant":
            for call in self._pairing.calls(record, line):
                self.calls[call.id] = call
                self.open[call] = None
        elif role == "tool":
            answered = self._pairing.answered(record)
            if answered is not None:
                del self.open[answered]
                return
            call_id = record["message"]["tool_call_id"]
            self.oddities.append((line, f"a result for {call_id!r} answers no open call"))
        elif role == "user":
            self.news.clear()

    def lose(self, line: int) -> None:
        """A line here could not be read: anything may have stood on it."""
        self._lost_at = line

    def lost_since(self, line: int) -> bool:
        """Whether something at or after ``line`` could not be read."""
        return self._lost_at >= max(line, 1)

    def first_open(self) -> Call | None:
        """The call to work on: the earliest without a result, and of its id the next in turn."""
        first = next(iter(self.open), None)
        return None if first is None else self._pairing.next(first.id)

    def attempts(self, call: Call) -> list[Execution]:
        """Every attempt at a call, oldest first."""
        return [self.executions[i] for i in self._attempts.get(call, ())]

    def unresolved(self) -> list[Execution]:
        """The attempts nobody can vouch for, one a call and oldest first.

        A later success or a person's verdict ends the doubt; a refused or failed retry
        says nothing about the attempt before it.
        """
        return list(self._unresolved.values())

    def in_doubt(self) -> list[Execution]:
        """``unresolved``, and attempts left at ``running`` although their call was answered."""
        left = (e for e in self._running.values() if e.call and e.call not in self.open)
        return [*self.unresolved(), *left]

    def _call_of(self, call_id: str) -> Call | None:
        return self._pairing.next(call_id) or self.calls.get(call_id)

    def _check_verdict(self, earlier: Execution | None, record: Record) -> None:
        if earlier is None:
            raise IllegalTransition(f"{record['execution_id']} is not in this session")
        if not earlier.unresolved:
            raise IllegalTransition(
                f"{earlier.id} stands at {earlier.details.get('verdict', earlier.status)!s}, and "
                "only an attempt that is still unknown takes a verdict"
            )

    def _check_attempt(self, earlier: Execution | None, record: Record) -> None:
        name, call_id = record["execution_id"], record["tool_call_id"]
        if earlier is not None and earlier.call_id != call_id:
            raise IllegalTransition(f"{name} belongs to call {earlier.call_id}, not to {call_id}")
        allowed = LEGAL[earlier.status if earlier else None]
        if record["status"] in allowed:
            return
        call = self._call_of(call_id)
        if not self.lost_since(earlier.line if earlier else call.line if call else 0):
            raise IllegalTransition(
                f"{name} cannot become {record['status']} after "
                f"{earlier.status if earlier else 'nothing'}; "
                f"allowed: {', '.join(sorted(allowed)) or 'no further record'}"
            )

    def _keep(self, record: Record, line: int) -> Execution:
        earlier = self.executions.get(record["execution_id"])
        call = earlier.call if earlier else self._call_of(record["tool_call_id"])
        execution = after(record, line, earlier, call)
        self.executions[execution.id] = execution
        self._running.pop(execution.id, None)
        if execution.status is Status.RUNNING:
            self._running[execution.id] = execution
        if call is None:
            self.oddities.append((line, f"{execution.id} belongs to no call of this session"))
            return execution
        ids = self._attempts.setdefault(call, [])
        if earlier is None:
            ids.append(execution.id)
        if len(ids) > 1 or execution.status is Status.UNKNOWN or call in self._unresolved:
            self._doubt(call)
        return execution

    def _doubt(self, call: Call) -> None:
        """Say anew which attempt at this call nobody can vouch for."""
        attempts = self.attempts(call)
        doubtful = [attempt for attempt in attempts if attempt.unresolved]
        self._unresolved.pop(call, None)
        if doubtful and not any(a.status is Status.SUCCEEDED for a in attempts):
            self._unresolved[call] = doubtful[-1]


def conflict(call: Call, execution: Execution) -> str | None:
    """How an attempt's record contradicts its call, in words; None if it fits."""
    if execution.tool_name not in (None, call.name):
        return f"the ledger says {execution.tool_name}, the call says {call.name}"
    try:
        sha256 = digest(call.text)
    except ArgumentsError as error:
        return f"the call's arguments cannot be read: {error}"
    if execution.sha256 not in (None, sha256):
        return f"the ledger has arguments {execution.sha256[:12]}…, the call {sha256[:12]}…"
    if execution.key not in (None, f"{call.name}:{sha256}", f"{call.name}:{call.id}"):
        return f"the key {execution.key!r} belongs to another call"
    return None


def pending_tool_calls(records: Iterable[Record]) -> list[JSON]:
    """The tool calls without a result, in the API's own form and in order."""
    kept = list(records)
    ledger = _fold(kept)
    return [kept[c.line - 1]["message"]["tool_calls"][c.index] for c in ledger.open]


def latest_execution_states(records: Iterable[Record]) -> dict[str, Record]:
    """The latest record of every attempt, by execution id, verdicts included."""
    states: dict[str, Record] = {}
    for record in records:
        match record:
            case {"type": "tool_execution", "execution_id": execution_id}:
                states[execution_id] = record
            case {"type": "resolution", "execution_id": execution_id} if execution_id in states:
                states[execution_id] = resolved(states[execution_id], record)
    return states


def latest_execution_by_tool_call(records: Iterable[Record]) -> dict[str, Record]:
    """The latest record of the last attempt at each call, by tool call id.

    Where an id was used twice, the later call alone counts.
    """
    kept = list(records)
    ledger, states = _fold(kept), latest_execution_states(kept)
    last = {call_id: ledger.attempts(call)[-1:] for call_id, call in ledger.calls.items()}
    return {call_id: states[found[0].id] for call_id, found in last.items() if found}


def _fold(records: list[Record]) -> Ledger:
    ledger = Ledger()
    for number, record in enumerate(records, start=1):
        ledger.lose(number)  # records alone do not tell of lost lines: one may be missing here
        with suppress(IllegalTransition):
            ledger.feed(record, number)
    return ledger
