"""What a time limit ends, and what it does not."""

import asyncio

import pytest

from lai.course import waiting
from lai.course.waiting import Case, waited

# A case, and what is to happen, in order. The limit is always over before any of it.
HAPPENS: list[tuple[Case, list[str]]] = [
    (waiting.obedient, ["TimeoutError"]),
    (waiting.slow_to_stop, ["cleaned up, four limits later", "TimeoutError"]),
    (
        waiting.deaf,
        ["cancelled, but going on", "effect", "returned 'done', after the limit"],
    ),
    (
        waiting.in_a_thread,
        ["cancelled, while the thread works", "effect, in its thread", "TimeoutError"],
    ),
]


@pytest.mark.parametrize(("case", "happens"), HAPPENS)
def test_wait_for_ends_the_waiting_and_not_always_the_work(case: Case, happens: list[str]) -> None:
    """Each case goes its own way after the limit; only one of them stops without a trace."""
    assert asyncio.run(waited(case)) == happens


def test_every_case_is_told() -> None:
    """No case of the notebook is without a claim here."""
    assert [case for case, _ in HAPPENS] == list(waiting.CASES)
