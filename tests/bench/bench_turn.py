"""What a turn costs beyond the disk, by python tests/bench/bench_turn.py.

A turn with one tool that does nothing and a scripted model, against the same bytes appended
line by line with write, flush and fsync. Both are done in turn, many times, in one process;
the ratio of the medians counts. It prints figures and targets and never fails: time is no test.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lai import Agent, Arguments, Effect, Session, Tool, scripted

REPEATS = 400
TARGET = 1.3


class Nothing(Arguments):
    """No arguments."""


def agent_on(session: Session, effect: Effect) -> Agent:
    """An agent whose only tool does nothing."""
    tool = Tool(
        name="nothing",
        description="Does nothing.",
        arguments=Nothing,
        run=lambda _arguments, _run: {},
        effect=effect,
    )
    return Agent(session, scripted([[("nothing", {})], "完了"]), [tool], ask=lambda _: "y")


def seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def append_plainly(path: Path, lines: list[bytes]) -> None:
    """The same bytes, as a program without a ledger would make them durable."""
    with path.open("ab") as file:
        for line in lines:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def one_pair(folder: Path, effect: Effect) -> tuple[float, float]:
    """A turn in a new session, and its bytes appended to a file that exists too."""
    with Session.open(folder / "session-a.jsonl") as session:
        agent = agent_on(session, effect)
        turn = seconds(lambda: agent.run("什么也不做"))
    lines = session.path.read_bytes().splitlines(keepends=True)
    plain_path = folder / "plain.jsonl"
    plain_path.touch()
    return turn, seconds(lambda: append_plainly(plain_path, lines))


def fsyncs(folder: Path) -> tuple[int, int]:
    """How many records one turn has, and how often it synchronises."""
    count = 0

    def fsync(descriptor: int) -> None:
        nonlocal count
        count += 1
        os.fsync(descriptor)

    with Session.open(folder / "session-a.jsonl", fsync=fsync) as session:
        agent, count = agent_on(session, Effect.OPAQUE), 0
        agent.run("什么也不做")
        return len(session.records), count


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "count").mkdir()
        records, synced = fsyncs(folder / "count")
        print(f"one turn: {records} records, {synced} fsyncs (target: as many as records)")
        for effect in (Effect.IDEMPOTENT, Effect.OPAQUE):
            pairs = []
            for number in range(REPEATS):
                one = folder / f"{effect}-{number}"
                one.mkdir()
                pairs.append(one_pair(one, effect))
            turn, plain = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
            print(
                f"{effect}: a turn {turn:.3f} ms, the same bytes {plain:.3f} ms, "
                f"ratio {turn / plain:.2f} (target: at most {TARGET}); "
                f"{(turn - plain) / records * 1000:.0f} µs a record beyond the disk's "
                f"{plain / records * 1000:.0f} µs"
            )


if __name__ == "__main__":
    main()
