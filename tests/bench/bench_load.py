"""What opening a long session costs, by python tests/bench/bench_load.py.

The session has 100,000 records. Opened for chat it is read from its latest compaction on,
about 100 records from its end: that is set against reading and parsing its last 64 KiB. A full
load is set against ``json.loads`` line by line, in time and, in processes of their own, in
memory. Medians of several runs. It prints figures and targets and never fails: time is no test.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_length import LONG, turn
from sums import NOTHING, chained

from lai import Session, decide
from lai.journal import history_of
from lai.records import Record

BEHIND = 98  # records that the compaction kept, in whole turns
TAIL = 65_536
FEW, MANY = 5, 50  # runs
RESUME, LOAD, MEMORY = 10, 1.6, 1.5


def make(path: Path) -> None:
    """A session of so many records whose last one is a compaction."""
    lines, name = list[bytes](), NOTHING
    for number in range(LONG // 7):
        for record in turn(number):
            line, name = chained(record, name)
            lines.append(line)
    first = len(lines) - BEHIND
    compaction: Record = {"type": "compaction", "summary": "总结", "first_kept": first + 1}
    compaction["first_kept_offset"] = sum(map(len, lines[:first]))
    path.write_bytes(b"".join([*lines, chained(compaction, name)[0]]))


def medians(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Seconds that each action takes; they take turns, for a machine is not always as fast."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for action, taken in zip(actions, times, strict=True):
            start = time.perf_counter()
            action()
            taken.append(time.perf_counter() - start)
    return list(map(statistics.median, times))


def resume(path: Path) -> None:
    """Be ready to go on with a session; the disk's share would hide the rest."""
    with Session.open(path, fsync=lambda _: None) as session:
        history = history_of(session)
        assert history.partial
        decide(history, [])


def tail(path: Path) -> list[Record]:
    """The records in the last 64 KiB, read and parsed."""
    with path.open("rb") as file:
        file.seek(-TAIL, 2)
        return [json.loads(line) for line in file.read().split(b"\n")[1:-1]]


def parse(path: Path) -> list[Record]:
    """All records, one line at a time."""
    with path.open("rb") as file:
        return [json.loads(line) for line in file]


def memory_of(what: str, path: Path) -> int:
    """The most bytes that Python held for it at a time; to be called in a new process."""
    tracemalloc.start()
    kept: object = parse(path) if what == "parse" else Session.read(path)
    if isinstance(kept, Session) and what == "history":
        kept = kept, history_of(kept)
    size, most = tracemalloc.get_traced_memory()
    del kept
    return size if what == "parse" else most


def memory(what: str, path: Path) -> int:
    """The same, in a new process."""
    command = [sys.executable, __file__, what, str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "session-long.jsonl"
        make(path)
        print(f"{LONG:,} records, {path.stat().st_size / 1e6:.1f} MB")
        ready, least = medians(MANY, lambda: resume(path), lambda: tail(path))
        print(
            f"resume: {ready * 1e3:.2f} ms; the last 64 KiB: {least * 1e3:.2f} ms; "
            f"ratio {ready / least:.2f} (target: at most {RESUME})"
        )
        parsed, read = medians(FEW, lambda: parse(path), lambda: Session.read(path))
        (fold,) = medians(FEW, partial(history_of, Session.read(path)))
        print(
            f"full load: {read:.3f} s; json.loads: {parsed:.3f} s; "
            f"ratio {read / parsed:.2f} (target: at most {LOAD}); "
            f"with the history {(read + fold) / parsed:.2f}"
        )
        sizes = {what: memory(what, path) for what in ("parse", "read", "history")}
        print(
            f"memory: {sizes['read'] / 1e6:.0f} MB; parsed alone: {sizes['parse'] / 1e6:.0f} MB; "
            f"ratio {sizes['read'] / sizes['parse']:.2f} (target: at most {MEMORY}); "
            f"with the history {sizes['history'] / sizes['parse']:.2f}"
        )


if __name__ == "__main__":
    if sys.argv[1:]:
        print(memory_of(sys.argv[1], Path(sys.argv[2])))
    else:
        main()
