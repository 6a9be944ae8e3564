"""Real processes whose disk fails as told: killed in front of a call, refused one, out of room.

As a script this is the helper: it has imported the library, and for each line on its input
forks a child that lives one life. ``strace`` is attached to the child before it does anything,
and makes a call on the files of its world fail, or kills in front of it. As a module it is the
other end: :class:`Disk` starts the helper and tells what a life left behind.

So that the N-th call is the same call in every life, ids are counted here and not drawn.
"""

import ctypes
import itertools
import json
import os
import secrets
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from crash_world import come_back
from disk_world import Limited, Witness, with_room, world_of

from lai import Agent, LaiError, SessionFailed
from lai.records import message_record

PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)  # where Yama lets a parent trace alone
PR_SET_CHILD_SUBREAPER = 36  # what a killed child had started becomes a child of the helper


@dataclass(frozen=True)
class Order:
    """One life. ``strace`` are the options of its tracer.

    ``appends`` and ``writes`` are the bytes that a session file and a file of ``write_file``
    may have, by RLIMIT_FSIZE.
    """

    folder: str
    name: str
    policy: str = "truthful"
    strace: tuple[str, ...] = ()
    appends: int | None = None
    writes: int | None = None

    def at(self, folder: Path, strace: Sequence[str] = ()) -> "Order":
        """The same in another folder, and traced so."""
        return replace(self, folder=str(folder), strace=tuple(strace))


def _live(order: Order) -> dict[str, Any]:
    """What came of it: the final answer, or the error of the library that ended it."""
    world = world_of(Path(order.folder), order.name, order.policy)
    world.inside = True
    life, count = len(world.earlier), itertools.count()
    secrets.token_hex = lambda size=8: f"{next(count):0{2 * size}x}"
    Limited.most = order.appends
    try:
        with Limited.open(world.path) as session:
            agent = Agent(
                session,
                world.model,
                [with_room(tool, order.writes) for tool in world.tools()],
                world.ask,
                new_id=lambda prefix: f"{prefix}_{life:02}{next(count):030}",
            )
            try:
                return {"final": come_back(world, agent, "continue")}
            except SessionFailed:
                _require_refusal(world, agent)
                raise
    except LaiError as error:
        return {"final": None, "error": type(error).__name__, "says": str(error)}


def _require_refusal(world: Witness, agent: Agent) -> None:
    """After an append that failed nothing is appended, run, asked or sent."""
    world.inside = False
    before = world.save()
    again = message_record({"role": "user", "content": "还在吗"})
    for attempt in (
        agent.continue_turn if agent.turn_open else lambda: agent.run("还在吗"),
        lambda: agent.run("还在吗"),
        lambda: agent.journal.session.append(again),
    ):
        try:
            attempt()
        except SessionFailed:
            continue
        raise AssertionError("it goes on after an append that failed")
    assert world.save() == before


def _child(order: Order, go: int) -> NoReturn:
    ended = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
        os.read(go, 1)
        told = _live(order)
        Path(order.folder, "end.json").write_text(json.dumps(told), "utf-8")
        ended = 0
    except BaseException:  # noqa: BLE001  (a child must not go on as a second helper)
        traceback.print_exc()
    finally:
        os._exit(ended)


def _traced(child: int, options: Sequence[str]) -> "subprocess.Popen[str]":
    line = ["strace", *options, "-p", str(child)]
    tracer = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = []
    for text in tracer.stderr:
        if "attached" in text:
            return tracer
        said.append(text)
    raise OSError("strace: " + "".join(said))


def _one(order: Order) -> int:
    """Fork, attach the tracer, let the child live, and wait for all that it had started."""
    waits, starts = os.pipe()
    child = os.fork()
    if not child:
        _child(order, waits)
    tracer = _traced(child, order.strace) if order.strace else None
    os.write(starts, b"!")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if tracer is not None:
        tracer.communicate()
    os.close(waits)
    os.close(starts)
    with suppress(ChildProcessError):  # a command that lost its agent ends by itself
        while True:
            os.waitpid(-1, 0)
    return code


def _serve() -> NoReturn:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for line in sys.stdin:
        print(_one(Order(**json.loads(line))) if line.strip() else 0, flush=True)
    os._exit(0)  # at once: it holds nothing that must be let go in order


class Left(NamedTuple):
    """How a process ended (-9: killed), what it told, and the world after it."""

    code: int
    told: dict[str, Any]
    world: Witness


class Disk:
    """The helper process, and the children it forks. ``within`` is a command to start it by."""

    def __init__(self, *within: str) -> None:
        paths = (Path(__file__).parents[1], Path(__file__).parent)
        self.helper = subprocess.Popen(
            [*within, sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        """Wait until the helper has started: from then on it has its view of the disk."""
        self._say("")

    def live(self, order: Order, forget: Callable[[], None] | None = None) -> Left:
        """One process, from its start to its end; ``forget`` may then take from its file."""
        end = Path(order.folder, "end.json")
        end.unlink(missing_ok=True)
        code = self._say(json.dumps(asdict(order)))
        if forget:
            forget()
        world = world_of(Path(order.folder), order.name, order.policy)
        world.note(earlier=[world.data.decode("latin-1")])
        told = {} if code else json.loads(end.read_text("utf-8"))
        world.final = told.get("final")
        return Left(code, told, world)

    def _say(self, line: str) -> int:
        assert self.helper.stdin is not None
        assert self.helper.stdout is not None
        self.helper.stdin.write(line + "\n")
        self.helper.stdin.flush()
        return int(self.helper.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.helper.stdin is not None
        self.helper.stdin.close()
        self.helper.wait(10)
        if self.helper.stdout is not None:
            self.helper.stdout.close()


if __name__ == "__main__":
    _serve()
