"""Scripted races end the same way each time, on both databases, and count effects outside."""

from pathlib import Path

import pytest
from postgres import query

from lai.course import races
from lai.course.races import NAME, Race, Resource, Rule
from lai.operations.records import State

pytest_plugins = ["postgres"]

SLEEPS = ["A claim", "A cross", "time", "B claim"]
# What each rule of the resource leaves when the sleeper acts last, and when it acts first.
DONE = {Rule.NOTHING: (2, 2), Rule.FENCE: (1, 2), Rule.UNIQUE: (1, 1)}


@pytest.mark.parametrize("first", ["B", "A"])
@pytest.mark.parametrize("rule", Rule)
def test_a_token_orders_and_only_an_id_removes_duplicates(
    url: str, tmp_path: Path, rule: Rule, first: str
) -> None:
    """Fencing refuses the sleeper that comes last, and not the one that comes first."""
    resource = Resource(tmp_path, rule)
    Race(url, resource).run([*SLEEPS, *sorted(["A act", "B act"], reverse=first == "B")])
    assert resource.count() == DONE[rule]["BA".index(first)]


def test_without_a_claim_both_act(url: str, tmp_path: Path) -> None:
    """Who only looks has no right to act, and acts."""
    run = Race(url, Resource(tmp_path, Rule.NOTHING)).run(["A look", "B look", "A act", "B act"])
    assert run.resource.count() == 2
    assert run.left is not None
    assert run.left.state is State.PLANNED


def test_the_sleeper_changes_nothing_and_is_heard(url: str, tmp_path: Path) -> None:
    """The row is the second owner's; what the first had to say is an event."""
    run = Race(url, Resource(tmp_path, Rule.NOTHING)).run([*SLEEPS, "B finish", "A finish"])
    assert run.left is not None
    assert (run.left.state, run.left.fence) == (State.SUCCEEDED, 2)
    kinds = query(url, f"SELECT kind FROM events WHERE operation_id = '{NAME}' ORDER BY number")  # noqa: S608
    assert [kind for (kind,) in kinds] == ["planned", "pending", "succeeded", "late"]


def test_the_window_is_there_apart_and_gone_together(tmp_path: Path) -> None:
    """In two transactions a death in between delivers twice; in one, none does."""
    apart = races.deaths(tmp_path, together=False)
    together = races.deaths(tmp_path, together=True)
    assert [(row["died"], row["deliveries"]) for row in apart] == [
        ("before the effect", 1),
        ("after the effect", 2),
        ("before the record", 2),
        ("after the record", 1),
    ]
    assert [(row["died"], row["deliveries"]) for row in together] == [
        ("before the transaction", 1),
        ("inside, behind the effect", 1),
        ("after the transaction", 1),
    ]
    assert {row["record"] for row in apart + together} == {"✓ succeeded"}
