"""Somebody swaps folders and files for links all the time: the file tools never get out.

Threads and a process of its own exchange what is honest for what leads outside while the real
tools run. A reader and a writer that check first and open by name, written here, do get out:
that shows that the race is a race. A push runs for about two seconds in all; with
``LAI_PROOF=1`` each race runs for thirty.
"""

import ctypes
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from test_attacks import tree

from lai import Run, Tool, ToolError, Unconfirmed, workspace_tools

SECONDS = 30.0 if os.environ.get("LAI_PROOF") == "1" else 0.5
TRIES = 40_000  # of the naive reader, before it is given up
MARKER = "MARKER 外面的秘密"
PAIRS = {"d": "d.other", "f.txt": "f.other", "deep/a": "deep/b"}  # what is exchanged for what
# One call of the system puts each in the place of the other: no moment without either.
SWAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
pairs = [pair.split("=") for pair in sys.argv[2:]]
os.chdir(sys.argv[1])
print("ready", flush=True)
while True:
    for a, b in pairs:
        if libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2):
            os.write(2, b"no exchange"); os._exit(1)
"""


class Yard:
    """A workspace in which honest things and links change places, and what is outside."""

    def __init__(self, folder: Path) -> None:
        self.root, self.out = folder / "ws", folder / "out"
        for made in (self.root / "d/sub", self.root / "deep/a", self.out / "sub", self.out / "a"):
            made.mkdir(parents=True)
        for inside in ("d/f.txt", "f.txt", "deep/a/f.txt", "d/sub/f.txt"):
            (self.root / inside).write_text("里")
        for outside in ("f.txt", "sub/f.txt", "a/f.txt"):
            (self.out / outside).write_text(MARKER)
        (self.root / "d.other").symlink_to(self.out)
        (self.root / "f.other").symlink_to(self.out / "f.txt")
        (self.root / "deep/b").symlink_to("../../out/a")
        self.before = tree(self.out)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def exchange() -> Callable[[str, str], int] | None:
    """``renameat2`` that exchanges two names; None where the system has none."""
    with suppress(AttributeError, OSError):
        call = ctypes.CDLL(None, use_errno=True).renameat2
        return lambda a, b: call(-100, os.fsencode(a), -100, os.fsencode(b), 2)
    return None


def renames(a: str, b: str) -> int:
    """The same in three renames, with gaps between them."""
    aside = f"{a}.{uuid.uuid4().hex[:6]}"
    with suppress(OSError):
        for old, new in ((a, aside), (b, a), (aside, b)):
            Path(old).rename(new)
    return 0


@contextmanager
def thread(yard: Yard, swap: Callable[[str, str], int]) -> Iterator[None]:
    """A thread that swaps until the end."""
    stop = threading.Event()
    places = [(str(yard.root / a), str(yard.root / b)) for a, b in PAIRS.items()]

    def work() -> None:
        while not stop.is_set():
            for a, b in places:
                swap(a, b)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


@contextmanager
def process(yard: Yard) -> Iterator[None]:
    """A process that swaps until it is killed: no lock of this interpreter slows it."""
    pairs = [f"{a}={b}" for a, b in PAIRS.items()]
    command = [sys.executable, "-c", SWAPPER, str(yard.root), *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout
        try:
            assert swapper.stdout.readline() == b"ready\n"
            yield
            assert swapper.poll() is None, "the exchange ended by itself"
        finally:
            swapper.kill()


READ = ["d/f.txt", "f.txt", "deep/a/f.txt", "d/sub/f.txt"]
WRITE = ["d/new.txt", "d/f.txt", "f.txt", "deep/a/made/new.txt", "d/sub/f.txt", "deep/a/f.txt"]


def act(tool: Tool, path: str) -> str:
    """One call as an agent makes it; what was read, or a word for how it went."""
    arguments = {"path": path} if tool.name == "read_file" else {"path": path, "content": "新"}
    try:
        shown = tool.check(arguments)
        base = frozenset({tool.version(arguments)}) if tool.version else frozenset()
        result = tool.run(arguments, Run(f"exec_{uuid.uuid4().hex}", "k", base))
    except (ToolError, Unconfirmed) as error:
        return f"refused {error} {error.result}"
    return f"done {shown} {result}"


def storm(yard: Yard) -> dict[str, int]:
    """Read and write while the swapping goes on; how often it went well and was refused."""
    read_file, write_file, _ = workspace_tools(yard.root)
    counted = {"done": 0, "refused": 0}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for tool, paths in ((read_file, READ), (write_file, WRITE)):
            for path in paths:
                told = act(tool, path)
                assert MARKER not in told
                counted[told.split()[0]] += 1
    return counted


def untouched(yard: Yard) -> None:
    """Nothing outside has changed, and no hidden file is left inside."""
    assert tree(yard.out) == yard.before
    assert not list(yard.root.rglob(".lai-*"))


def swappers() -> list[str]:
    """The ways of swapping that this system has."""
    return ["thread that exchanges", "process that exchanges", "thread that renames"]


@pytest.mark.parametrize("way", swappers())
def test_no_call_gets_out_of_a_workspace_that_changes_under_it(yard: Yard, way: str) -> None:
    """Reads see only what is inside, writes land only there, and both happen as well as fail."""
    swap = exchange()
    if swap is None and "exchange" in way:
        pytest.skip("this system exchanges no names")
    swapping = process(yard) if way.startswith("process") else thread(yard, swap or renames)
    with swapping if "renames" not in way else thread(yard, renames):
        counted = storm(yard)
    untouched(yard)
    assert min(counted.values()) > 0, counted


# --- the race is a race


def naive_read(root: Path, path: str) -> str:
    """Check where the path leads, then open it by name."""
    wanted = root / path
    if not wanted.resolve().is_relative_to(root) or wanted.is_symlink():
        return ""
    return wanted.read_text("utf-8")


def naive_write(root: Path, path: str) -> None:
    """The same for writing."""
    wanted = root / path
    if wanted.parent.resolve().is_relative_to(root):
        wanted.write_text("新")


def test_whoever_checks_and_then_opens_by_name_gets_out(yard: Yard) -> None:
    """Under the same swapping a naive reader reads the secret and a naive writer writes outside."""
    swap = exchange()
    if swap is None:
        pytest.skip("this system exchanges no names")
    read = wrote = False
    with process(yard):
        for _ in range(TRIES):
            with suppress(OSError):
                read = read or MARKER in naive_read(yard.root.resolve(), "d/sub/f.txt")
            with suppress(OSError):
                naive_write(yard.root.resolve(), "d/naive.txt")
            wrote = (yard.out / "naive.txt").exists()
            if read and wrote:
                break
    if not (read and wrote):
        pytest.skip(f"{TRIES} tries hit no gap on this machine: read {read}, wrote {wrote}")
    assert tree(yard.out) != yard.before
