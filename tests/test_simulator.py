"""Every fault of a service, every crash of its client, every profile: the promises hold.

A push runs a sample in which every fault meets every crash, every crash in recovery and
every profile; with ``LAI_PROOF=1`` all 11,664 combinations run.
"""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from promises_o import Story, judge
from simulator import LEASE, Bench, World
from sqlalchemy.exc import OperationalError
from watched import STEPS, Cut

from lai.operations import databases
from lai.operations.service.profiles import PROFILES

PROOF = os.environ.get("LAI_PROOF") == "1"
# A fault, the calls that it befalls, and where it comes to rest without a crash, by profile:
# S succeeded, R rejected, V a person must look. There are two minutes to find out; where an
# absence becomes final there is an hour.
# standard, final, lagging, slow (jobs), jobs (by number alone), blind, bare (no keys), fenced
FAULTS = """
R1   S S S S V V V S   1:R1
R1   S S S S V V V S   1:R1 2:R1
R2   V R V V V V V R   1:R2:silent
R2   V V V V V V V V   1:R2:accepted
R3   S S S S S S S S   1:R3
R3   S S S S V V V S   1:R3 1:R1
R4   S S S S V V V S   1:R4
R4   S S S S V V V S   1:R1 2:R4
R5   S S S S V V V S   1:R5:different
R5   S S S S V V V S   1:R5:same
R5   S S S S V V V S   1:R1 2:R5:different
R6   S S S S V V V S   1:R6
R7   V V V V V V S S   1:R7
R8   S S S S V V V S   1:R1 2:R8 3:R8 4:R8 5:R8
R9   S S S S V V V S   1:R1 2:R9
R9   S S S S V V V S   1:R1 2:R9 3:R9
R10  V V V V V V V V   1:R1 2:R10
R11  S S S S V V V S   1:R1 2:R11
R12  V V V V V V V V   1:R12:done
R12  V V V V V V V V   1:R12:undone
R13  V R V V V V V R   1:R13:429
R13  V R V V V V V R   1:R13:503
R13  S S S S V V V S   1:R1 2:R13
R14  R V V R R V V R   1:R14
R14  R R R R V V V R   1:R14 1:R1
R15  S S S S V V V S   1:R15:truncated
R15  S S S S V V V S   1:R15:content_type
R15  S S S S V V V S   1:R15:error_body
R15  S S S S V V V S   1:R15:redirect
R15  S S S S V V V S   1:R1 2:R15
R16  S S S S S S S S   1:R16
R16  S S S S S S S S   1:R16 2:R16 3:R16
R16  S S S S V V V S   1:R1 2:R16
R17  S S S S S S S S   1:R17:ahead
R17  S S S S S S S S   1:R17:behind
R17  S S S S V V V S   1:R1 2:R17:ahead
R17  V S V V V V V S   1:R1 2:R17:behind
R18  V V V V V V V V   1:R18
R18  V V V V V V V V   1:R1 2:R18
"""
RESTS = {"S": "succeeded", "R": "rejected", "V": "review_required"}
ROWS = [(row.split()[0], row.split()[1:9], row.split()[9:]) for row in FAULTS.strip().splitlines()]
NAMES = [f"R{number}" for number in range(1, 19)]
Mishaps = list[dict[str, Any]]


def mishaps(calls: list[str]) -> Mishaps:
    """``["1:R2:silent"]`` as a provider reads it."""
    parts = (call.split(":") for call in calls)
    return [{"call": int(n), "mishap": name, "variant": "".join(how)} for n, name, *how in parts]


PLANS: dict[str, list[Mishaps]] = {
    name: [mishaps(calls) for fault, _, calls in ROWS if fault == name] for name in NAMES
}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


def run(world: World, first: Cut, recovery: list[str]) -> Story:
    """A life, cut; then other workers, cut too, until it rests; then long after."""
    world.live("worker-1", first)
    if world.row():
        world.contradict()
    world.rest(Cut([*first.left, *recovery]))
    world.clock.at += 7200.0  # whatever is still under way at the service is over
    world.live("worker-0")
    world.tell()
    return world.story()


@pytest.mark.parametrize(("fault", "rests", "calls"), ROWS, ids=[" ".join(r[2]) for r in ROWS])
def test_where_a_fault_leads(bench: Bench, fault: str, rests: list[str], calls: list[str]) -> None:
    """Without a crash: to the receipt where there is a way to it, else to a person or a true no."""
    assert any(call.partition(":")[2].partition(":")[0] == fault for call in calls)
    found = []
    for profile in PROFILES:
        with World(bench, profile, mishaps(calls)) as world:
            story = run(world, Cut(), [])
            judge(story)
            found.append(story.last["state"])
    assert found == [RESTS[letter] for letter in rests]


def cases(profile: int) -> list[tuple[int, str, str]]:
    """Fault, crash in the first life, crash in recovery; the sides of the steps change places."""
    chosen = []
    for fault in range(18):
        for first in range(9):
            for second in range(9):
                sampled = (profile, second) == ((fault + first) % 8, (fault + 2 * first) % 9)
                side, other = (("before", "after")[(first + second + n) % 2] for n in (fault, 1))
                if PROOF or sampled:
                    cut = f"{side} {STEPS[first]}", f"{other} {STEPS[second]}"
                    chosen.append((fault, *cut))
    return chosen


def test_the_sample_leaves_nothing_out() -> None:
    """Every fault meets every crash, every crash in recovery and every profile, and these those."""
    met = [
        (NAMES[fault], first.split()[1], second.split()[1], profile)
        for number, profile in enumerate(PROFILES)
        for fault, first, second in cases(number)
    ]
    sizes = (18, 9, 9, 8)
    for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        assert len({(one[a], one[b]) for one in met}) == sizes[a] * sizes[b]
    assert len(met) == (11_664 if PROOF else 162)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_fault_with_every_crash(bench: Bench, profile: str) -> None:
    """Whatever goes wrong, and wherever two lives end, all promises hold in the end."""
    came = Counter[str]()
    for number, (fault, first, second) in enumerate(cases(list(PROFILES).index(profile))):
        plans = PLANS[NAMES[fault]]
        plan = plans[number % len(plans)]
        with World(bench, profile, plan) as world:
            cut = Cut([first])
            try:
                judge(run(world, cut, [second]))
            except AssertionError as error:
                raise AssertionError(f"{profile} {plan}, cut {first}, then {second}") from error
            came[f"{world.of().crashes} crashes"] += 1
    assert came["0 crashes"] < sum(came.values()) / 4  # they never came by there
    assert came["2 crashes"] > 0


# Where a life ends, with an honest service, and where the next ones bring it; by profile.
CRASHES = """
before input     S S S S S S S S
after input      S S S S S S S S
before plan      S S S S S S S S
after plan       S S S S S S S S
before claim     S S S S S S S S
after claim      S S S S S S S S
before pending   S S S S S S S S
after pending    V R V V V V V R
before send      V R V V V V V R
after send       S S S S V V V S
before outcome   S S S S V V V S
before receipt   S S S S S V V S
after receipt    S S S S S V V S
after outcome    S S S S S S S S
"""


@pytest.mark.parametrize("row", CRASHES.strip().splitlines(), ids=lambda row: row[:14].strip())
def test_a_crash_alone(bench: Bench, row: str) -> None:
    """Not announced, it is sent; announced, it is asked for: a receipt, a true no, or a person."""
    side, step, *rests = row.split()
    for profile, rest in zip(PROFILES, rests, strict=True):
        with World(bench, profile) as world:
            story = run(world, Cut([f"{side} {step}"]), [])
            judge(story)
            assert world.of().crashes == 1
            assert (profile, story.last["state"]) == (profile, RESTS[rest])
            assert story.effects == (0 if row.startswith(("after pend", "before send")) else 1)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("step", STEPS)
def test_a_worker_that_is_overtaken(bench: Bench, profile: str, step: str) -> None:
    """One stops for longer than its lease, another takes over, then the first goes on."""
    for number, name in enumerate(NAMES):
        side = ("before", "after")[(number + STEPS.index(step)) % 2]
        if not PROOF and (number + STEPS.index(step)) % 8 != list(PROFILES).index(profile):
            continue
        for plan in PLANS[name] if PROOF else PLANS[name][:1]:
            with World(bench, profile, plan) as world:
                judge(run(world, Cut([f"{side} {step}"], partial(overtake, world)), []))
                stale = [one for one in world.of().stale if one.held.owner == "worker-1"]
                assert len(stale) <= 1  # it has given up then


def overtake(world: World) -> None:
    """The lease is over, and the next worker does what it can."""
    world.clock.at += LEASE + 1.0
    world.live("worker-z")


@pytest.mark.parametrize("step", ["claim", "pending", "send", "receipt"])
def test_a_lease_that_runs_is_left_alone(bench: Bench, step: str) -> None:
    """Whoever comes before it is over claims nothing, even if its owner has died."""
    with World(bench, "standard") as world:
        world.live("worker-1", Cut([f"after {step}"]))
        before, calls = world.row(), world.provider.calls()
        world.clock.at += LEASE - 1.0
        world.live("worker-2")
        assert world.row() == before
        assert world.provider.calls() == calls
        world.clock.at += 1.0
        world.live("worker-2")
        assert world.row() != before


def test_a_hundred_thousand_hours(bench: Bench) -> None:
    """What waits for a person waits: no claim, no question, no send, and no row changes."""
    with World(bench, "standard", mishaps(["1:R12:undone"])) as world:
        world.live("worker-1")
        before, calls = world.rest(), world.provider.calls()
        for number in range(1000):
            world.clock.at += 360_000.0
            world.live(f"worker-{number % 3}")
        assert world.row() == before
        assert world.provider.calls() == calls


class Gone(Exception):
    """What a driver says of a connection that is no more."""

    sqlstate = None


def lose(bench: Bench, number: int, moment: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lose the answer to a commit, before or after it was done; the numbers of all commits."""
    dialect, commits = bench.store.database._engine.dialect, list[int]()
    commit = dialect.do_commit

    def committing(connection: Any) -> None:
        commits.append(len(commits))
        lost = commits[-1] == number
        if not lost or moment == "after":
            commit(connection)
        if lost:
            raise OperationalError("COMMIT", None, Gone())

    monkeypatch.setattr(dialect, "do_commit", committing)
    return commits


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_without_an_answer(
    bench: Bench, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever commit it is: read back, and made once; the life goes on to its receipt."""
    monkeypatch.setattr(databases, "PAUSE", 0.0)
    number, commits = 0, [0]
    while number < len(commits):  # until there is no such commit
        with World(bench, "standard", mishaps(["1:R1"])) as world, monkeypatch.context() as patch:
            commits = lose(bench, number, moment, patch)
            world.live("worker-1")
            world.rest()
            patch.undo()
            world.tell()
            judge(world.story())
            came = [event["kind"] for event in world.story().events]
            assert came == ["planned", "pending", "unknown", "succeeded"]
        number += 1
    assert number >= 6
