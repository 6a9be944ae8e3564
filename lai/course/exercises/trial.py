"""Running a learner's function on the cases, where it can do no harm to the notebook.

Rules that live here:

1. The function runs in a child that is forked from this very process, because a function of
   a notebook cell exists nowhere else, with all that it refers to. What it does to its input,
   to the library or to its own globals is gone with the child.
2. It is judged in the child. Only words come back, one ``Tried`` a case, so that neither an
   object of the learner's nor an error of it ever reaches this process.
3. The parent waits so many seconds for all cases together, then kills the child; the first case
   that has no answer is the one that took too long. If the parent dies, an alarm ends the child.
4. Memory is bounded too (where /proc says how much there is): a loop that collects for ever
   ends in a MemoryError and not with the machine.

A fork copies one thread of several. So the child runs the function and writes to its pipe,
and does nothing else: no import, no output, no tidying up. If it hangs, rule 3 ends it. Nor
does it ask: whoever would type an answer sits before the parent.
"""

import builtins
import contextlib
import copy
import gc
import io
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType
from typing import Any

from lai.course.exercises.model import Case, Raises
from lai.course.exercises.words import named, shown

Function = Callable[..., Any]
_CONTEXT = multiprocessing.get_context("fork")
ROOM = 1 << 30  # bytes that a function may use beyond what the process has already
PRINTED = 400  # characters of what it printed


class End(StrEnum):
    """How a function ended on a case."""

    RIGHT = "right"
    WRONG = "wrong"
    CHANGED = "changed its input"
    RAISED = "raised"
    UNSOLVED = "not written yet"
    HOARDED = "ran out of memory"
    TOO_LONG = "took too long"
    DIED = "ended its process"


@dataclass(frozen=True, slots=True)
class Tried:
    """What a function did with one case, in words; ``said`` is its answer or its error."""

    end: End
    said: str = ""
    printed: str = ""


def tried(function: Function, cases: Sequence[Case], seconds: float) -> list[Tried]:
    """Run a function on the cases, in order. Shorter than ``cases`` where it came to no end."""
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_child, args=(function, cases, theirs, seconds), daemon=True)
    with _ready_to_fork():
        process.start()
    theirs.close()
    try:
        return _answers(ours, len(cases), time.monotonic() + seconds)
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


@contextlib.contextmanager
def _ready_to_fork() -> Iterator[None]:
    """No garbage is collected until the child has set aside what it inherits; no warning."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Python warns of a fork among threads; what the child may do is bounded accordingly.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        if collecting:
            gc.enable()


def _answers(ours: Connection, wanted: int, until: float) -> list[Tried]:
    found: list[Tried] = []
    while len(found) < wanted:
        if not ours.poll(max(until - time.monotonic(), 0)):
            return [*found, Tried(End.TOO_LONG)]
        try:
            found.append(ours.recv())
        except EOFError:
            hoarded = bool(found) and found[-1].end is End.HOARDED  # that is why it stopped
            return found if hoarded else [*found, Tried(End.DIED)]
    return found


def _child(function: Function, cases: Sequence[Case], theirs: Connection, seconds: float) -> None:
    gc.freeze()  # what it inherits, sockets too, is not the child's to tidy up
    gc.enable()
    sys.stdout = sys.stderr = io.StringIO()  # the notebook's own are not for a second process
    builtins.input = _nobody
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(seconds) + 2)
    _bound_memory()
    for case in cases:
        found = _try(function, case)
        theirs.send(found)
        if found.end is End.HOARDED:
            break  # it would do so again, and that takes its time
    os._exit(0)


def _nobody(*_: object) -> str:
    raise EOFError("during a check there is nobody to ask")


def _bound_memory() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        return
    sizes = [line for line in status.read_text().splitlines() if line.startswith("VmData:")]
    limit = int(sizes[0].split()[1]) * 1024 + ROOM
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _try(function: Function, case: Case) -> Tried:
    """One case: run, compare, and put it into words."""
    given, out = copy.deepcopy(case.given), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            answer = function(*given)
            end, said = _judged(answer, given, case)
        except NotImplementedError:
            end, said = End.UNSOLVED, "NotImplementedError"
        except BaseException as error:  # noqa: BLE001 (whatever a function raises is its answer)
            end, said = _raised(error, function, given, case)
    return Tried(end, said, out.getvalue()[:PRINTED])


def _judged(answer: Any, given: tuple[Any, ...], case: Case) -> tuple[End, str]:
    if isinstance(case.expected, Raises) or not _same(answer, case.expected):
        return End.WRONG, shown(answer)
    return _right(given, case)


def _same(answer: Any, expected: Any) -> bool:
    """Whether it is the answer. A tuple is as good as a list of the same things."""
    if isinstance(answer, list | tuple) and isinstance(expected, list | tuple):
        return len(answer) == len(expected) and all(map(_same, answer, expected))
    return bool(answer == expected)


def _right(given: tuple[Any, ...], case: Case) -> tuple[End, str]:
    """Right, if the input is still what it was."""
    if repr(given) == repr(case.given):
        return End.RIGHT, ""
    return End.CHANGED, shown(given if len(given) > 1 else given[0])


def _raised(
    error: BaseException, function: Function, given: tuple[Any, ...], case: Case
) -> tuple[End, str]:
    if isinstance(case.expected, Raises) and isinstance(error, case.expected.error):
        return _right(given, case)
    end = End.HOARDED if isinstance(error, MemoryError) else End.RAISED
    return end, f"{named(error)}{_place(error, function)}"


def _place(error: BaseException, function: Function) -> str:
    """The line of the learner's program on which it went wrong; a library's line helps nobody."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if frame.filename == code.co_filename]
    return f"\nin line {mine[-1].lineno}: {mine[-1].line}" if mine else ""
