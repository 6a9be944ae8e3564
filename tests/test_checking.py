"""``check``: whatever a learner's function does, a report that can be read, and nothing else."""

import multiprocessing
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from learner import ENOUGH, checked, made

from lai.course import check, progress, solution, stub
from lai.course.checking import Report
from lai.course.exercises import EXERCISES
from lai.course.exercises.model import ALONE, Exercise, Raises, edited
from lai.course.exercises.trial import End, tried


@pytest.fixture(autouse=True)
def _own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FILE", tmp_path / ".lai" / "progress.jsonl")


# Functions that do other things than answering

HANGS = "def my_move(standing, promise):\n    while True:\n        pass\n"
HOARDS = "def my_move(standing, promise):\n    all = []\n    while True: all += [0] * 10**6\n"
SLEEPS = "import time\n\ndef my_move(standing, promise):\n    time.sleep(10**6)\n"
DEAF = HANGS.replace("pass", "try:\n            open('x')\n        except BaseException: ...")
MISBEHAVED = [
    pytest.param(HANGS, "came to no end within 0.3 seconds", id="loops"),
    pytest.param(DEAF, "came to no end within 0.3 seconds", id="loops and catches everything"),
    pytest.param(SLEEPS, "came to no end within 0.3 seconds", id="sleeps"),
]
ODD = [
    ("return None", "(Every case gives None: is there a return?)"),
    ("return object()", "returned: <object object>"),
    ("return (x for x in promise)", "returned: <generator object my_move.<locals>.<genexpr>>"),
    ("return lambda: 1", "returned: <function my_move.<locals>.<lambda>>"),
    ("1 / 0", "raised:\n    ZeroDivisionError: division by zero\n    in line 2: 1 / 0"),
    ("raise KeyboardInterrupt", "raised:\n    KeyboardInterrupt"),
    ("raise ValueError('书\u2028')", "ValueError: 书"),
    ("return my_move(standing, promise)", "RecursionError: maximum recursion depth exceeded"),
    ("import sys; sys.exit('enough')", "SystemExit: enough"),
    ("import os; os._exit(3)", "it ended its whole process"),
    ("import os; os.kill(os.getpid(), 9)", "it ended its whole process"),
    ("print('seen:', promise); return 1", "printed: seen: read_only"),
    ("import sys; print('书', file=sys.stderr); return 1", "printed: 书"),
    ("x = [0] * 10**12; return x", "MemoryError"),
    ("class X:\n        __repr__ = None\n    return X()", "a X that cannot be shown"),
    ("class X:\n        def __eq__(self, o): raise OSError('no')\n    return X()", "OSError: no"),
    ("class E(Exception): __str__ = None\n    raise E", "raised:\n    E\n    in line 3: raise E"),
    ("raise ValueError('书' * 10**6)", "书… (1,000,012 characters)"),
    (r"raise ValueError('\ud800')", r"ValueError: \ud800"),
    (r"print('\udfff'); return 1", r"printed: \udfff"),
    ("return input('?')", "EOFError: during a check there is nobody to ask"),
]
SOLVED = EXERCISES["04.2b"].solution
OPEN_CALLS = "[call for batch in batches for call in batch]"
REMEMBERS = [
    SOLVED.replace("    batches = []\n", "").replace("\ndef my", "batches = []\n\n\ndef my"),
    SOLVED.replace("    batches = []\n", "").replace("(records)", "(records, batches=[])"),
]
MISUSED: list[tuple[Any, dict[str, Any], str]] = [
    (lambda standing: standing, {}, "cannot be called so: too many positional arguments"),
    (lambda a, b, c: (a, b, c), {}, "cannot be called so: missing a required argument: 'c'"),
    (lambda a, b, *, c: (a, b, c), {}, "cannot be called so: missing a required"),
    (max, {"hint": "2"}, "hint is the number of a hint, from 1, and not '2'"),
    (max, {"hint": None}, "hint is the number of a hint, from 1, and not None"),
    (max, {"seconds": "5"}, "seconds is a number above 0, at most 3600, and not '5'"),
    *((max, {"seconds": n}, f"and not {n}") for n in (0, -1, float("inf"), float("nan"))),
]


@pytest.mark.parametrize(("program", "words"), MISBEHAVED)
def test_function_without_end_is_stopped(program: str, words: str) -> None:
    """A loop, a sleep, and a loop that catches all: the check ends and says what it was."""
    report = check("04.3a", made(program, "my_move"), seconds=0.3)
    assert (report.state, report.passed) == ("failed", 0)
    assert words in repr(report)
    assert repr(report).startswith("04.3a · Write the policy table: not yet, 0 of 60")


def test_stop_ends_the_function_too() -> None:
    """An interrupt while a check waits, like the Stop button's, leaves no process behind."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            check("04.3a", made(HANGS, "my_move"), seconds=ENOUGH)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is bounded on Linux")
def test_function_that_hoards_is_stopped() -> None:
    """A loop that collects for ever runs out of its share of memory, not of the machine's."""
    report = check("04.3a", made(HOARDS, "my_move"), seconds=ENOUGH)
    assert (report.state, report.passed) == ("failed", 0)
    assert "MemoryError\n    in line 3: while True: all += [0] * 10**6" in repr(report)


@pytest.mark.parametrize(("body", "words"), ODD)
def test_odd_function_is_reported(body: str, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever a function does instead of answering: a report, nothing raised, nothing printed."""
    program = f"def my_move(standing, promise):\n    {body}\n"
    report = check("04.3a", made(program, "my_move"), seconds=ENOUGH)
    assert report.state == "failed"
    assert words in repr(report)
    assert len(repr(report).encode()) < 3000  # in UTF-8, as a notebook is saved
    assert capfd.readouterr() == ("", "")


def test_function_can_harm_nothing_here() -> None:
    """What a function does to its globals and to the library stays in the child."""
    seen: list[int] = []

    def my_move(standing: Any, promise: Any) -> None:
        from lai import recovery

        seen.append(1)
        recovery.POLICY = {}
        EXERCISES["04.3a"].written().clear()
        raise NotImplementedError(standing, promise)

    before = check("04.3a", my_move, seconds=ENOUGH)
    assert (before.state, seen) == ("not solved yet", [])
    assert checked(EXERCISES["04.3a"], EXERCISES["04.3a"].solution).state == "passed"


def test_memory_that_ran_out_is_not_told_as_something_else() -> None:
    """The case that ran out of memory is told, although a shorter one comes after it."""
    task = EXERCISES["04.4"]
    made_ones = [case for case in task.cases() if case.made]
    sizes = [len(repr(case.given)) for case in made_ones]
    at = next(n for n in range(40, len(sizes)) if sizes[n] > sizes[n + 1])

    def my_may_write(*given: Any) -> Any:
        if repr(given) == repr(made_ones[at].given):
            raise MemoryError
        return task.library(*given)

    text = repr(check("04.4", my_may_write, seconds=ENOUGH))
    assert "raised:\n    MemoryError\n" in text
    assert "ended its whole process" not in text


@pytest.mark.parametrize("program", REMEMBERS, ids=["a global", "a default"])
def test_what_a_function_remembers_is_told(program: str) -> None:
    """What is right alone and wrong after other cases is told as that, and not as a rule's."""
    text = repr(checked(EXERCISES["04.2b"], program))
    assert f"The rule that broke: {ALONE}\nrecords:\n" in text
    assert "(Asked this case alone it answers right:" in text
    assert ALONE not in repr(checked(EXERCISES["04.2b"], EXERCISES["04.2b"].wrong[0].program))


@pytest.mark.parametrize("task", EXERCISES.values(), ids=EXERCISES)
def test_a_missing_return_is_seen(task: Exercise) -> None:
    """A function that gives nothing is asked about its return, also where None is right."""
    head = task.stub.replace("raise NotImplementedError", "return None")
    assert "(Every case gives None: is there a return?)" in repr(checked(task, head))


@pytest.mark.parametrize("call", ["tuple", "list"])
def test_a_tuple_is_as_good_as_a_list(call: str) -> None:
    """The order and the things count; a text or a generator is another thing."""
    other = edited(SOLVED, (OPEN_CALLS, f"{call}({OPEN_CALLS})"))
    assert checked(EXERCISES["04.2b"], other).state == "passed"
    pair = edited(EXERCISES["03.1a"].solution, ("return records + last,", "return records,"))
    assert checked(EXERCISES["03.1a"], pair).state == "failed"
    lazy = edited(SOLVED, (OPEN_CALLS, f"iter({OPEN_CALLS})"))
    assert "returned: <list_iterator object>" in repr(checked(EXERCISES["04.2b"], lazy))


def test_a_changed_input_is_seen_before_an_error_too() -> None:
    """Who changes what it was given and then raises rightly has changed its input."""
    task = EXERCISES["04.2a"]
    clears = "    arguments, given = dict(arguments), arguments\n    given.clear()\n    text ="
    spoils = edited(task.solution, ("    text =", clears))
    cases = [case for case in task.cases() if isinstance(case.expected, Raises)]
    assert {found.end for found in tried(made(spoils, task.name), cases, ENOUGH)} == {End.CHANGED}


def test_a_half_written_function_is_not_called_unsolved() -> None:
    """A function that answers some cases and raises NotImplementedError in others has failed."""
    task = EXERCISES["04.3a"]
    half = edited(task.solution, ("return Move.LOOK_UP", "raise NotImplementedError"))
    report = checked(task, half)
    assert (report.state, report.passed) == ("failed", 59)
    assert "raised: NotImplementedError" in repr(report)


def test_check_works_outside_of_the_main_thread() -> None:
    """A check that is called in another thread gives the same report."""
    task, found = EXERCISES["04.4"], list[Report]()
    thread = threading.Thread(target=lambda: found.append(checked(task, task.solution)))
    thread.start()
    thread.join()
    assert found[0].state == "passed"


# What a learner reads


def test_report_shows_the_records() -> None:
    """The records of the case stand in the report as a table, then what came and what should."""
    task = EXERCISES["04.2b"]
    (wrong,) = [wrong for wrong in task.wrong if "ledger" in wrong.idea]
    text = repr(checked(task, wrong.program))
    assert "5     tool_execution  succeeded  call_1  exec_1     the tool confirmed it\n" in text
    assert 'returned: []\nexpected: call_1: send {"text": "书 1"}\n' in text
    (wrong,) = [wrong for wrong in task.wrong if "records themselves" in wrong.idea]
    text = repr(checked(task, wrong.program))
    assert "changed, to:\n    line  type     who        call    execution\n    1     mess" in text


def test_report_is_the_same_every_time() -> None:
    """Two checks of one function give the same bytes, also where it answers with an object."""
    task = EXERCISES["04.3c"]
    for program in (task.wrong[0].program, "def my_standing(records):\n    return object\n"):
        assert repr(checked(task, program)) == repr(checked(task, program))


def test_hints_come_one_by_one() -> None:
    """Each hint names the next; after the last stands the solution; a passed check gives none."""
    task = EXERCISES["03.2"]
    for number, step in enumerate(task.steps, start=1):
        text = repr(checked(task, task.stub, hint=number))
        assert f"Hint {number} of 3:\n{step}\n" in text
        assert (f"hint={number + 1})" in text) is (number < 3)
        assert ('solution("03.2")' in text) is (number == 3)
    assert "There are no more hints" in repr(checked(task, task.stub, hint=99))
    assert "hint" not in repr(checked(task, task.solution, hint=1)).lower()


def test_mistakes_in_calling_are_told() -> None:
    """A number there is not and a missing function are told in words; nothing is noted."""
    assert "there are: 03.1a, 03.1b, 03.2" in repr(check("04.3", print))
    said = repr(check("04.3a", "my_move"))  # type: ignore[arg-type]
    assert said == "check takes the function itself, not a str: check('04.3a', my_move)"
    assert repr(check(["04.3a"], max)).startswith("there is no exercise ['04.3a']; there")  # type: ignore[arg-type]
    assert repr(check(made, "04.3a")).startswith("there is no exercise <function made>; there")  # type: ignore[arg-type]
    assert not progress.FILE.exists()


@pytest.mark.parametrize(("function", "more", "words"), MISUSED)
def test_a_check_that_cannot_be_made_is_told(
    function: Any, more: dict[str, Any], words: str
) -> None:
    """Other parameters, a hint or a time that is none: one sentence; nothing runs or is noted."""
    report = check("04.3a", function, **more)
    assert (report.state, report.cases) == ("no check", 0)
    assert words in repr(report)
    assert "\n" not in repr(report)
    assert not progress.FILE.exists()


def test_stub_and_solution_are_shown() -> None:
    """The texts that are shown are the ones that are tested."""
    task = EXERCISES["04.2a"]
    told = "".join(f"# {line}\n" for line in task.question.strip().splitlines())
    cell = f'{task.stub.strip()}\n\n\ncheck("04.2a", my_arguments_sha256)'
    assert repr(stub("04.2a")) == told + cell
    assert repr(solution("04.2a")) == task.solution.strip()
    with pytest.raises(ValueError, match="stands 0 times"):
        edited(task.solution, ("md5", "sha1"))
