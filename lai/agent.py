"""Turns: the loop around ``decide`` and ``perform``, and the ways to enter it.

Rules that live here and nowhere else:

1. There is one step, decide and perform, and everything repeats it. ``run``,
   ``continue_turn`` and ``recover`` differ in what they append before and where they stop.
2. An interrupted turn is finished before a new one starts. If it stops at a question,
   the new text is not recorded.
3. The number of model calls in one run of the loop is bounded; the log stays as it is,
   and going on is allowed.

Synchronous only: in a notebook, run it in a thread and await that.
"""

import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from lai.actions import Action, CallModel, Done, Publish, Settle
from lai.approval import Question
from lai.budget import Budget
from lai.compaction import plan
from lai.executor import Executor
from lai.journal import Journal, fresh_id, history_of
from lai.receipts import declined, receipt, unplaced, verdict_note
from lai.records import LaiError, Outcome, encode, message_record
from lai.recovery import decide, doubt_about
from lai.session import Session
from lai.tools import Effect, Tool, find

if TYPE_CHECKING:
    from lai.models import Model

P = ParamSpec("P")
T = TypeVar("T")
SYSTEM = (
    "You are a careful assistant working in one folder through tools. A tool result with "
    'status "unknown" means that the effect may have happened: do not repeat it, say what '
    'should be checked. "rejected" means the user refused: do not try it another way.'
)
CLOSED = "The user closed this turn before it was finished."


class TurnOpen(LaiError):
    """The last turn waits for an answer; ``question`` is what must be answered first."""

    def __init__(self, question: Question) -> None:
        super().__init__(
            f"the last turn still waits for an answer about {question.tool_name} "
            f"({question.call_id}); answer it with continue_turn(), or close the turn with "
            "abandon(). The new text was not recorded."
        )
        self.question = question


class TurnTooLong(LaiError):
    """The model called for tools again and again without a final answer."""


def _alone(method: Callable[Concatenate["Agent", P], T]) -> Callable[Concatenate["Agent", P], T]:
    """Let nobody else work on the session meanwhile; see ``Session.working``."""

    @wraps(method)
    def alone(self: "Agent", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.journal.session.working():
            return method(self, *args, **kwargs)

    return alone


class Agent:
    """One conversation with a model that uses tools.

    ``ask`` answers questions (``input`` by default, None for nobody). With a ``budget`` the
    conversation stays within the model's window; without one it is sent whole. ``system``
    is sent in front of every prompt and is not recorded. ``max_model_calls`` bounds one run
    of the loop. ``watch`` is told each action once it is done. ``new_id`` and ``now`` are
    there to make runs repeatable. ``question`` is what the last step asked and nobody
    answered.
    """

    def __init__(
        self,
        session: Session,
        model: "Model",
        tools: Sequence[Tool],
        ask: Callable[[Question], str | None] | None = input,
        budget: Budget | None = None,
        *,
        system: str = SYSTEM,
        max_model_calls: int = 50,
        watch: Callable[[Action], None] = lambda _: None,
        new_id: Callable[[str], str] = fresh_id,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.history = history_of(session)
        self.tools = tuple(tools)
        self.journal = Journal(session, self.history, new_id)
        self.executor = Executor(self.journal, model, self.tools, ask, system, now, budget)
        self.max_model_calls = max_model_calls
        self.watch = watch
        self.question: Question | None = None

    @property
    def budget(self) -> Budget | None:
        """The budget, with what every request carries counted in."""
        return self.executor.budget

    @property
    def turn_open(self) -> bool:
        """Whether a turn is unfinished: the next thing to do is not waiting for the user."""
        return not isinstance(self.next_action(), Done)

    def next_action(self) -> Action:
        """What would happen next. Nothing happens."""
        return decide(self.history, self.tools, self.budget)

    @_alone
    def advance(self) -> Action:
        """Do one action and return it; ``question`` tells if it stopped at one."""
        return self._step()

    @_alone
    def run(self, text: str) -> str | Question:
        """A new turn: its final answer, or the question at which it stopped.

        Finishes an interrupted turn first. Raises :class:`TurnOpen`, with ``text`` not
        recorded, if that one stops at a question.
        """
        encode(message_record({"role": "user", "content": text}))  # refused before anything moves
        stopped = self._loop()
        if isinstance(stopped, Question):
            raise TurnOpen(stopped)
        notes = [verdict_note(execution) for execution in self.history.ledger.news]
        message = {"role": "user", "content": "\n\n".join([*notes, text])}
        self.journal.append(message_record(message))
        return self._loop()

    @_alone
    def continue_turn(self) -> str | Question:
        """Go on with an unfinished turn; with none, the last answer comes back."""
        return self._loop()

    @_alone
    def recover(self) -> list[str]:
        """Answer every open call, without calling the model. Returns the answered ids.

        Stops early at a question that nobody answers.
        """
        answered = []
        while (call := self.history.ledger.first_open()) is not None:
            self._step()
            if self.question is not None:
                break
            if call not in self.history.ledger.open:
                answered.append(call.id)
        return answered

    @_alone
    def abandon(self) -> None:
        """Close the turn on a person's word: every open call gets a true receipt, no tool runs."""
        if not self.turn_open:
            return
        if self.history.ledger.open:
            self.journal.require_whole_history()
        while self.history.ledger.open:
            self._give_up()
        self.journal.append(message_record({"role": "assistant", "content": CLOSED}))

    @_alone
    def compact(self) -> bool:
        """Summarise the older half now. False: there is nothing to summarise yet.

        Raises :class:`CompactionRefused`, with nothing recorded, for a useless summary.
        """
        if self.budget is None:
            raise LaiError("a compaction needs a budget: Agent(..., budget=Budget(window=...))")
        action = plan(self.history, self.budget, share=0.5)
        if action is not None:
            self.journal.require_whole_history()
            self.executor.compact(action)
        return action is not None

    @_alone
    def resolve(
        self, execution_id: str, outcome: Outcome | str, evidence: str, by: str = "person"
    ) -> None:
        """Record a person's verdict on an attempt that is unknown; see ``Journal.resolve``."""
        self.journal.resolve(execution_id, Outcome(outcome), evidence, by)

    def _step(self) -> Action:
        action = self.next_action()
        self.question = self.executor.perform(action)
        self.watch(action)
        return action

    def _loop(self) -> str | Question:
        calls = 0
        while not isinstance(action := self.next_action(), Done):
            calls += isinstance(action, CallModel)
            if calls > self.max_model_calls:
                raise TurnTooLong(
                    f"{self.max_model_calls} model calls and no final answer; everything is "
                    "recorded. continue_turn() allows as many again, abandon() closes the turn"
                )
            self._step()
            if self.question is not None:
                return self.question
        return action.text

    def _give_up(self) -> None:
        """One step towards closing the first open call; nothing is run or asked."""
        action = self.next_action()
        if isinstance(action, Publish | Settle):
            self.executor.perform(action)
            return
        call = self.history.ledger.first_open()
        assert call is not None, "only called while a call is open"
        attempts = self.history.ledger.attempts(call)
        doubtful = [attempt for attempt in attempts if attempt.unresolved]
        tool = find(self.tools, call.name)
        doubt = doubt_about(call, self.history)
        if doubtful:
            self.journal.publish(call, receipt(doubtful[-1]))
        elif doubt and (tool is None or tool.effect is not Effect.READ_ONLY):
            self.journal.publish(call, unplaced(doubt))
        elif tool is None or tool.effect is Effect.READ_ONLY:
            self.journal.publish(call, declined(CLOSED))
        else:
            earlier = attempts[-1] if attempts else None
            self.journal.publish(call, receipt(self.journal.reject(call, tool, earlier)))
