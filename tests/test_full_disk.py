"""No room: an append cut at any byte, a replacement cut at any byte, a disk that is full.

RLIMIT_FSIZE makes the system end a write at a given byte and refuse the next one. A small
tmpfs, mounted where only the helper and its children see it, fills up for real. Where nothing
can be mounted those tests are skipped and say why; with ``LAI_REQUIRE_TMPFS=1`` they fail.
"""

import errno
import hashlib
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from crash_scenarios import FILE
from crash_world import FINAL
from disk_lives import Disk, Left, Order
from disk_stage import LEFT, PROOF, Crew, finish, furnish, hidden, sample, whole
from story import SEAL

REQUIRED = "LAI_REQUIRE_TMPFS"
TOO_LARGE, NO_ROOM = os.strerror(errno.EFBIG), os.strerror(errno.ENOSPC)
PAGE, PAGES = os.sysconf("SC_PAGE_SIZE"), 64


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    """Two warm helpers for all tests."""
    with Crew() as helpers:
        yield helpers


def ends_of(crew: Crew, folder: Path, name: str) -> list[int]:
    """The size of the session file after each append of a life to which nothing happens."""
    furnish(folder)
    left = crew.run(lambda disk: disk.live(Order(str(folder), name)))
    assert left.told["final"] == FINAL
    return [0, *(line.end for line in left.world.story().lines)]


def limits_of(ends: list[int]) -> list[int]:
    """Where to cut: around the end of each record, and for the proof at each byte."""
    if PROOF:
        return list(range(ends[-1]))
    near = {end + step for end in ends for step in (-2, -1, 0, 1)}
    middles = {(end + begin) // 2 for begin, end in pairwise(ends)}
    return sorted(cut for cut in near | middles if 0 <= cut < ends[-1])


def stopped(left: Left, size: int) -> bytes:
    """The life ended at an append that the system cut at ``size``; returns what is there."""
    assert left.code == 0
    assert left.told["error"] == "SessionFailed"
    assert TOO_LARGE in left.told["says"]
    assert "opened again" in left.told["says"]
    assert len(left.world.data) == size
    return left.world.data


def require_mended(torn: bytes, data: bytes) -> None:
    """What was torn stands there as it was: ended if it was a record, else sealed and told of."""
    assert data.startswith(torn)
    begin = torn.rfind(b"\n") + 1
    tail, rest = torn[begin:], data[len(torn) :]
    if not tail:
        return
    try:
        json.loads(tail)
    except ValueError:
        assert rest.startswith(SEAL + b"\n")
        repair = json.loads(rest.split(b"\n")[1])
        assert repair["type"] == "repair"
        assert (repair["offset"], repair["bytes"]) == (begin, len(tail))
        assert repair["line"] == 1 + torn.count(b"\n")
        assert repair["sha256"] == hashlib.sha256(tail).hexdigest()
    else:
        assert rest.startswith(b"\n")


@pytest.mark.parametrize(("name", "most", "least"), [("send", 30, 34), ("turn", 20, 70)])
def test_an_append_cut_at_any_byte(
    crew: Crew, tmp_path: Path, name: str, most: int, least: int
) -> None:
    """An append that the system cuts is told of, mended by the next process, and done once."""
    cuts = limits_of(ends_of(crew, tmp_path / "whole", name))

    def act(disk: Disk, folder: Path, cut: int) -> None:
        order = Order(str(folder), name)
        torn = stopped(disk.live(Order(str(folder), name, appends=cut)), cut)
        require_mended(torn, finish(disk, order).world.data)

    if PROOF and name == "turn":
        cuts = cuts[::7]
    crew.each(tmp_path, sample(cuts, most, least), act)


def test_mending_cut_at_any_byte(crew: Crew, tmp_path: Path) -> None:
    """The mending of a torn tail may be torn as well, and the mending of that."""
    ends = ends_of(crew, tmp_path / "whole", "send")
    cuts = range(ends[3] + 1, ends[4] - 1, 40)
    steps = [(cut, more) for cut in cuts for more in range(1, 160, 3 if PROOF else 9)]

    def act(disk: Disk, folder: Path, step: tuple[int, int]) -> None:
        cut, more = step
        first = stopped(disk.live(Order(str(folder), "send", appends=cut)), cut)
        second = disk.live(Order(str(folder), "send", appends=cut + more))
        torn = stopped(second, cut + more)
        assert torn.startswith(first)
        ended = finish(disk, Order(str(folder), "send")).world.data
        require_mended(torn, ended)

    crew.each(tmp_path, sample(steps, 20, 80), act)


def test_a_replacement_cut_at_any_byte(crew: Crew, tmp_path: Path) -> None:
    """A file that does not fit stays the old one, and nothing half lies beside it."""
    size = len(str(FILE["content"]).encode())

    def act(disk: Disk, folder: Path, room: int) -> None:
        left = disk.live(Order(str(folder), "write", writes=room))
        assert left.told["final"] == FINAL
        (call,) = left.world.story().calls
        told = left.world.story().receipt_of(call)
        assert told["status"] == ("succeeded" if room == size else "failed")
        assert whole(left.world) == (room == size)
        assert hidden(left.world) == ([] if room == size else [LEFT])
        assert room == size or f"{TOO_LARGE}; nothing was written" in told["message"]
        finish(disk, Order(str(folder), "write"), TOO_LARGE)

    crew.each(tmp_path, sample(range(size + 1), size + 1, 17), act)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Crew, Path]]:
    """A helper that sees a small tmpfs, and the way to the same files from here."""
    point = tmp_path_factory.mktemp("tmpfs")
    mount = f'mount -t tmpfs -o size={PAGES * PAGE} none "$0"'
    said = "unshare is not installed"
    for flags in ("-m", "-Urm") if shutil.which("unshare") else ():
        within = ["unshare", flags, "sh", "-c", f'{mount} && exec "$@"', str(point)]
        tried = subprocess.run([*within, "true"], capture_output=True, text=True, check=False)
        said = f"nothing can be mounted here: {tried.stderr.strip()}"
        if not tried.returncode:
            with Crew(*within, workers=1) as crew:
                crew.run(lambda disk: disk.ready())
                yield crew, Path(f"/proc/{crew.all[0].helper.pid}/root{point}")
            return
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(said)
    pytest.skip(said)


def fill(place: Path, pages: int) -> Path:
    """Leave so many pages free, by a file that can be removed again."""
    filler = place / "filler"
    there = os.statvfs(place)
    filler.write_bytes(b"-" * (there.f_bavail * there.f_frsize - pages * PAGE))
    assert os.statvfs(place).f_bavail * there.f_frsize == pages * PAGE
    return filler


def came_to(left: Left) -> str:
    """How far a life came on a disk that was filling up: an error, a failed tool, or its end."""
    assert left.code == 0
    if left.told["final"] is None:
        assert NO_ROOM in left.told["says"]
        assert "opened again" in left.told["says"] or "has room" in left.told["says"]
        return str(left.told["error"])
    told = [receipt.result for receipt in left.world.story().receipts]
    failed = [one for one in told if one["status"] == "failed"]
    assert all(NO_ROOM in json.dumps(one) for one in failed)
    return "a failed tool" if failed else "its end"


def live_in_room(crew: Crew, place: Path, folder: Path, pages: int) -> str:
    """A life with so many pages free, how far it came, and the next one, with room again."""
    place.mkdir()
    folder.mkdir()
    (folder / "work").symlink_to(place)
    furnish(folder)
    filler, order = fill(place, pages), Order(str(folder), "large turn")
    left = crew.run(lambda disk: disk.live(order))
    whole(left.world)
    filler.unlink()
    crew.run(lambda disk: finish(disk, order, NO_ROOM))
    shutil.rmtree(place)
    return came_to(left)


def test_a_disk_that_fills_up(mounted: tuple[Crew, Path], tmp_path: Path) -> None:
    """Full at any moment, it says so and what to do; with room again the turn ends, done once."""
    crew, place = mounted
    free = range(24)
    ways = [live_in_room(crew, place / str(n), tmp_path / str(n), n) for n in free]
    assert Counter(ways)["SessionFailed"] >= 3
    assert ways[0] == "SessionError"
    assert ways[-1] == "its end"
