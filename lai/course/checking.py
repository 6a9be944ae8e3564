"""``check``: the library's own cases on a learner's function, and what they say about it.

    check("04.3a", my_move)            what is wrong first, with the records that show it
    check("04.3a", my_move, hint=1)    the same, and a hint
    stub("04.3a"), solution("04.3a")   the program texts

Rules that live here:

1. A report is one sentence about the rule that broke and one case that shows it: the first of
   the written cases, which go from simple to hard, else the shortest generated one.
2. Nothing is raised, whatever the function does: its error is a part of the report, with the
   line of its own program. A stub is "not solved yet" and no failure.
3. A check that passed or failed is noted in ``progress``; a stub is not. If that cannot be
   written, the report says so and is the same otherwise.
4. A report is plain text and the same in every run: no time, no path, no address.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lai.course import progress
from lai.course.exercises import exercise
from lai.course.exercises.model import READS, Case, Exercise
from lai.course.exercises.trial import End, Tried, tried
from lai.course.exercises.words import shown
from lai.course.look import Code
from lai.records import LaiError

SECONDS = 5.0  # for all cases together; they take a few hundredths
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
        return Report(number, "no such exercise", 0, 0, f"{error}")
    if not callable(function):
        kind = type(function).__name__
        text = f"check takes the function itself, not a {kind}: check({number!r}, {task.name})"
        return Report(number, "no function", 0, 0, text)
    cases = task.cases()
    results = tried(function, cases, seconds)
    right = sum(result.end is End.RIGHT for result in results)
    if results and all(result.end is End.UNSOLVED for result in results):
        state, lines = "not solved yet", _unsolved(task)
    elif right == len(cases):
        state, lines = "passed", [_title(task, f"passed, all {len(cases)} cases.")]
    else:
        state, lines = "failed", _failed(task, cases, results, seconds)
    lines += _hint(task, function, hint, state)
    if state != "not solved yet":
        lines += _noted(number, right, len(cases), hint)
    text = ADDRESS.sub("", "\n".join(lines))
    return Report(number, state, right, len(cases), text)


def stub(number: str) -> Code:
    """The cell to start an exercise with. Raises :class:`LaiError` for a number there is not."""
    return Code(exercise(number).cell)


def solution(number: str) -> Code:
    """A solution of an exercise. Raises :class:`LaiError` for a number there is not."""
    return Code(exercise(number).solution.strip())


def question(number: str) -> str:
    """An exercise in words. Raises :class:`LaiError` for a number there is not."""
    return exercise(number).question.strip()


def _title(task: Exercise, what: str) -> str:
    return f"{task.number} · {task.title}: {what}"


def _unsolved(task: Exercise) -> list[str]:
    return [_title(task, "not solved yet. Write the function, then run the cell again.")]


def _failed(
    task: Exercise,
    cases: Sequence[Case],
    results: Sequence[Tried],
    seconds: float,
) -> list[str]:
    """The one failure that is told: of the written cases the first, else the shortest."""
    wrong = [
        (case, result)
        for case, result in zip(cases, results, strict=False)
        if result.end is not End.RIGHT
    ]
    written = [pair for pair in wrong if not pair[0].made]
    case, result = (written or sorted(wrong, key=lambda pair: len(repr(pair[0].given))))[0]
    right = sum(result.end is End.RIGHT for result in results)
    lines = [
        _title(task, f"not yet, {right} of {len(cases)} cases pass."),
        "",
        f"The rule that broke: {READS if result.end is End.CHANGED else case.rule}",
        *(["(a generated case)"] if case.made else []),
    ]
    for name, value in zip(_names(task), case.given, strict=True):
        lines += _labelled(name, shown(value))
    lines += _told(result, seconds)
    lines += _labelled("expected", shown(case.expected))
    lines += [case.note] if case.note else []
    if all(r.said == "None" for r in results):
        lines.append("(Every case gives None: is there a return?)")
    return lines


def _told(result: Tried, seconds: float) -> list[str]:
    """What the function did, as one part of the report."""
    match result.end:
        case End.WRONG:
            lines = _labelled("returned", result.said)
        case End.CHANGED:
            lines = _labelled("the answer is right, but the input was changed, to", result.said)
        case End.RAISED | End.UNSOLVED | End.HOARDED:
            lines = _labelled("raised", result.said)
        case End.TOO_LONG:
            lines = [f"it came to no end within {seconds:g} seconds and was stopped: a loop?"]
        case _:
            lines = ["it ended its whole process, which a function must not do"]
    return lines + (_labelled("printed", result.printed.rstrip()) if result.printed else [])


def _labelled(label: str, text: str) -> list[str]:
    """``label: text``, or the text indented below its label where it has several lines."""
    if "\n" not in text:
        return [f"{label}: {text}"]
    return [f"{label}:", *(f"    {line}" for line in text.split("\n"))]


def _names(task: Exercise) -> list[str]:
    """The names of the parameters, as the stub has them."""
    (names,) = re.findall(rf"^def {task.name}\((.*)\):", task.stub, re.MULTILINE)
    return [name.strip() for name in names.split(",")]


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
    name = getattr(function, "__name__", task.name)
    return name if name.isidentifier() else task.name


def _noted(number: str, right: int, cases: int, hint: int) -> list[str]:
    problem = progress.note_check(number, right, cases, hint)
    return [f"(Your progress was not saved: {problem})"] if problem else []
