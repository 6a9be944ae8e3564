"""Any mixture of what models, people, tools, disks and restarts do, found by hypothesis.

The person, the model and the tools are puppets: each rule tells one of them what to do next
and lets the turn go on as far as it can. After every step the invariants hold over what the
outside saw; at the end a patient person and a model that concludes bring the turn to its end.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crash_world import QuickSession
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from invariants import check
from stage import ERRORS, Stage
from story import Said
from sums import added

from lai import (
    Agent,
    Ask,
    AskVerdict,
    CallModel,
    IllegalTransition,
    ModelError,
    Reply,
    TurnOpen,
)
from lai.completion import EmptyReply
from lai.faults import Crash, Fault

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
TEXTS = st.sampled_from(["书\u2028", "\u0085", "🖋", "plain"])
IDS = st.sampled_from(["", "call_1", "call_书", "a:b:call_1", "\ud800", "x" * 90])
WRONG = ["", "{", "[1]", '{"text":"a","text":"b"}', '{"text":NaN}', '{"text":1}', '{"more":1}']
GOOD = st.one_of(
    st.tuples(
        st.sampled_from(["send", "submit", "pay"]), st.builds(lambda text: {"text": text}, TEXTS)
    ),
    st.builds(lambda text: ("write_file", {"path": "a.txt", "content": text}), TEXTS),
    st.just(("read_file", {"path": "a.txt"})),
)
BAD = st.tuples(st.sampled_from(["send", "pay", "write_file", "没有"]), st.sampled_from(WRONG))
USUALLY = st.sampled_from([True] * 9 + [False])
CALLS = st.lists(st.tuples(IDS, USUALLY.flatmap(lambda usual: GOOD if usual else BAD)), max_size=3)


def _reply(calls: list[Any], text: str, *, usual: bool) -> Reply:
    raw: list[dict[str, Any]] = []
    for call_id, (name, arguments) in calls:
        if isinstance(arguments, dict) and name != "pay":  # some servers send the object itself
            arguments = json.dumps(arguments, ensure_ascii=False)  # noqa: PLW2901
        function = {"name": name, "arguments": arguments}
        raw.append({"id": call_id, "type": "function", "function": function})
    message = {"role": "assistant", "content": text, **({"tool_calls": raw} if raw else {})}
    return Reply(message, "stop" if usual else "length", None)


REPLIES = st.lists(
    st.builds(_reply, CALLS, st.sampled_from(["", "好\u2028"]), usual=USUALLY), max_size=3
)
FATES = st.lists(st.sampled_from(["ok", *ERRORS]), max_size=3)
WORDS = st.lists(
    st.sampled_from([*["agrees"] * 6, "agrees too late", "denies", "refuses", "waits"]), max_size=6
)
DEATH = st.one_of(st.none(), st.tuples(st.integers(0, 25), st.integers(0, 400)))


class Turns(RuleBasedStateMachine):
    """One session, lived through by any number of processes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.stage = Stage(self.folder / "stage")
        self.agent: Agent | None = None

    def restart(self, dies_at: tuple[int, int] | None) -> Agent:
        """A new process opens the session, under a fault."""
        at, torn = dies_at or (None, 0)
        self.fault = Fault(at)
        kind = QuickSession.tearing(lambda length: min(torn, length))
        self.session = kind.under(self.stage.path, self.fault)
        return Agent(
            self.session,
            self.fault.model(self.stage.model),
            self.fault.tools(self.stage.tools()),
            self.fault.around("question", self.stage.ask),
            now=lambda: self.stage.time,
        )

    def step(self, act: Callable[[Agent], object], dies_at: tuple[int, int] | None = None) -> None:
        """Let a process, a new one if there is none, do something, and perhaps die in it."""
        try:
            if self.agent is None:
                self.agent = self.restart(dies_at)
            elif dies_at:
                self.fault.at = len(self.fault.points) + dies_at[0]
            act(self.agent)
        except Crash:
            self.dies()
        except (KeyboardInterrupt, ModelError, EmptyReply):
            pass
        finally:
            self.stage.earlier = [*self.stage.earlier[-1:], self.stage.data]

    def waits_for(self, *kinds: type) -> bool:
        """Whether a living agent's next action is one of these."""
        return self.agent is not None and isinstance(self.agent.next_action(), kinds)

    @precondition(lambda self: not self.waits_for(Ask, AskVerdict))
    @rule(text=TEXTS, replies=REPLIES, words=WORDS, fates=FATES, dies_at=DEATH)
    def user_speaks(self, text: str, dies_at: tuple[int, int] | None, **puppets: Any) -> None:
        """A new request, and all that follows from it."""
        self.stage.direct(**puppets)
        with suppress(TurnOpen):  # an older turn may stop at a question
            self.step(lambda agent: agent.run(text), dies_at)

    @rule(first=st.booleans(), replies=REPLIES, words=WORDS, fates=FATES, dies_at=DEATH)
    def the_turn_goes_on(
        self,
        first: bool,
        dies_at: tuple[int, int] | None,
        **puppets: Any,
    ) -> None:
        """A person answers, tools run, the model replies; or ``first`` all but the model."""
        self.stage.direct(**puppets)
        before = len(self.stage.sent)
        self.step(Agent.recover if first else Agent.continue_turn, dies_at)
        assert not first or len(self.stage.sent) == before

    @precondition(lambda self: self.waits_for(Ask, AskVerdict))
    @rule(text=TEXTS)
    def user_speaks_too_early(self, text: str) -> None:
        """While a question is open, a new request is refused and nothing is recorded."""
        assert self.agent is not None
        before = self.stage.data
        self.stage.direct()
        self.fault.at = None
        with pytest.raises(TurnOpen):
            self.agent.run(text)
        assert self.stage.data == before

    def dies(self) -> None:
        """The process is gone."""
        self.session.close()
        self.agent = None

    @precondition(lambda self: self.agent is not None)
    @rule(cut=st.integers(0, 70))
    def dies_while_idle(self, cut: int) -> None:
        """It is gone between two points; perhaps some other append of it did not finish."""
        self.dies()
        whole = added(self.stage.data, {"type": "note", "书": "\u2028"})
        with self.stage.path.open("ab") as file:
            file.write(whole[len(self.stage.data) :][:cut])

    @precondition(lambda self: self.agent is None or self.waits_for(Ask, AskVerdict))
    @rule(text=TEXTS, silent=st.booleans(), hours=st.sampled_from([0, 0, 2]))
    def world_changes(self, text: str, silent: bool, hours: int) -> None:
        """Somebody edits the target, the authority goes silent, time passes."""
        self.stage.edit(text)
        self.stage.silent = silent
        self.stage.time += hours * 3600

    @precondition(lambda self: self.waits_for(Ask, AskVerdict, CallModel))
    @rule(dies_at=DEATH)
    def abandons(self, dies_at: tuple[int, int] | None) -> None:
        """A person closes the turn: nothing runs, and it is over."""
        deeds = len(self.stage.deeds)
        self.step(Agent.abandon, dies_at)
        assert len(self.stage.deeds) == deeds
        assert self.agent is None or not self.agent.turn_open

    @precondition(lambda self: self.agent is not None)
    @rule(pick=st.integers(0, 5), word=st.sampled_from(["truth", "not_happened"]))
    def resolves(self, pick: int, word: str) -> None:
        """A person's verdict counts for an open unknown, and for nothing else."""
        assert self.agent is not None
        attempts = list(self.agent.history.ledger.executions.values())
        if not attempts:
            return
        attempt, before = attempts[pick % len(attempts)], self.stage.data
        if word == "truth":
            word = "happened" if self.stage.happened(attempt.id) else "not_happened"
        try:
            self.step(lambda agent: agent.resolve(attempt.id, word, "数过\u0085"))
        except IllegalTransition:
            assert not attempt.unresolved
            assert self.stage.data == before
            return
        said = f"{word.replace('_', ' ')}: 数过"
        about = attempt.tool_name or "", attempt.call_id, attempt.id
        self.stage.said.append(Said("verdict", *about, said))

    @invariant()
    def holds(self) -> None:
        """The invariants of a turn that is under way."""
        check(self.stage.story(), ended=False)
        self.stage.check()

    def teardown(self) -> None:
        """Without faults, with a patient person and a model that concludes, every turn ends."""
        try:
            if self.agent is not None:
                self.dies()
            self.stage.silent = False
            end = [Reply({"role": "assistant", "content": "完"}, "stop", None)]
            self.stage.direct(end, ["agrees"] * 20)
            agent = self.restart(None)
            self.stage.final = agent.continue_turn()
            if any(record["type"] == "message" for record in self.session.records):
                check(self.stage.story())
        finally:
            self.session.close()
            shutil.rmtree(self.folder)


class TestTurns(Turns.TestCase):
    """Whatever happens in whatever order, the invariants hold, and the turn can be ended."""

    settings = settings(
        max_examples=250, stateful_step_count=30, deadline=None, derandomize=True, database=None
    )
