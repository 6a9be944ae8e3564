"""The exercises: their cases are the library's, and their checks judge what learners write."""

import copy
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from learner import ENOUGH, checked
from nbformat.v4 import new_code_cell, new_notebook

from lai.course import check, progress
from lai.course.exercises import EXERCISES
from lai.course.exercises.model import Exercise, Raises, Wrong, answer
from lai.course.run_notebooks import execute

ROOT = Path(__file__).resolve().parents[1]
WHOLE = ("04.3a", "04.5")  # tables of which every cell is a written case
TASKS = [pytest.param(task, id=number) for number, task in EXERCISES.items()]
WRONG = [
    pytest.param(task, wrong, id=f"{number} {wrong.idea}")
    for number, task in EXERCISES.items()
    for wrong in task.wrong
]


@pytest.fixture(autouse=True)
def _own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FILE", tmp_path / ".lai" / "progress.jsonl")


# What an exercise is made of


def test_the_exercises_are_complete() -> None:
    """Thirteen exercises, each with hints and at least two wrong answers that differ."""
    assert len(EXERCISES) == 13
    for number, task in EXERCISES.items():
        assert number == task.number
        assert len(task.steps) >= 2
        assert len({wrong.program for wrong in task.wrong} | {task.solution}) >= 3
        assert task.question.strip()
        assert len(task.cell.splitlines()) <= 20  # a notebook's cell


@pytest.mark.parametrize("task", TASKS)
def test_the_library_gives_the_written_answers(task: Exercise) -> None:
    """Every answer that is written down is the one of the library, its type included."""
    for case in task.written():
        found = answer(task.library, *copy.deepcopy(case.given))
        if isinstance(case.expected, Raises):
            assert isinstance(found, Raises), case
            assert issubclass(found.error, case.expected.error), case
        else:
            assert (found, type(found)) == (case.expected, type(case.expected)), case


@pytest.mark.parametrize("task", TASKS)
def test_cases_are_many_and_the_same_each_time(task: Exercise) -> None:
    """Two readings give equal cases; some are generated wherever there is more to try."""
    one, two = task.cases(), task.cases()
    assert [repr(case) for case in one] == [repr(case) for case in two]
    assert len(one) >= 60
    assert len({repr(case.expected) for case in one}) >= 2
    assert any(case.made for case in one) is (task.number not in WHOLE)


@pytest.mark.parametrize("task", TASKS)
def test_cases_are_not_ascii_only(task: Exercise) -> None:
    """Chinese text stands in the cases, except where they hold no text at all."""
    given = repr([case.given for case in task.cases()])
    plain = task.number in (*WHOLE, "04.3c")  # words of an enumeration; ledger records
    assert plain or not given.isascii() or re.search(r"\\x[89a-f]", given)  # the latter in bytes


# Answers


@pytest.mark.parametrize("task", TASKS)
def test_solution_is_accepted(task: Exercise) -> None:
    """The solution passes every case, and says so in one line."""
    report = checked(task, task.solution)
    assert (report.state, report.passed) == ("passed", report.cases)
    assert repr(report) == f"{task.number} · {task.title}: passed, all {report.cases} cases."


@pytest.mark.parametrize(("task", "wrong"), WRONG)
def test_wrong_answer_is_rejected(task: Exercise, wrong: Wrong) -> None:
    """A wrong answer fails, for the rule it breaks, with its input and both answers."""
    report = checked(task, wrong.program)
    assert report.state == "failed"
    assert 0 < report.passed < report.cases
    lines = repr(report).splitlines()
    assert lines[2] == f"The rule that broke: {wrong.breaks}"
    told = [line.split(":")[0] for line in lines]
    assert "expected" in told
    assert {"returned", "raised", "the answer is right, but the input was changed, to"} & set(told)
    assert "lai/" not in repr(report)


@pytest.mark.parametrize("task", TASKS)
def test_stub_is_not_solved_yet(task: Exercise) -> None:
    """An unsolved stub raises nothing, fails nothing, and leaves no file."""
    report = checked(task, task.stub)
    assert report.state == "not solved yet"
    assert f'hint: check("{task.number}", {task.name}, hint=1)' in repr(report)
    assert not progress.FILE.parent.exists()


@pytest.mark.parametrize("task", TASKS)
def test_learning_the_written_cases_by_heart_is_not_enough(task: Exercise) -> None:
    """A function that knows all written cases fails, where not every case there is is written."""
    table = {repr(case.given): case.expected for case in task.written()}

    def parrot(*given: Any) -> Any:
        known = table.get(repr(given))
        if isinstance(known, Raises):
            raise known.error("known")
        return known

    report = check(task.number, parrot, seconds=ENOUGH)
    assert report.state == ("passed" if task.number in WHOLE else "failed")
    assert ("(a generated case)" in repr(report)) is (report.state == "failed")


# In a notebook

FIRST = """
from pathlib import Path
from lai.course import check, progress, solution, stub
progress.FILE = Path("progress.jsonl").absolute()
"""
LOOP = (
    "def my_move(standing, promise):\n    while True: pass\n\ncheck('04.3a', my_move, seconds=0.3)"
)
RAISES = (
    "limit = 0\n\ndef my_move(standing, promise):\n    return 1 / limit\n\ncheck('04.3a', my_move)"
)


def test_notebook_cells(tmp_path: Path) -> None:
    """In a kernel stubs run headless, a solution passes, a loop ends, an error has its line."""
    task = EXERCISES["04.2c"]
    cells = [FIRST, *(each.cell for each in EXERCISES.values())]
    cells += [f"{task.solution}\n\ncheck('04.2c', my_build_prompt_view)", LOOP, RAISES]
    cells += ["stub('04.2b')", "progress.progress_table()"]
    notebook = new_notebook(cells=[new_code_cell(cell.strip()) for cell in cells])
    nbformat.write(notebook, tmp_path / "try.ipynb")
    done = execute(tmp_path / "try.ipynb", tmp_path)
    outputs = [cell.outputs for cell in done.cells]
    assert all(len(found) == 1 for found in outputs[1:]), outputs
    texts = [found[0]["data"]["text/plain"] for found in outputs[1:]]
    stubs, (solved, looped, raised, shown, table) = texts[:-5], texts[-5:]
    assert all("not solved yet" in text for text in stubs)
    assert solved.endswith("passed, all 93 cases.")
    assert "came to no end" in looped
    assert "in line 4: return 1 / limit" in raised
    assert "def my_pending_tool_calls(records):" in shown
    assert re.search(r"04.2c .*✓ passed +1\n", table)


def drifted(cells: list[str]) -> list[str]:
    """The cells that check an exercise and are not its stub."""
    stubs = {task.cell for task in EXERCISES.values()}
    return [cell for cell in cells if '\ncheck("' in cell and cell not in stubs]


def test_notebooks_show_the_stubs() -> None:
    """A committed cell that checks an exercise is its stub, character by character."""
    cells = [
        cell.source
        for path in (ROOT / "notebooks").glob("*.ipynb")
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code"
    ]
    assert drifted(cells) == []
    assert len(drifted([f"{task.cell} " for task in EXERCISES.values()])) == 13
