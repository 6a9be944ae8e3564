"""A session of a million records, by python tests/bench/bench_scale.py [RECORDS ...].

At 10,000, 100,000 and 1,000,000 records: what it takes to read all, to verify, and to open it
for going on. Each runs in a process of its own. Seconds are printed; bytes decide, since they
are the same everywhere: the memory for a record, and what is read of the file to go on, may
not grow with the length of the session. It ends with 1 if one does.
"""

import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_length import turn
from sums import NOTHING, chained

from lai import Session, decide
from lai.journal import history_of
from lai.report import flaws

SIZES = (10_000, 100_000, 1_000_000)
KEPT = 98  # records behind the place from which a session goes on, in whole turns
GROWTH = 1.25  # how much more memory a record may take in a session ten times as long


def make(path: Path, size: int) -> None:
    """A session of about that many records; the last is a compaction."""
    turns, offset, name, line = size // 7, 0, NOTHING, 0
    with path.open("wb") as file:
        for number in range(turns):
            for record in turn(number):
                data, name = chained(record, name)
                line += 1
                if line == turns * 7 - KEPT + 1:
                    first, begin = line, offset
                offset += file.write(data)
        record = {"type": "compaction", "summary": "总结", "first_kept": first}
        file.write(chained({**record, "first_kept_offset": begin}, name)[0])


def read(path: Path) -> object:
    """All records."""
    return Session.read(path)


def verify(path: Path) -> object:
    """All records, both readings, every rule."""
    session = Session.read(path)
    found = flaws(session)
    assert found == [], found[:3]
    return session


def resume(path: Path) -> object:
    """Ready to go on."""
    session = Session.open(path, fsync=lambda _: None)
    history = history_of(session)
    assert history.partial
    decide(history, [])
    return session, history


WAYS: dict[str, Callable[[Path], object]] = {"read": read, "verify": verify, "resume": resume}


def measure(way: str, path: Path) -> None:
    """Print seconds, then the most bytes that Python held, measured in a second run."""
    start = time.perf_counter()
    kept = WAYS[way](path)
    seconds = time.perf_counter() - start
    if isinstance(kept, tuple):
        kept[0].close()
    del kept
    tracemalloc.start()
    again = WAYS[way](path)  # noqa: F841 (kept, so that it counts)
    print(json.dumps({"seconds": seconds, "bytes": tracemalloc.get_traced_memory()[1]}))


def measured(way: str, path: Path) -> dict[str, float]:
    """The same, from a process of its own."""
    command = [sys.executable, __file__, way, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main(sizes: list[int]) -> int:
    """Print the table; 1 if something grows that must not."""
    found: dict[str, list[tuple[int, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / "session-长.jsonl"
            make(path, size)
            print(f"{size:9,} records, {path.stat().st_size / 2**20:6.1f} MiB", flush=True)
            for way in WAYS:
                one = measured(way, path)
                found[way].append((size, one["bytes"]))
                each = one["seconds"] / size * 1e6
                print(
                    f"  {way:7} {one['seconds']:8.3f} s ({each:7.2f} us a record)"
                    f" {one['bytes'] / 2**20:8.1f} MiB ({one['bytes'] / size:7.0f} bytes a record)",
                    flush=True,
                )
    return max(_grows(way, found[way]) for way in WAYS)


def _grows(way: str, found: list[tuple[int, float]]) -> int:
    (small, least), (large, most) = found[0], found[-1]
    share = most / least if way == "resume" else (most / large) / (least / small)
    print(f"{way}: from {small:,} to {large:,} records {share:.2f} times the memory", end=" ")
    print("in all" if way == "resume" else "a record", f"(at most {GROWTH})")
    return int(share > GROWTH)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        measure(sys.argv[1], Path(sys.argv[2]))
    else:
        sys.exit(main([int(size) for size in sys.argv[1:]] or list(SIZES)))
