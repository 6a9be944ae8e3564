"""The judges of operations notice: each promise is broken in a told story, and says so."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from promises_o import PROMISES, Stale, Story, judge
from simulator import Bench, World

LOST = [{"call": 1, "mishap": "R1"}]


@pytest.fixture(scope="module")
def told() -> Iterator[Story]:
    """An answer was lost, somebody asked, and there is a receipt; all is well."""
    with Bench() as bench, World(bench, "standard", LOST) as world:
        world.live("worker-1")
        world.contradict()
        world.rest()
        world.tell()
        story = world.story()
        judge(story)
        assert [
            row["state"][:4] for row in story.past.rows
        ] == "plan plan pend unkn unkn succ".split()
        yield story


def rows(story: Story, number: int, **changed: Any) -> Story:
    """The story with another row."""
    story.past.rows[number] |= changed
    return story


def arrivals(story: Story, number: int, **changed: Any) -> Story:
    """The story with another request."""
    story.past.arrivals[number] = replace(story.past.arrivals[number], **changed)
    return story


def sent_again(story: Story) -> Story:
    """The story with a second request to act."""
    story.past.arrivals.append(story.posts[0])
    return story


def stale(story: Story, *, moved: bool) -> Story:
    """The story with a change that was refused."""
    held = story.past.rows[-1]
    after = held | {"state": "unknown"} if moved else held
    operation: Any = type("Held", (), {"owner": "worker-9", "fence": 1})
    story.past.stale.append(Stale(operation, held, after))
    return story


def waiting(story: Story, **changed: Any) -> Story:
    """The story in which a person was awaited when somebody asked."""
    return rows(story, 4, state="review_required", **changed)


def past(story: Story, **changed: Any) -> Story:
    """The story with other facts of the past."""
    for name, value in changed.items():
        setattr(story.past, name, value)
    return story


def event(story: Story, **changed: Any) -> Story:
    """The story with another last line of the log."""
    story.events[-1] |= changed
    return story


# Which promise is broken, and how the story is told then.
BROKEN: list[tuple[str, Any]] = [
    ("O1", lambda story: arrivals(story, 0, seen=2)),
    ("O1", lambda story: arrivals(story, 0, key="op-2")),
    ("O1", lambda story: rows(story, 2, sent_at=None)),
    ("O1", sent_again),
    ("O2", sent_again),
    ("O2", lambda story: replace(story, effects=2)),
    ("O3", lambda story: rows(story, -1, input_sha256="0" * 64)),
    ("O3", lambda story: rows(story, 3, idempotency_key="op-2")),
    ("O3", lambda story: arrivals(story, 0, input_sha256="0" * 64)),
    ("O4", lambda story: stale(story, moved=True)),
    ("O4", lambda story: stale(story, moved=False)),  # without its line in the log
    ("O4", lambda story: rows(story, -1, version=9)),
    ("O5", lambda story: past(story, claims=[1, 1])),
    ("O5", lambda story: rows(story, -1, fence=0)),
    ("O5", lambda story: rows(story, 3, owner="worker-9", lease_until=9e9)),
    ("O6", lambda story: rows(story, 1, state="unknown")),
    ("O6", lambda story: rows(story, 3, state="planned")),
    ("O6", lambda story: rows(rows(story, 3, state="review_required"), 4, state="planned")),
    ("O7", lambda story: event(story, kind="rejected")),
    ("O7", lambda story: event(replace(story, effects=0), kind="rejected")),
    ("O8", lambda story: replace(story, anew=1)),
    ("O8", lambda story: arrivals(sent_again(story), -1, at=2e9)),
    ("O9", lambda story: past(story, claims=list(range(1, 30)))),
    ("O9", lambda story: past(story, arrivals=[replace(story.past.arrivals[-1], at=2e9)] * 2)),
    ("O9", lambda story: rows(story, 3, next_query_at=2e9)),
    ("O10", lambda story: rows(story, -1, result_sha256="0" * 64)),
    ("O10", lambda story: rows(story, -1, idempotency_key="op-2")),
    ("O10", lambda story: replace(story, reports={"report-2"})),
    ("O11", waiting),
    ("O11", lambda story: rows(waiting(story), -1, fence=3)),
    ("O12", lambda story: past(story, conflicts=[(0, 1)])),
    ("O12", lambda story: past(story, conflicts=[(1, 0)])),
    ("O13", lambda story: replace(story, messages=[])),
    ("O13", lambda story: replace(story, messages=story.messages * 2)),
    ("O13", lambda story: replace(story, heard=[])),
    ("O13", lambda story: replace(story, heard=story.heard * 2)),
    ("O13", lambda story: rows(story, 3, state="review_required")),
    ("O15", lambda story: replace(story, events=[*story.events, story.events[-1]])),
    ("O15", lambda story: replace(story, events=story.events[:-1])),
    ("O15", lambda story: event(story, kind="rejected")),
]


@pytest.mark.parametrize(
    ("name", "spoil"), BROKEN, ids=lambda value: value if value in PROMISES else ""
)
def test_every_promise_can_be_broken(told: Story, name: str, spoil: Any) -> None:
    """A story in which a promise is broken is noticed by the judge of that promise."""
    PROMISES[name](told)
    story = spoil(copy.deepcopy(told))
    with pytest.raises(AssertionError):
        PROMISES[name](story)
    with pytest.raises(AssertionError, match=name):
        judge(story)


def test_every_promise_is_judged() -> None:
    """O1 to O13 and O15 each have a judge, and each judge is shown to notice."""
    wanted = [f"O{number}" for number in (*range(1, 14), 15)]
    assert list(PROMISES) == wanted
    assert {name for name, _ in BROKEN} == set(wanted)
