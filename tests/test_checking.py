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
from lai.course.exercises.model import edited


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
    assert not progress.FILE.exists()


def test_stub_and_solution_are_shown() -> None:
    """The texts that are shown are the ones that are tested."""
    task = EXERCISES["04.2a"]
    assert repr(stub("04.2a")) == f'{task.stub.strip()}\n\n\ncheck("04.2a", my_arguments_sha256)'
    assert repr(solution("04.2a")) == task.solution.strip()
    with pytest.raises(ValueError, match="stands 0 times"):
        edited(task.solution, ("md5", "sha1"))
