"""What the tests of a real disk share: a workspace to begin with, two helpers, and the judge.

The judge believes the files: what the target holds, how many lines the command wrote, what
was sent. What the model was told must agree with them.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Self, TypeVar

from crash_world import FINAL
from disk_lives import Disk, Left, Order
from disk_world import Witness
from invariants import check

Item = TypeVar("Item")
PROOF = os.environ.get("LAI_PROOF") == "1"
WORKERS = 2
TARGET, OLD = "账本.txt", "旧的\u2028"
HIDDEN = f".lai-{hashlib.sha256(TARGET.encode()).hexdigest()[:16]}-exec_"
LEFT = f"{HIDDEN}dead-00000000.tmp"


def furnish(folder: Path) -> None:
    """A workspace with an old file, and what a killed attempt at it left behind."""
    (folder / "work").mkdir(parents=True, exist_ok=True)
    (folder / "work" / TARGET).write_text(OLD, "utf-8")
    (folder / "work" / LEFT).write_text("half of", "utf-8")


class Crew:
    """Helpers that are warm. ``run`` lends one; ``each`` has all of them at work."""

    def __init__(self, *within: str, workers: int = WORKERS) -> None:
        self.free: Queue[Disk] = Queue()
        self.all = [Disk(*within) for _ in range(workers)]
        for disk in self.all:
            self.free.put(disk)

    def run(self, act: Callable[[Disk], Item]) -> Item:
        """Do something with the next helper that is free."""
        disk = self.free.get()
        try:
            return act(disk)
        finally:
            self.free.put(disk)

    def each(
        self, folder: Path, items: Sequence[Item], act: Callable[[Disk, Path, Item], object]
    ) -> None:
        """The same with every item, each in a furnished folder of its own."""

        def one(numbered: tuple[int, Item]) -> None:
            here = folder / str(numbered[0])
            furnish(here)
            try:
                self.run(lambda disk: act(disk, here, numbered[1]))
            except BaseException as error:
                error.add_note(f"with {numbered[1]} in {here}")
                raise

        with ThreadPoolExecutor(len(self.all)) as pool:
            for done, _ in enumerate(pool.map(one, enumerate(items)), start=1):
                if PROOF and (done % 100 == 0 or done == len(items)):
                    print(f"  {done} of {len(items)}", flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for disk in self.all:
            disk.__exit__(*exception)


def sample(items: Iterable[Item], most: int, least: int) -> list[Item]:
    """All of them for the proof, else at most ``most``, spread; of all there are ``least``."""
    found = list(items)
    assert len(found) >= least, f"{len(found)} cases are left of at least {least}"
    return found if PROOF else found[:: -(-len(found) // most)]


def whole(world: Witness) -> bool:
    """Whether the file is the new one; it is all old or all new at any moment."""
    text = (world.root / TARGET).read_text("utf-8")
    new = [given["content"] for tool, given in world.calls if tool == "write_file"]
    assert text in (OLD, *new), f"the file is a mixture: {text[:99]!r}"
    return text in new


def finish(disk: Disk, order: Order, refused: str = "") -> Left:
    """A fresh process, to which nothing happens, ends the turn, and the judge agrees.

    ``refused`` is what the system said to a tool that may have failed by it.
    """
    left = disk.live(order)
    assert left.code == 0
    assert left.told["final"] == FINAL, left.told
    judge(left.world, refused)
    return left


def judge(world: Witness, refused: str = "") -> None:
    """The invariants, and each call told as it was done: once; never, if it failed or was refused.

    Where the person gives no verdict, an opaque call may stay unknown; then it was done once
    or never.
    """
    story = world.story()
    check(story)
    assert [call.tool for call in story.calls] == [tool for tool, _ in world.calls]
    for call in story.calls:
        told = story.receipt_of(call)
        if call.tool == "run_bash":
            times = len(world.audit)
        else:
            times = len(story.deeds_of(call)) if call.tool == "send" else whole(world)
        allowed = {("succeeded", 1)}
        if refused and refused in json.dumps(told):
            allowed |= {("failed", 0)}
        if world.policy == "declines" and story.promises[call.tool] == "opaque":
            allowed |= {("unknown", 0), ("unknown", 1)}
        assert (told["status"], times) in allowed, f"{told}, and it happened {times} times"


def hidden(world: Witness) -> list[str]:
    """The names of what replacing the file has left beside it."""
    return sorted(path.name for path in world.root.iterdir() if path.name.startswith(".lai-"))
