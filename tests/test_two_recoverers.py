"""A second process comes back to the same session at every call that the first one makes.

Where the lock holds, it is refused or there is nothing left for the first. Where a file
system lets both have it, whoever comes second to write notices, or the file shows it; no
effect happens twice in either case.
"""

from collections.abc import Callable
from pathlib import Path

import filelock
import pytest
from crash_scenarios import FILE, SCENARIOS
from disk_calls import Call
from invariants import check
from power import PowerWorld, judge
from test_power_loss import folder

from lai import LaiError, Session, SessionFailed, SessionLocked

__all__ = ["folder"]  # the fixture
STORIES = ["write", "opaque", "queryable", "keyed", "write and send", "published scene"]
MOST = 200  # calls; no story here makes so many


class Second:
    """Another process, which does all it can just before the ``number``-th call of the first."""

    def __init__(self, world: PowerWorld, number: int) -> None:
        self.world, self.number, self.count = world, number, 0
        self.outcome: object = None

    def __call__(self, call: Call) -> None:
        """To be asked before each call of the first."""
        del call
        self.count += 1
        if self.count != self.number:
            return
        before, final = self.world.data, self.world.final
        try:
            self.world.live(1)
            self.outcome = "done"
        except LaiError as refusal:  # locked, or the first one is in the middle of a record
            self.outcome, self.world.final = refusal, final
            assert self.world.data == before


def interleaved(world: PowerWorld, judged: Callable[[Second], None]) -> list[object]:
    """Both of them, the second at every call of the first; what became of the second."""
    begin, lists = world.disk.image(), [list(kept) for kept in world.lists]
    seen: list[object] = []
    for number in range(1, MOST):
        world.disk.restore(begin)
        for kept, known in zip(world.lists, lists, strict=True):
            kept[:] = known  # type: ignore[index]
        world.disk.on_call = second = Second(world, number)
        try:
            world.live(0)
        except SessionFailed:  # somebody else wrote to its file
            assert second.outcome == "done"
        world.disk.on_call = lambda _: None
        if second.count < number:
            return seen
        seen.append(second.outcome)
        judged(second)
    raise AssertionError("it never ended")


@pytest.mark.parametrize("story", STORIES)
def test_the_lock_lets_one_in(folder: Path, monkeypatch: pytest.MonkeyPatch, story: str) -> None:
    """The second is refused without a byte, or was first; all effects are as with one alone."""
    world = PowerWorld(folder / "w", SCENARIOS[story])
    world.disk.install(monkeypatch)
    seen = interleaved(world, lambda _: judge(world))
    assert {type(outcome) for outcome in seen} == {str, SessionLocked}
    assert sum(isinstance(outcome, SessionLocked) for outcome in seen) > 20


@pytest.mark.parametrize("story", STORIES)
def test_a_lock_that_means_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, story: str
) -> None:
    """As on some network folders: no effect happens twice, and nothing is wrong unseen."""
    world = PowerWorld(folder / "w", SCENARIOS[story])
    world.disk.install(monkeypatch)
    monkeypatch.setattr(filelock, "lock_descriptor", lambda *_, **__: True)
    loud = 0

    def judged(second: Second) -> None:
        nonlocal loud
        assert second.outcome is not None
        acted = [deed.tool for deed in world.deeds if deed.tool != "write_file"]
        assert len(acted) == len(set(acted)), "an effect happened twice"
        text = world.root / FILE["path"]
        assert not text.exists() or text.read_text("utf-8") == FILE["content"]
        damaged = bool(Session.read(world.path).unacknowledged)
        loud += damaged
        if not damaged:
            check(world.story(), ended=False)

    seen = interleaved(world, judged)
    assert seen.count("done") > 20
    assert loud
