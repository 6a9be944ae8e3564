"""What a check says of a function that failed: the rule that broke, and one case that shows it.

Rules that live here:

1. One failure is told: the first of the written cases, which go from simple to hard, else the
   shortest generated one. More would not be read.
2. The rule is the case's own, with two exceptions that hold in every exercise: a function
   changes nothing of what it is given (READS), and it remembers nothing of other cases (ALONE).
3. Where a beginner's slip explains everything, the report names the slip.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lai.course.exercises.model import ALONE, READS, Case, Exercise
from lai.course.exercises.trial import End, Tried, tried
from lai.course.exercises.words import shown

NO_RETURN = "(Every case gives None: is there a return?)"
REMEMBERS = "(Asked this case alone it answers right: what does it keep outside, or in a default?)"


def failure(
    task: Exercise,
    function: Callable[..., Any],
    cases: Sequence[Case],
    results: Sequence[Tried],
    seconds: float,
) -> Iterator[str]:
    """The lines about the one failure that is told."""
    case, result = _shown_failure(cases, results)
    alone = result.end in (End.WRONG, End.RAISED) and _right_alone(function, case, seconds)
    rule = READS if result.end is End.CHANGED else ALONE if alone else case.rule
    yield f"The rule that broke: {rule}"
    if case.made:
        yield "(a generated case)"
    for name, value in zip(parameters(task), case.given, strict=True):
        yield from _labelled(name, shown(value))
    yield from _told(result, seconds)
    yield from _labelled("expected", shown(case.expected))
    if case.note:
        yield case.note
    if alone:
        yield REMEMBERS
    if _gives_nothing(cases, results):
        yield NO_RETURN


def parameters(task: Exercise) -> list[str]:
    """The names of the parameters, as the stub has them."""
    (names,) = re.findall(rf"^def {task.name}\((.*)\):", task.stub, re.MULTILINE)
    return [name.strip() for name in names.split(",")]


def _shown_failure(cases: Sequence[Case], results: Sequence[Tried]) -> tuple[Case, Tried]:
    pairs = zip(cases, results, strict=False)  # there are fewer results where it came to no end
    wrong = [(case, result) for case, result in pairs if result.end is not End.RIGHT]
    written = [pair for pair in wrong if not pair[0].made]
    return (written or sorted(wrong, key=lambda pair: len(repr(pair[0].given))))[0]


def _right_alone(function: Callable[..., Any], case: Case, seconds: float) -> bool:
    """Whether it answers right in a process that has seen no other case."""
    return tried(function, [case], seconds)[0].end is End.RIGHT


def _gives_nothing(cases: Sequence[Case], results: Sequence[Tried]) -> bool:
    """Whether every answer is None; where None is right, nothing else is said of it."""
    return all(
        case.expected is None if result.end is End.RIGHT else result.said == "None"
        for case, result in zip(cases, results, strict=False)
    )


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
