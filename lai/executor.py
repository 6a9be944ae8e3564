"""Doing one action and writing it down: the only code that both acts and records.

Rules that live here and nowhere else:

1. ``running`` is on disk before the effect may start, the outcome before the receipt, the
   receipt before the next call or the next answer of the model.
2. A new attempt has a new execution id and keeps the call's recorded key. Before it
   repeats anything it looks: a target that moved, or a key that its service may have
   forgotten, is put to a person.
3. What a person has not answered is not recorded. The open question is a fact of the log
   and outlives the process.
4. A person who stops a running tool is told the truth before anything else: ``unknown``
   is on disk and published when the interrupt goes on its way.

It does not choose: ``recovery.decide`` does. The model and the tools are handed in.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from lai import approval, completion
from lai.actions import (
    Action,
    Ask,
    AskVerdict,
    Attempt,
    CallModel,
    Compact,
    Done,
    LookUp,
    Publish,
    Settle,
)
from lai.approval import Kind, Question
from lai.artifacts import bounded
from lai.budget import Budget
from lai.calls import Call, digest, parse_arguments
from lai.executions import Execution
from lai.journal import Journal
from lai.outcome import (
    bases,
    look_up_once,
    named,
    not_over,
    obstacle,
    plain,
    read_once,
    run_once,
    seen_now,
    words,
)
from lai.receipts import receipt, refused
from lai.records import (
    JSON,
    Outcome,
    Status,
)
from lai.storage import SessionError
from lai.summary import CompactionRefused
from lai.tools import Effect, Finding, Run, Tool, find

if TYPE_CHECKING:
    from lai.models import Model


@dataclass(slots=True)
class Executor:
    """The hands of the loop: a journal, and what may be used.

    ``ask`` gets a Question and returns the answer, or None for "not now"; ``ask=None``
    means that nobody is there. ``now`` tells seconds since the epoch.
    """

    journal: Journal
    model: "Model"
    tools: Sequence[Tool]
    ask: Callable[[Question], str | None] | None
    system: str
    now: Callable[[], float]
    budget: Budget | None = None
    schemas: list[JSON] = field(init=False)

    def __post_init__(self) -> None:
        self.schemas = [tool.schema() for tool in self.tools]
        self.budget = self.budget and self.budget.carrying(self.system, self.schemas)

    def perform(self, action: Action) -> Question | None:
        """Do ``action`` and record it. Returns a question that nobody has answered yet."""
        self._require_a_log_to_go_by(action)
        match action:
            case CallModel():
                completion.answer(self.journal, self.model, self.system, self.schemas, self.budget)
            case Compact():
                with suppress(CompactionRefused):  # the history knows why; the turn goes on
                    self.compact(action)
            case Ask(call, earlier, caution):
                return self._ask(call, earlier, caution)
            case Attempt(call, approved, retry_of):
                self._attempt(call, approved, retry_of)
            case Settle(_, execution):
                interrupted = execution.status is Status.RUNNING
                self._settle(execution, "crash" if interrupted else "lost_line")
            case LookUp(call, execution):
                self._look_up(call, execution)
            case AskVerdict(call, execution):
                return self._ask_verdict(call, execution)
            case Publish(call, result):
                self.journal.publish(call, result)
            case Done():
                pass
            case _:
                assert_never(action)
        return None

    def _require_a_log_to_go_by(self, action: Action) -> None:
        if not isinstance(action, Done):
            self.journal.session.require_writable()
        if not isinstance(action, CallModel | Done):
            self.journal.require_whole_history()

    def compact(self, action: Compact) -> None:
        """Have a summary made and record it. Raises :class:`CompactionRefused`."""
        assert self.budget is not None, "decide compacts nothing without a budget"
        completion.compact(self.journal, self.model, action, self.budget)

    def _ask(self, call: Call, earlier: Execution | None, caution: str) -> Question | None:
        tool, arguments = self._tool(call), parse_arguments(call.text)
        sha256 = digest(call.text)
        try:
            # Looked at before it is shown: if it moves in between, the attempt will see it.
            base = {"base_sha256": tool.version(arguments)} if tool.version else {}
            shown = plain(tool.check(arguments))
            if tool.since:
                shown |= plain(tool.since(arguments, self.journal.history.view.messages()))
        except Exception as error:  # noqa: BLE001 (whatever stops the check, nothing has run)
            self.journal.publish(call, refused(words(error)))
            return None
        unresolved = self.journal.history.ledger.unresolved()
        cautions = [*approval.doubts(call, sha256, unresolved), tool.warning, caution]
        question = Question(
            kind=Kind.APPROVAL,
            tool_name=call.name,
            call_id=call.id,
            arguments=arguments,
            sha256=sha256,
            key=self.journal.key(call, tool),
            shown=shown,
            cautions=tuple(filter(None, cautions)),
            base_sha256=base.get("base_sha256"),
        )
        answer = self._answer(question)
        if answer is None:
            return question
        if approval.approves(answer):
            self.journal.begin(call, tool, Status.APPROVED, **base)
        else:
            self.journal.reject(call, tool, earlier)
        return None

    def _ask_verdict(self, call: Call, execution: Execution) -> Question | None:
        arguments = parse_arguments(call.text)
        now = seen_now(find(self.tools, call.name), arguments, execution.id)
        question = approval.verdict(call, arguments, execution, now)
        answer = self._answer(question) if self.ask else ""
        if answer is None:
            return question
        verdict = approval.read_verdict(answer)
        if verdict is None:
            self.journal.history.declined.add(execution.id)
        elif verdict[0] is Outcome.NOT_HAPPENED and question.found.get("still_running"):
            return question  # it may happen yet: whoever says so now cannot know
        else:
            self.journal.resolve(execution.id, *verdict, by="person")
        return None

    def _answer(self, question: Question) -> str | None:
        try:
            return self.ask(question) if self.ask else None
        except EOFError:  # input() at the end of its input
            return None

    def _attempt(self, call: Call, approved: Execution | None, retry_of: Execution | None) -> None:
        tool, arguments = self._tool(call), parse_arguments(call.text)
        if tool.effect is Effect.READ_ONLY:
            run = Run(execution_id="", key=self.journal.remote_key(call))
            self.journal.publish(call, self._bounded(call, read_once(tool, arguments, run)))
            return
        carried = approved.details.get("approval_of") if approved else None
        origin = retry_of or self.journal.history.ledger.executions.get(carried or "")
        problem = obstacle(tool, arguments, origin, self.now()) if origin else {}
        if origin is not None and problem:
            self.journal.proceed(origin, Status.UNKNOWN, origin.result, **problem)
            return
        if approved is None:
            assert origin is not None, "decide attempts only what was approved once"
            base = {k: v for k, v in origin.details.items() if k == "base_sha256"}
            details = {**base, "approval_of": origin.id}
            approved = self.journal.begin(call, tool, Status.APPROVED, **details)
        self._act(call, tool, approved, origin)

    def _act(self, call: Call, tool: Tool, approved: Execution, origin: Execution | None) -> None:
        arguments = parse_arguments(call.text)
        accepted = bases(tool, arguments, approved, retry=origin is not None)
        run = Run(approved.id, self.journal.remote_key(call), accepted)
        kept = {k: v for k, v in approved.details.items() if k == "base_sha256"}
        kept |= tool.noted or {}
        if tool.effect is Effect.KEYED:
            kept["key_issued_at"] = origin.details["key_issued_at"] if origin else self.now()
        try:
            running = self.journal.proceed(approved, Status.RUNNING, **kept)
            status, result = run_once(tool, arguments, run)
            self.journal.conclude(running, status, self._bounded(call, result))
        except (KeyboardInterrupt, SystemExit):
            self._tell_of_stop(call, approved.id)
            raise

    def _settle(self, execution: Execution, cause: str) -> Execution:
        seen = not_over(find(self.tools, execution.tool_name or ""), execution.id)
        return self.journal.settle(execution, cause, seen)

    def _bounded(self, call: Call, result: JSON) -> JSON:
        """A result as the prompt can bear it; what is too much is in an artifact."""
        together = self.journal.history.view.batch(call)
        tokens = self.budget.largest_result(together) if self.budget else None
        return bounded(result, self.journal.session.path.parent / "artifacts", tokens)

    def _tell_of_stop(self, call: Call, execution_id: str) -> None:
        execution = self.journal.history.ledger.executions[execution_id]
        try:
            if execution.status is Status.RUNNING:
                execution = self._settle(execution, "interrupt")
            if execution.status is not Status.APPROVED:
                self.journal.publish(call, receipt(execution))
        except SessionError:
            pass  # the stop hit an append; the next start finds `running` and settles it

    def _look_up(self, call: Call, execution: Execution) -> None:
        tool = self._tool(call)
        key = self.journal.remote_key(call)
        answer = look_up_once(tool, parse_arguments(call.text), key)
        if answer.finding is Finding.FOUND:
            status = Status.SUCCEEDED if answer.succeeded else Status.FAILED
            result = self._bounded(call, named(status, execution.id, answer.result or {}))
        else:
            status, result = Status.UNKNOWN, execution.result or {}
        final = answer.finding is not Finding.ABSENT or tool.absent_is_final
        finding = answer.finding if final else Finding.INCONCLUSIVE
        seen = {"lookup": str(finding), "evidence": answer.evidence}
        self.journal.proceed(execution, status, result, **seen)

    def _tool(self, call: Call) -> Tool:
        tool = find(self.tools, call.name)
        assert tool is not None, "decide answers calls to unknown tools itself"
        return tool
