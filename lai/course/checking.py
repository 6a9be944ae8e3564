"""``check``: the library's own cases on a learner's function, and what they say about it.

    check("04.3a", my_move)            what is wrong first, with the records that show it
    check("04.3a", my_move, hint=1)    the same, and a hint
    stub("04.3a"), solution("04.3a")   the program texts

Rules that live here:

1. Nothing is raised, whatever the function does: its error is a part of the report, with the
   line of its own program. A stub is "not solved yet" and no failure. A slip in the call of
   ``check`` itself is told in one sentence.
2. A check that passed or failed is noted in ``progress``; nothing else is. If that cannot be
   written, the report says so and is the same otherwise.
3. A report is plain text and the same in every run: no time, no path, no address. A notebook
   can hold it: half of a character, which UTF-8 has no form for, is written as an escape.

``exercises.trial`` runs the function, and ``exercises.telling`` says what went wrong.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lai.course import progress
from lai.course.exercises import exercise
from lai.course.exercises.model import Exercise
from lai.course.exercises.telling import failure, parameters
from lai.course.exercises.trial import End, tried
from lai.course.look import Code
from lai.records import LaiError

SECONDS, MOST = 5.0, 3600  # for all cases together; they take a few hundredths
UNSOLVED = "not solved yet. Write the function, then run the cell again."
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What a check found; ``state`` is ``passed``, ``failed``, ``not solved yet`` or a refusal."""

    number: str
    state: str
    passed: int
    cases: int
    text: str

    def __repr__(self) -> str:
        return self.text


def check(
    number: str, function: Callable[..., Any], *, hint: int = 0, seconds: float = SECONDS
) -> Report:
    """Run the cases of an exercise on ``function`` and report; ``hint`` adds that hint, from 1.

    Ends after ``seconds``, also if the function does not. Raises nothing.
    """
    try:
        task = exercise(number)
    except LaiError as error:
        return Report(number, "no such exercise", 0, 0, _plain(f"{error}"))
    if problem := _misuse(task, function, hint, seconds):
        return Report(number, "no check", 0, 0, _plain(problem))
    cases = task.cases()
    results = tried(function, cases, seconds)
    right = sum(result.end is End.RIGHT for result in results)
    if results and all(result.end is End.UNSOLVED for result in results):
        state, lines = "not solved yet", [_title(task, UNSOLVED)]
    elif right == len(cases):
        state, lines = "passed", [_title(task, f"passed, all {len(cases)} cases.")]
    else:
        title = _title(task, f"not yet, {right} of {len(cases)} cases pass.")
        state, lines = "failed", [title, "", *failure(task, function, cases, results, seconds)]
    lines += _hint(task, function, hint, state)
    if state != "not solved yet":
        lines += _noted(number, right, len(cases), hint)
    return Report(number, state, right, len(cases), _plain("\n".join(lines)))


def stub(number: str) -> Code:
    """The cell to start an exercise with, and above it what to do, as comments.

    Raises :class:`LaiError` for a number there is not.
    """
    task = "".join(f"# {line}\n" for line in question(number).splitlines())
    return Code(f"{task}{exercise(number).cell}")


def solution(number: str) -> Code:
    """A solution of an exercise. Raises :class:`LaiError` for a number there is not."""
    return Code(exercise(number).solution.strip())


def question(number: str) -> str:
    """An exercise in words. Raises :class:`LaiError` for a number there is not."""
    return exercise(number).question.strip()


def _title(task: Exercise, what: str) -> str:
    return f"{task.number} · {task.title}: {what}"


def _misuse(task: Exercise, function: object, hint: object, seconds: object) -> str:
    """Why there is nothing to check; empty if there is."""
    names = parameters(task)
    if not callable(function):
        kind = type(function).__name__
        return f"check takes the function itself, not a {kind}: check({task.number!r}, {task.name})"
    if not isinstance(hint, int):
        return f"hint is the number of a hint, from 1, and not {hint!r}"
    if not isinstance(seconds, int | float) or not 0 < seconds <= MOST:
        return f"seconds is a number above 0, at most {MOST}, and not {seconds!r}"
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        call = f"{task.name}({', '.join(names)})"
        return f"check calls {call}, and your function cannot be called so: {error}"
    except ValueError:
        pass  # it does not say what it takes; then the first case tells
    return ""


def _plain(text: str) -> str:
    return ADDRESS.sub("", text).encode("utf-8", "backslashreplace").decode("utf-8")


def _hint(task: Exercise, function: Callable[..., Any], hint: int, state: str) -> list[str]:
    """The hint that was asked for, and how to get the next one."""
    steps = task.steps
    if state == "passed":
        return []
    lines = ["", f"Hint {hint} of {len(steps)}:", steps[hint - 1]] if 0 < hint <= len(steps) else []
    if hint < len(steps):
        call = f'check("{task.number}", {_called(function, task)}, hint={max(hint, 0) + 1})'
        return [*lines, "", f"{'The next' if hint else 'A'} hint: {call}"]
    return [*lines, "", f'There are no more hints. A solution: solution("{task.number}")']


def _called(function: Callable[..., Any], task: Exercise) -> str:
    name = str(getattr(function, "__name__", ""))
    return name if name.isidentifier() else task.name


def _noted(number: str, right: int, cases: int, hint: int) -> list[str]:
    problem = progress.note_check(number, right, cases, hint)
    return [f"(Your progress was not saved: {problem})"] if problem else []
