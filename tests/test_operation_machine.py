"""Any mixture of what workers, persons, services, clocks and crashes do, found by hypothesis.

Two workers, an agent that wants to know at once, and a person work on two operations at one
service. After every step the promises hold over what the outside saw; in the end the service
is well, time passes, and every operation comes to rest.
"""

import os
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from promises_o import OPEN, Story, judge
from simulator import Bench, World
from watched import STEPS, Cut

from lai.faults import Crash
from lai.operations import review
from lai.operations.records import Operation, OperationError
from lai.operations.review import Decision, Outcome, resolve
from lai.operations.service.mishaps import MISHAPS, Mishap
from lai.operations.service.profiles import PROFILES
from lai.operations.store import ClaimLost

PROOF = os.environ.get("LAI_PROOF") == "1"
OPERATIONS = st.sampled_from(["op-1", "op-2"])
WORKERS = st.sampled_from(["worker-a", "worker-b"])
# All but R8: a service that forgets a key in its time breaks its word; R8 comes by the clock.
WAYS = st.lists(
    st.sampled_from(
        [
            {"mishap": str(mishap), "variant": variant}
            for mishap, entry in MISHAPS.items()
            for variant in entry.variants
            if mishap is not Mishap.KEY_EXPIRED
        ]
    ),
    max_size=2,
)
PLACES = st.sampled_from([f"{side} {step}" for step in STEPS for side in ("before", "after")])
ENDS = st.none() | st.tuples(PLACES, st.sampled_from(["dies", "is overtaken"]))
PAUSES = st.sampled_from([1.0, 31.0, 130.0, 5 * 3600.0, 86_400.0])
WORKING = settings(
    max_examples=1500 if PROOF else 60,
    stateful_step_count=40 if PROOF else 30,
    deadline=None,
    derandomize=True,
    database=None,
)


class Operations(RuleBasedStateMachine):
    """Two operations at one service, for as long as anybody likes."""

    bench: Bench
    world: World

    @initialize(profile=st.sampled_from(sorted(PROFILES)), ways=WAYS, end=ENDS)
    def begin(self, profile: str, ways: list[Any], end: Any) -> None:
        """The service has one profile for good, and an agent has come by."""
        self.bench = Bench()
        self.world = World(self.bench, profile)
        self.seen: dict[str, Operation] = {}
        self.an_agent_wants_it("op-1", "worker-a", ways, end)

    @property
    def stored(self) -> list[str]:
        """The operations that there are."""
        return [row["operation_id"] for row in self.bench.rows("operations")]

    @rule(name=OPERATIONS, worker=WORKERS, ways=WAYS, end=ENDS)
    def an_agent_wants_it(self, name: str, worker: str, ways: list[Any], end: Any) -> None:
        """It is planned, or found, and taken as far as it goes, due or not."""
        made = self.world.worker(worker, self.cut(end))
        self.world.provider.plan_mishaps(ways)
        with Life(self.world):
            self.world.plan(made, name)
            self.world.of(name).by_name += 1
            made.work_on(name)

    @rule(name=OPERATIONS, worker=WORKERS, ways=WAYS, end=ENDS, waits=st.booleans())
    def a_worker_takes_what_is_due(
        self, name: str, worker: str, ways: list[Any], end: Any, *, waits: bool
    ) -> None:
        """Whichever it is, now or when the next is due."""
        if waits:
            self.world.wait(name)
        self.world.provider.plan_mishaps(ways)
        with Life(self.world):
            self.world.worker(worker, self.cut(end)).work_once()

    @rule(pause=PAUSES)
    def time_passes(self, pause: float) -> None:
        """A second, a lease, the time to find out, hours, a day."""
        self.world.clock.at += pause

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome), lately=st.booleans())
    def a_person_decides(self, data: Any, outcome: Outcome, *, lately: bool) -> None:
        """About what they see now, or saw before; where nobody waits for them, it is refused."""
        rows = self.bench.rows("operations")
        waiting = [r["operation_id"] for r in rows if r["state"] == "review_required"]
        name = data.draw(st.sampled_from(waiting or self.stored))
        before, past, store = self.world.row(name), self.world.of(name), self.bench.store
        assert before is not None
        seen = store.get(name) if lately else self.seen.get(name, store.get(name))
        self.seen[name] = store.get(name)
        decision = Decision(outcome, "证据 \u2028", "person", risk_read=True)
        try:
            resolve(store, self.bench.references, seen, decision)
        except OperationError:
            assert self.world.row(name) == before
            return
        assert before["version"] == seen.version
        past.permitted += outcome is Outcome.SEND_AGAIN
        past.prolonged += outcome in {Outcome.SEND_AGAIN, Outcome.ASK_AGAIN}

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def somebody_plans_another_input(self, data: Any) -> None:
        """Under an id that is taken."""
        self.world.contradict(data.draw(st.sampled_from(self.stored)))

    @rule()
    def the_news_are_told(self) -> None:
        """By a relay that dies once."""
        self.world.tell()

    @invariant()
    def the_promises_hold(self) -> None:
        """For every operation, whatever came before."""
        for name in self.stored if hasattr(self, "world") else ():
            judge(self.world.story(name), but={"O13"})

    def cut(self, end: tuple[str, str] | None) -> Cut:
        """A life that ends there, or that stops there while the other worker works."""
        if end is None:
            return Cut()
        place, how = end
        return Cut([place]) if how == "dies" else Cut([place], self.overtake)

    def overtake(self) -> None:
        """The lease is over, and somebody else does what is due."""
        self.world.clock.at += 31.0
        with suppress(ClaimLost):
            self.world.worker("worker-c").work_once()

    def teardown(self) -> None:
        """The service is well again, and all come to rest."""
        if not hasattr(self, "world"):
            return
        try:
            self.world.provider.plan_mishaps([])
            for name in self.stored:
                self.world.rest(operation_id=name)
            self.world.clock.at += 7200.0
            self.world.tell()
            for name in self.stored:
                story: Story = self.world.story(name)
                judge(story)
                assert story.last["state"] not in OPEN
        finally:
            self.world.close()
            self.bench.close()


class Life:
    """What a worker does until it ends, dies, or finds that it was overtaken."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.world.look()
        for past in self.world.past.values() if kind is Crash else ():
            past.crashes += 1  # whichever it was about
        return kind in {Crash, ClaimLost}


def test_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """All promises hold after every step of every mixture, and all operations come to rest."""
    monkeypatch.setattr(review, "PATIENCE", 120.0)  # what a person adds; a day takes long to rest
    run_state_machine_as_test(Operations, settings=WORKING)
