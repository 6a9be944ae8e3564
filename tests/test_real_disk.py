"""A turn on a real disk: killed in front of any of its calls, and any of them refused.

strace does both, to the calls of a process on the files of its workspace. A push takes a
sample of each table, the proof takes all (``LAI_PROOF=1``). Where there is no strace the tests
are skipped and say why; with ``LAI_REQUIRE_STRACE=1`` they fail instead.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash_world import FINAL
from disk_lives import Disk, Order
from disk_stage import HIDDEN, LEFT, PROOF, Crew, finish, furnish, hidden, sample, whole
from traced import SESSION, Point, acknowledged, learn, options, require, trace

ERRORS = {  # what a call may be refused with
    "openat": ("EIO", "EMFILE", "ENOSPC", "EACCES"),
    "write": ("ENOSPC", "EIO", "EDQUOT"),
    **dict.fromkeys(("fsync", "close"), ("EIO",)),
    **dict.fromkeys(("pwrite64", "ftruncate"), ("ENOSPC", "EIO")),
    **dict.fromkeys(("mkdir", "mkdirat"), ("ENOSPC", "EROFS")),
    **dict.fromkeys(("rename", "renameat", "renameat2"), ("EIO", "EACCES")),
    **dict.fromkeys(("unlink", "unlinkat"), ("EIO", "EACCES")),
    "fchmod": ("EPERM",),
}
Refusal = tuple[Point, str, str]  # a call, the error it gets, and "+" if it does so for ever


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Two warm helpers for all tests."""
    require()
    with Crew() as helpers:
        yield helpers


Learned = tuple[list[str], list[Point]]


@pytest.fixture(scope="module")
def turn(crew: Crew, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """The paths and the points of a turn that writes a file, runs a command and sends."""
    return learned(crew, tmp_path_factory.mktemp("turn"), lambda _disk, _folder: None)


def learned(crew: Crew, folder: Path, before: Callable[[Disk, Path], object]) -> Learned:
    """The paths and the points of the life that comes after ``before``."""

    def with_one(disk: Disk) -> Learned:
        def prepare(here: Path) -> None:
            furnish(here)
            before(disk, here)

        return learn(disk, Order(str(folder), "turn"), prepare)

    return crew.run(with_one)


def die(disk: Disk, folder: Path, within: list[str], at: Point) -> None:
    """A life that is killed in front of that call. The file is all old or all new then."""
    kill = options(folder, within, f"{at.call}:signal=KILL:when={at.number}")
    left = disk.live(Order(str(folder), "turn", strace=kill))
    assert left.code == -9
    assert trace(folder)[-1].end.startswith("?")
    whole(left.world)


def test_a_turn_has_the_calls_that_count(turn: Learned) -> None:
    """What is killed and refused below is the whole way to the disk: no table can become empty."""
    kinds = Counter(point.call for point in turn[1])
    least = {"openat": 20, "close": 20, "write": 17, "fsync": 20, "fchmod": 1, "ftruncate": 1}
    assert {call: min(kinds[call], number) for call, number in least.items()} == least
    assert sum(kinds[call] for call in ("rename", "renameat", "renameat2")) == 1
    assert kinds["unlink"] + kinds["unlinkat"] == 1
    assert kinds.keys() <= ERRORS.keys()
    appends = Counter(point.call for point in turn[1] if point.path == SESSION)
    assert appends["fsync"] == appends["write"] + 1  # and one before anything is believed


def test_a_replacement_is_on_disk_before_it_is_told(turn: Learned) -> None:
    """The new bytes are synchronised before they get the name, and the name before the sweep."""
    steps = [(at.call[:6], at.path) for at in replacing(turn[1]) if at.call != "close"]
    (new,) = {path for _, path in steps if path.startswith(HIDDEN)}
    there = [("write", new), ("fsync", new), ("openat", "."), ("rename", "."), ("fsync", ".")]
    assert steps == [("fchmod", new), *there, ("unlink", ".")]


def replacing(points: list[Point]) -> list[Point]:
    """The calls of a replacement, from the first on its hidden file to the last."""
    (end,) = (n for n, at in enumerate(points) if at.call.startswith("unlink"))
    begin = next(n for n, at in enumerate(points) if at.path.startswith(HIDDEN))
    return points[begin : end + 1]


@pytest.mark.parametrize("policy", ["truthful", "declines"])
def test_killed_in_front_of_each_call(
    crew: Crew, turn: Learned, tmp_path: Path, policy: str
) -> None:
    """Killed at any call, a turn is ended by the next process, and nothing was done twice."""
    within, points = turn

    def act(disk: Disk, folder: Path, at: Point) -> None:
        die(disk, folder, within, at)
        assert not hidden(finish(disk, Order(str(folder), "turn", policy)).world)

    crew.each(tmp_path, sample(points, 8, 85), act)


def test_killed_again_in_front_of_each_call(crew: Crew, turn: Learned, tmp_path: Path) -> None:
    """Killed in the middle of a turn, and in the recovery at any call again, it still ends well."""
    within, points = turn
    (rename,) = (at for at in points if at.call.startswith("rename"))
    firsts = [rename, *(points[3::8] if PROOF else [])]
    for n, first in enumerate(firsts):
        killed_twice(crew, tmp_path / str(n), within, first)


def killed_twice(crew: Crew, here: Path, within: list[str], first: Point) -> None:
    """One place to be killed at first, and every call of the recovery from there."""
    again, seconds = learned(crew, here, lambda disk, folder: die(disk, folder, within, first))

    def act(disk: Disk, folder: Path, second: Point) -> None:
        die(disk, folder, within, first)
        die(disk, folder, again, second)
        assert not hidden(finish(disk, Order(str(folder), "turn")).world)

    crew.each(here, sample(seconds, 6, 12), act)


def refuse(disk: Disk, folder: Path, within: list[str], refusal: Refusal) -> None:
    """One refused call: the turn goes on or stops with a reason, and the next process ends it."""
    at, error, ever = refusal
    why = os.strerror(getattr(errno, error))
    inject = options(folder, within, f"{at.call}:error={error}:when={at.number}{ever}")
    left = disk.live(Order(str(folder), "turn", strace=inject))
    assert left.code == 0, "something else than an error of the library came out"
    assert any("INJECTED" in call.end for call in trace(folder))
    whole(left.world)
    if left.told["final"] is None:
        assert left.told["error"] in ("SessionError", "SessionFailed")
        assert why in left.told["says"]
        assert "open" in left.told["says"]
    else:
        assert left.told["final"] == FINAL
        assert at.path != SESSION or at.call in ("openat", "close")
        assert not [said for said in left.world.said if said.kind == "verdict"], "nothing is open"
    kept = hidden(finish(disk, Order(str(folder), "turn"), why).world)
    assert at.call.startswith("unlink") or not [name for name in kept if name != LEFT], kept


def test_each_call_refused_once(crew: Crew, turn: Learned, tmp_path: Path) -> None:
    """A call that is refused once costs a tool or the process, never a word of the truth."""
    within, points = turn
    refusals = [(at, error, "") for at in points for error in ERRORS[at.call]]
    always = {at for at in points if at.call == "close"} | set(replacing(points))
    others = [one for one in refusals if one[0] not in always]
    chosen = [one for one in refusals if one[0] in always] + sample(others, 12, 150)
    crew.each(tmp_path, chosen, lambda d, f, one: refuse(d, f, within, one))


def test_each_call_refused_for_ever(crew: Crew, turn: Learned, tmp_path: Path) -> None:
    """The same for a disk that takes nothing more from some moment on."""
    within, points = turn
    lasting = [at for at in points if at.call in ("write", "fsync")]
    refusals = [(at, ERRORS[at.call][0], "+") for at in lasting]
    crew.each(tmp_path, sample(refusals, 5, 37), lambda d, f, one: refuse(d, f, within, one))


@pytest.mark.parametrize("lost", [False, True])
def test_a_failed_fsync_of_an_append(
    crew: Crew, turn: Learned, tmp_path: Path, *, lost: bool
) -> None:
    """After it the process writes, asks, runs and tells nothing, whether or not bytes were lost."""
    within, points = turn
    syncs = [at for at in points if at.path == SESSION and at.call == "fsync"]

    def act(disk: Disk, folder: Path, at: Point) -> None:
        inject = options(folder, within, f"fsync:error=EIO:when={at.number}")
        file = folder / "work" / SESSION
        certain: list[bytes] = []

        def forget() -> None:
            data = file.read_bytes()
            certain.append(data[: acknowledged(folder)])
            assert len(data) > len(certain[0]) or at == syncs[0]
            if lost:
                os.truncate(file, len(certain[0]))

        left = disk.live(Order(str(folder), "turn", strace=inject), forget)
        assert left.code == 0
        assert left.told["error"] == ("SessionError" if at == syncs[0] else "SessionFailed")
        after = [call.end for call in trace(folder)].index("-1 EIO (Input/output error) (INJECTED)")
        assert {call.name for call in trace(folder)[after + 1 :]} <= {"openat", "close"}
        ended = finish(disk, Order(str(folder), "turn"))
        assert ended.world.data.startswith(certain[0])

    crew.each(tmp_path, sample(syncs, 5, 16), act)
