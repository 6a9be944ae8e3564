"""What strace saw of a life, and what it is to do in the next one.

strace counts only the calls on paths that it was told (``-P``). So a life is traced once for
its paths and once for its calls on them. From then on a call is known by its kind and number,
and each can be killed in front of or refused, in a new folder where the same life is lived.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from disk_lives import Disk, Order

REQUIRED = "LAI_REQUIRE_STRACE"
CALLS = (  # by which a life changes files, finds them and lets them go; "?": not everywhere
    *("openat", "close", "write", "pwrite64", "fsync", "ftruncate", "fchmod", "mkdirat", "?mkdir"),
    *("?rename", "?renameat", "renameat2", "?unlink", "unlinkat"),
)
SESSION = ".agent_state/session-world.jsonl"
WORLD = "."  # the workspace itself, which the world makes and the agent does not
LINE = re.compile(r"^(\w+)\((.*)\) += (.*)$")
OPENED, NAMED = re.compile(r"\d+<(/[^>]*)>"), re.compile(r'"(/[^"]*)"')


class Point(NamedTuple):
    """The N-th call of its kind, from 1, and the path that it is on, from the workspace."""

    call: str
    number: int
    path: str


class Call(NamedTuple):
    """One line of a trace: what was called, on which paths, and how it ended."""

    name: str
    paths: list[str]
    end: str


def require() -> None:
    """Skip where nothing can be traced, or fail where that must not be."""
    why = "strace is not installed"
    if shutil.which("strace"):
        line = ["strace", "-e", "inject=fsync:error=EIO:when=1", "true"]
        tried = subprocess.run(line, capture_output=True, text=True, check=False)
        why = tried.returncode and f"strace does not work here: {tried.stderr.strip()}"
    if why and os.environ.get(REQUIRED) == "1":
        pytest.fail(why)
    if why:
        pytest.skip(why)


def options(folder: Path, within: list[str], inject: str = "") -> tuple[str, ...]:
    """How to trace a life in ``folder``; ``within`` are paths in its workspace, [] for all."""
    only = [part for path in within for part in ("-P", str(folder / "work" / path))]
    injected = ["-e", f"inject={inject}"] if inject else []
    calls = "trace=" + ",".join(CALLS)
    return ("-y", "-s", "0", "-o", str(folder / "log"), "-e", calls, *only, *injected)


def trace(folder: Path) -> list[Call]:
    """The calls of the life in ``folder``, as far as strace wrote them down."""
    found = []
    for line in (folder / "log").read_text("utf-8").splitlines():
        if match := LINE.match(line):
            name, given, end = match.groups()
            found.append(Call(name, _paths(str(folder / "work"), given), end))
    return found


def _paths(root: str, given: str) -> list[str]:
    found = []
    for path in (*OPENED.findall(given), *NAMED.findall(given)):
        plain = path.encode().decode("unicode_escape").encode("latin-1").decode("utf-8")
        if f"{plain}/".startswith(f"{root}/"):
            found.append(os.path.relpath(plain, root))
    return found


def learn(
    disk: Disk, order: Order, prepare: Callable[[Path], object]
) -> tuple[list[str], list[Point]]:
    """The paths and the points of a life to which nothing happens, in prepared folders."""
    within: list[str] = []
    for name in ("for its paths", "for its points"):
        folder = Path(order.folder) / name
        prepare(folder)
        assert disk.live(order.at(folder, options(folder, within))).code == 0
        if not within:
            seen = dict.fromkeys(path for call in trace(folder) for path in call.paths)
            within = [path for path in seen if path != "audit.log"]
    return within, _points(trace(folder))


def _points(calls: list[Call]) -> list[Point]:
    found: list[Point] = []
    for call in calls:
        number = 1 + sum(point.call == call.name for point in found)
        found.append(Point(call.name, number, call.paths[-1] if call.paths else ""))
    return [p for p in found if not (p.call.startswith("mkdir") and p.path == WORLD)]


def acknowledged(folder: Path) -> int:
    """How many bytes of the session file were certain: those of which a fsync had told."""
    certain = written = 0
    for call in trace(folder):
        if call.paths[:1] == [SESSION] and call.name == "write" and call.end.isdigit():
            written += int(call.end)
        elif call.paths[:1] == [SESSION] and call.name == "fsync" and call.end == "0":
            certain = written
    return certain
