"""The N-th call on the disk fails, once or from then on, for every N until a run is untouched.

No process that met an error claims what it does not know, nothing that was acknowledged goes,
and the next process, on a disk that works again, finishes the turn.
"""

import errno
import os
from pathlib import Path

import pytest
from crash_scenarios import FILE, SCENARIOS
from disk_calls import Call
from invariants import check
from power import HIDDEN, PowerWorld, survived
from test_power_loss import folder

from lai import LaiError, SessionFailed

__all__ = ["folder"]  # the fixture
OLD = "旧的一行\u2028\n"
MOST = 400  # calls; no story here makes so many


class Error:
    """What befalls a call from the ``first``-th on that it can befall: an error, a short write."""

    def __init__(self, kinds: str, code: int, *, first: int, forever: bool) -> None:
        self.kinds, self.code = kinds.split(), code
        self.first, self.forever = first, forever
        self.count, self.struck, self.at_session = 0, 0, False

    def __call__(self, call: Call) -> int | None:
        """To be asked before each call."""
        if call.kind not in self.kinds:
            return None
        self.count += 1
        if self.count < self.first or (self.struck and not self.forever):
            return None
        self.struck += 1
        self.at_session = self.at_session or call.name.startswith("session-")
        if self.code:
            raise OSError(self.code, os.strerror(self.code))
        return 3  # bytes are taken, and no more


KINDS = {
    "no space": ("create mkdir write", errno.ENOSPC),
    "i/o error": ("write fsync replace ftruncate", errno.EIO),
    "too many files": ("create open", errno.EMFILE),
    "read-only": ("create mkdir replace unlink fchmod", errno.EROFS),
    "bad close": ("close", errno.EIO),
    "short write": ("write", 0),
}
STORIES = ["write", "opaque", "write and send", "keyed"]


def try_once(world: PowerWorld, error: Error) -> None:
    """A process that meets the error. It may end by it, but only in words of the library."""
    effects: list[int] = []

    def ask(call: Call) -> int | None:
        try:
            return error(call)
        finally:
            if error.at_session and not effects:
                effects.append(len(world.deeds))

    world.disk.on_call = ask
    said = ""
    try:
        world.live(0)
    except LaiError as refusal:
        said = str(refusal)
    assert not said or os.strerror(error.code) in said, said
    if effects and error.code:
        assert len(world.deeds) == effects[0], "something ran after the session had failed"


def come_back_to(world: PowerWorld) -> None:
    """The next process, on a good disk, and what must be so at its end."""
    world.disk.on_call = lambda _: None
    world.disk.adopt()
    survived(world, world.disk.image(), world.acknowledged)
    world.live(1)
    story = world.story()
    check(story)
    ends = {call.tool: story.receipt_of(call)["status"] for call in story.calls}
    assert set(ends.values()) <= {"succeeded", "failed", "unknown"}
    there = world.root / FILE["path"]
    if "write_file" in ends:
        text = there.read_text("utf-8")
        assert text in (OLD, FILE["content"])
        assert text == FILE["content"] or ends["write_file"] != "succeeded"
    left = [path.name for path in world.root.iterdir() if path.is_file()]
    assert [name for name in left if not HIDDEN.fullmatch(name)] == [FILE["path"]]


@pytest.mark.parametrize("forever", [False, True], ids=["once", "for ever"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES)
def test_the_nth_call_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, story: str, kind: str, forever: bool
) -> None:
    """Whatever the call: no lie, nothing lost, and the turn can be finished."""
    world = PowerWorld(folder / "w", SCENARIOS[story], old={FILE["path"]: OLD})
    world.disk.install(monkeypatch)
    begin, lists = world.disk.image(), [list(kept) for kept in world.lists]
    for number in range(1, MOST):
        world.disk.restore(begin)
        world.acknowledged = b""
        for kept, known in zip(world.lists, lists, strict=True):
            kept[:] = known  # type: ignore[index]
        error = Error(*KINDS[kind], first=number, forever=forever)
        try_once(world, error)
        if not error.struck:
            assert number > 1, "there is nothing to break"
            return
        come_back_to(world)
    pytest.fail("it never ended")


def test_errors_reach_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this test breaks is really broken: a first write that fails ends the run in words."""
    world = PowerWorld(folder / "w", SCENARIOS["opaque"])
    world.disk.install(monkeypatch)
    error = Error("write", errno.ENOSPC, first=2, forever=False)  # the first is to the lock
    world.disk.on_call = error
    with pytest.raises(SessionFailed, match="No space"):
        world.live(0)
    assert error.at_session
    assert world.deeds == []
