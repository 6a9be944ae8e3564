"""What an exercise is: a question, a stub, cases with their answers, hints, and a solution.

Rules that live here:

1. A case says which rule it is about, in one sentence; that sentence is what a learner reads
   when the case fails. What is expected is written down beside it.
2. Written cases alone could be learned by heart, so generated ones follow them. They are the
   same in every run, and the library answers them; a test proves that it gives the written
   answers too.
3. A wrong answer is a program that somebody would really write. A test proves that every one
   of them is rejected, and for the rule it breaks.

Stub, solution and wrong answers are texts: a notebook shows them, and nothing here runs them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

SEED = 2026
# Two rules that hold in every exercise.
READS = "A function that reads changes nothing of what it is given."
ALONE = "A function answers from what it is given alone, and remembers nothing of other cases."
Generator = Callable[[Random], Iterator["Case"]]
Change = tuple[str, str]  # a text that stands once in a program, and what takes its place


@dataclass(frozen=True, slots=True)
class Raises:
    """What is expected where there is no answer: an error of this kind."""

    error: type[Exception]

    def __repr__(self) -> str:
        return f"{self.error.__name__} is raised"


@dataclass(frozen=True, slots=True)
class Case:
    """What the learner's function is given, the answer, and the rule that a wrong one breaks.

    ``note`` is shown beside the answer. ``made`` says that it was generated; then the answer
    is the library's.
    """

    rule: str
    given: tuple[Any, ...]
    expected: Any
    note: str = ""
    made: bool = False


@dataclass(frozen=True, slots=True)
class Wrong:
    """A plausible program that is wrong: what its author was thinking, and which rule it breaks."""

    idea: str
    breaks: str
    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise. ``library`` is the library's own answer, as a function of the same input.

    ``hints`` are paragraphs, each of which gives away a little more.
    ``written`` are the cases with an answer written down, simple ones first; ``generated``
    makes inputs from a source of chance that is the same each time.
    """

    number: str
    title: str
    question: str
    stub: str
    hints: str
    solution: str
    wrong: tuple[Wrong, ...]
    library: Callable[..., Any]
    written: Callable[[], list[Case]]
    generated: Generator | None = None

    @property
    def chapter(self) -> str:
        """The notebook it belongs to: ``03.1`` for ``03.1a``."""
        return self.number[:4]

    @property
    def name(self) -> str:
        """The name of the function that the learner writes."""
        return str(re.findall(r"^def (\w+)", self.stub, re.MULTILINE)[-1])

    @property
    def steps(self) -> list[str]:
        """The hints, one after the other."""
        return self.hints.strip().split("\n\n")

    @property
    def cell(self) -> str:
        """The notebook cell: the stub, and the check under it."""
        return f'{self.stub.strip()}\n\n\ncheck("{self.number}", {self.name})'

    def cases(self) -> list[Case]:
        """All cases, the written ones first."""
        chance = Random(SEED)  # noqa: S311 (the same cases in every run; nothing is kept secret)
        return [*self.written(), *(self.generated(chance) if self.generated else ())]


def answer(function: Callable[..., Any], *given: Any) -> Any:
    """What a function answers, an error being an answer too."""
    try:
        return function(*given)
    except Exception as error:  # noqa: BLE001 (which one it is, the case will tell)
        return Raises(type(error))


def slips(solution: str, *rows: tuple[str, str, *tuple[Change, ...]]) -> tuple[Wrong, ...]:
    """Wrong answers that are the solution but for a slip: idea, broken rule, and the changes."""
    return tuple(Wrong(idea, breaks, edited(solution, *changes)) for idea, breaks, *changes in rows)


def edited(program: str, *changes: Change) -> str:
    """A program with some of its lines changed. Raises ValueError for a change of nothing."""
    for old, new in changes:
        if program.count(old) != 1:
            raise ValueError(f"{old!r} stands {program.count(old)} times in the program")
        program = program.replace(old, new)
    return program
