"""Lives on a disk that may lose its power, and what must hold of whatever it leaves.

A life is run once, undisturbed; the disk is remembered before each of its calls. A power
loss or a kill at one of them is then that disk, what of it survives, and what the world
knew by then: a new life starts from there.
"""

import itertools
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crash_scenarios import ENDS, MOST_ATTEMPTS, OPEN, SURE
from crash_world import World, come_back
from disk import Image
from disk_calls import Call, Disk
from invariants import check
from story import read_lines

from lai import Agent, Budget, Run, Session
from lai.storage import STATE, session_path

JSON = dict[str, Any]
HIDDEN = re.compile(r"(.*/)?\.lai-[0-9a-f]{16}-exec_[0-9a-f]+-[0-9a-f]+\.tmp")


class Moment(NamedTuple):
    """A life just before a call: the disk, what was acknowledged, and what the world knew."""

    call: str
    image: Image
    acknowledged: bytes
    lists: tuple[tuple[Any, ...], ...]


class Noted(Session):
    """A session whose word is kept: what it said it had made durable is remembered outside."""

    world: "PowerWorld"

    def start(self) -> None:
        """What stands there once it is open is what recovery acts on."""
        super().start()
        self.world.acknowledged = self.path.read_bytes()

    def append(self, record: JSON) -> int:
        """Returns once the record is durable, it says."""
        line = super().append(record)
        self.world.acknowledged = self.path.read_bytes()
        return line


@dataclass
class PowerWorld(World):
    """A world on a :class:`Disk`; ``old`` are the files of its workspace before it all began."""

    old: dict[str, str] = field(default_factory=dict)
    acknowledged: bytes = b""
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disk = Disk(self.folder / "disk", self._moment)
        self.root = self.disk.root / "work"
        self.path = session_path(self.root, "world")
        self.lists = (self.deeds, self.said, self.sent, self.earlier)
        self.said.extend(self.scenario.before)
        self.root.mkdir()
        for name, text in self.old.items():
            (self.root / name).write_text(text, "utf-8")
        if self.scenario.start:
            self.path.parent.mkdir()
            self.path.write_bytes(self.scenario.start)
            self.acknowledged = self.scenario.start
        self.disk.adopt()

    def did(self, tool: str, about: str, run: Run) -> JSON:
        """An effect happens; a power loss may come before it or after it."""
        if tool != "run_bash":
            self._remember("the effect")
        result = super().did(tool, about, run)
        self.disk.adopt()  # what a command wrote is the world's; it is not lost
        return result

    def _moment(self, call: Call) -> None:
        if call.persistent:
            self._remember(f"{call.kind} {call.name}")

    def _remember(self, what: str) -> None:
        lists = tuple(map(tuple, self.lists))
        self.moments.append(Moment(what, self.disk.image(), self.acknowledged, lists))

    def back_to(self, moment: Moment, image: Image) -> None:
        """What the world is after that moment, if this is left of the disk."""
        self.disk.restore(image)
        self.acknowledged = moment.acknowledged
        for kept, known in zip(self.lists, moment.lists, strict=True):
            kept[:] = known  # type: ignore[index]
        self.earlier[:] = [moment.acknowledged, self.data]

    def wanted(self) -> dict[str, str]:
        """What each file is to hold that this scenario writes."""
        calls = [
            call for reply in self.scenario.replies if isinstance(reply, list) for call in reply
        ]
        return {about["path"]: about["content"] for tool, about in calls if tool == "write_file"}

    def live(self, life: int = 0) -> list[Moment]:
        """One undisturbed process, the ``life``-th; returns its moments, the end included."""
        self.moments, self.final = [], None
        numbers = itertools.count(1)
        session = Noted(self.path, os.fsync)
        session.world = self
        session.start()
        with session:
            agent = Agent(
                session,
                self.model,
                self.tools(),
                self.ask,
                self.scenario.window and Budget(self.scenario.window),
                new_id=lambda kind: f"{kind}_{life:04x}{next(numbers):028x}",
                now=lambda: 0.0,
            )
            self.final = come_back(self, agent, "continue")
        self.earlier.append(self.data)
        self._remember("the end")
        return self.moments


def survived(world: PowerWorld, image: Image, acknowledged: bytes) -> None:
    """What a power loss left is what the library's word and the world's effects allow."""
    files = image.files()
    data = files.get(str(world.path.relative_to(world.disk.root)), b"")
    assert data.startswith(acknowledged), "acknowledged records are lost"
    ledger = [r for r, _ in read_lines(data) if r["type"] == "tool_execution"]
    started = {r["execution_id"] for r in ledger if r["status"] == "running"}
    for deed in world.deeds:
        assert deed.execution_id in started, f"{deed} happened, and its running did not survive"
    writes = {r["status"] for r in ledger if r["tool_name"] == "write_file"}
    for name, text in world.wanted().items():
        content, old = files.get(f"work/{name}"), world.old.get(name)
        there = None if content is None else content.decode("utf-8", "replace")
        assert there in (old, text), f"{name} is neither old nor new: {there!r}"
        assert there == old or "running" in writes, f"{name} was written before running survived"
        assert there == text or "succeeded" not in writes, f"{name} is lost, and told a success"


def judge(world: PowerWorld) -> None:
    """Once the turn is over: the invariants, how its calls may end, and the files."""
    story = world.story()
    check(story)
    for call in story.calls:
        status, times = str(story.receipt_of(call)["status"]), len(story.deeds_of(call))
        tried = len(list(story.ledger(tool_call_id=call.id, status="running")))
        allowed = ENDS.get(
            (world.policy, call.tool), SURE if tried < MOST_ATTEMPTS else SURE | OPEN
        )
        if call.tool in world.scenario.refused:
            allowed = {("rejected", 0)}
        elif call.tool == "read_file":
            allowed = {("completed", 0), ("failed", 0)}  # failed: there is no file
        elif call.tool == "write_file":  # repeating it is harmless: the files are looked at below
            allowed, times = {(end, 1) for end, _ in allowed}, 1
        assert (status, times) in allowed, (call, status, times)
    files = {
        str(path.relative_to(world.root)): path.read_text("utf-8")
        for path in world.root.rglob("*")
        if path.is_file() and STATE not in path.parts and not HIDDEN.fullmatch(path.name)
    }
    printed = files.pop("audit.log", "").split("\n")[:-1]
    assert len(printed) == sum(deed.tool == "run_bash" for deed in world.deeds)
    ends = {story.receipt_of(call)["status"] for call in story.calls if call.tool == "write_file"}
    wanted = {**world.old, **world.wanted()}
    assert files in ([wanted] if ends == {"succeeded"} else [world.old, wanted])


def settled(world: PowerWorld) -> None:
    """Coming back once more finds nothing to do and writes nothing."""
    data = world.data
    with Session.open(world.path, fsync=os.fsync) as session:
        assert not session.unacknowledged
        assert Agent(session, world.model, world.tools(), world.ask).recover() == []
    assert world.data == data, "recovery of what is recovered wrote something"


@dataclass
class Explorer:
    """Every power loss and kill in a world, and in the lives after it, down to ``depth``.

    Of what follows a first loss only the part ``share`` is looked at, chosen by ``chance``.
    """

    world: PowerWorld
    depth: int = 2
    share: float = 1.0
    first: str = ""  # only what begins like this happens first
    chance: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311
    counts: Counter[str] = field(default_factory=Counter)
    seen: set[object] = field(default_factory=set)

    def explore(self, life: int = 0) -> None:
        """One life, all that may be left of it, and what becomes of that."""
        moments = self.world.live(life)
        self.counts["lives"] += 1
        judge(self.world)
        if life == self.depth:
            settled(self.world)
            return
        for moment in moments:
            for how, image in self._left(moment, life):
                with _told(f"life {life}, before {moment.call}: {how}"):
                    self._next(moment, image, life)

    def _left(self, moment: Moment, life: int) -> Iterator[tuple[str, Image]]:
        choices = [("killed", moment.image), *moment.image.after_power_loss()]
        for how, image in choices:
            if life == 0 and not how.startswith(self.first):
                continue
            if life == 0 or self.share == 1 or self.chance.random() < self.share:
                yield how, image

    def _next(self, moment: Moment, image: Image, life: int) -> None:
        self.counts["states"] += 1
        self.world.back_to(moment, image)
        survived(self.world, image, moment.acknowledged)
        unsaved = any(node.pending for node in image.nodes.values())
        key = (
            life,
            unsaved and id(image),
            image.key(),
            *map(tuple, (self.world.deeds, self.world.said)),
        )
        if key not in self.seen:
            self.seen.add(key)
            self.explore(life + 1)


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Say with an error where it came from."""
    try:
        yield
    except BaseException as error:
        error.add_note(where)
        raise
