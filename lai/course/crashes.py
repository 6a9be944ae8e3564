"""Crash runs: the real agent, killed at every point, started again, and judged from outside.

    python -m lai.course.crashes [--tool NAME ...] [--twice NAME ...] [--json FILE]

Without a name, a run of every tool is killed at each of its points; ``--twice`` kills the
recovery as well, at each point of that. The command ends with 1 if a promise was broken.

Rules that live here:

1. What is killed where, and how it is judged, is said in ``deaths``; here the runs are
   made, drawn up as tables, and written down for machines.
2. The naive agent runs too. It is a control of the judge: if it broke nothing where an
   outcome was open, the judge is blind, and the command fails.
3. The same runs give the same bytes. How long they took is told by the progress bar alone.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from lai.course.child import run_child
from lai.course.deaths import EVERY, finish, gap, kill, not_killed, points, prepare
from lai.course.matrix import Matrix
from lai.course.place import fresh, workspace_of
from lai.course.worlds import WORLDS
from lai.records import Record
from lai.session import Session

T = TypeVar("T")
__all__ = ["Matrix", "gap", "main", "matrix", "points", "twice"]


def matrix(tools: Iterable[str] = tuple(WORLDS), at: Iterable[str] | None = None) -> Matrix:
    """Kill a run of each tool at each of its points, or at those in ``at``; start it again.

    The points of a tool are ``points(tool)``; one that it does not have is passed over.
    Raises ValueError, with nobody killed, for a point that no tool has.
    """
    wanted, folder = set(_known(at, EVERY)), fresh()
    runs = [(tool, point) for tool in tools for point in points(tool) if point in wanted]
    deaths = []
    for number, (tool, point) in enumerate(_progress(runs)):
        path = prepare(folder / str(number), tool)
        deaths.append(finish(tool, path, point, wrong=kill(tool, path, point)))
    return Matrix(tuple(deaths))


def twice(tool: str, at: Iterable[str] | None = None, again: Iterable[str] | None = None) -> Matrix:
    """Kill a run at its points (or those in ``at``), and its recovery at each point of that.

    ``again`` keeps some of the latter: "after unknown" is the point after that record.
    Raises ValueError, with nobody killed, for a first point that the tool does not have.
    """
    folder, deaths = fresh(), []
    firsts = _known(at, points(tool))
    for number, first in enumerate(_progress(firsts)):
        here = folder / str(number)
        path = prepare(here / "first", tool)
        wrong = kill(tool, path, first)
        for second, (label, raw) in enumerate(_recovery(path, here / "whole", tool)):
            if again is None or label in again:
                copy = _copy(path, here / str(second))
                ended = run_child(copy, at=second, world=tool)
                found = (*wrong, *not_killed(ended, raw))
                deaths.append(finish(tool, copy, first, label, found))
    return Matrix(tuple(deaths))


def _known(chosen: Iterable[str] | None, names: Sequence[str]) -> list[str]:
    kept = list(names if chosen is None else chosen)
    strange = [name for name in kept if name not in names]
    if strange:
        raise ValueError(f"no such point: {', '.join(strange)}; there are: {', '.join(names)}")
    return kept


def _recovery(path: Path, folder: Path, tool: str) -> list[tuple[str, str]]:
    """The points of a recovery, by letting a copy live: labels, and names in ``faults``."""
    copy = _copy(path, folder)
    before = len(Session.read(copy).records)
    ended = run_child(copy, world=tool)
    written = iter(Session.read(copy).records[before:])
    found: dict[str, str] = {}
    what = ""
    for raw in ended.points:
        moment, _, name = raw.partition(" ")
        if moment == "before":
            what = _name(next(written, {})) if name == "append" else name.partition(" of ")[0]
        label = f"{moment} {what}"
        found[label if label not in found else f"{label} again"] = raw
    return list(found.items())


def _name(record: Record) -> str:
    """A record as the name of a step."""
    match record:
        case {"type": "message", "message": {"role": "assistant", "tool_calls": [_, *_]}}:
            return "tool call"
        case {"type": "message", "message": {"role": role}}:
            return {"assistant": "final answer", "tool": "receipt"}.get(role, "user message")
        case {"status": status}:
            return str(status)
    return {"resolution": "verdict", "repair": "seal"}.get(record.get("type", ""), "record")


def _copy(path: Path, folder: Path) -> Path:
    """The session in a copy of its workspace."""
    root = workspace_of(path)
    shutil.copytree(root, folder)
    return folder / path.relative_to(root)


def _progress(runs: Sequence[T]) -> Iterable[T]:
    """The runs, with a bar for whoever watches; with nobody there, none."""
    from tqdm.auto import tqdm

    bar: Iterable[T] = tqdm(
        runs, desc="kills", leave=False, mininterval=0.5, disable="LAI_ANSWER" in os.environ
    )
    return bar


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, print it, and write it down; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m lai.course.crashes")
    names = ", ".join(WORLDS)
    options = ("--tool", f"one of {names}"), ("--twice", "kill its recovery too")
    for option, what in options:
        parser.add_argument(
            option, help=what, choices=tuple(WORLDS), action="append", metavar="NAME", default=[]
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run to FILE")
    chosen = parser.parse_args(arguments)
    tools = chosen.tool or ([] if chosen.twice else list(WORLDS))
    deaths = matrix(tools).deaths
    for tool in chosen.twice:
        deaths += twice(tool).deaths
    done = Matrix(deaths)
    if chosen.json:
        chosen.json.write_text(done.json(), encoding="utf-8", newline="")
    print(done)
    for death in done.broken:
        print(f"BROKEN: {death}", file=sys.stderr)
    if done.blind:
        print("BLIND: the naive agent broke nothing, so this proves nothing", file=sys.stderr)
    return int(bool(done.broken) or done.blind)


if __name__ == "__main__":
    sys.exit(main())
