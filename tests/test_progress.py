"""Progress: each check is a line on disk, and nothing that lies there stops the next one."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lai import Session
from lai.course import check, progress
from lai.course.exercises import EXERCISES
from lai.course.exercises.model import Exercise

ROOT = Path(__file__).resolve().parents[1]
TASK = EXERCISES["04.3a"]
STATES = {"✓ passed", "◆ not yet", "○ open"}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A progress file of this test's own, which is not there yet."""
    path = tmp_path / ".lai" / "progress.jsonl"
    monkeypatch.setattr(progress, "FILE", path)
    return path


def state(number: str = "04.3a") -> tuple[str, int]:
    """What the table says of an exercise."""
    table = progress.progress_table().set_index("exercise")
    return str(table["state"][number]), int(table["checks"][number])


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def solved(task: Exercise = TASK) -> str:
    """The state of a check of the solution."""
    names: dict[str, object] = {}
    exec(task.solution, names)  # noqa: S102 (the project's own text)
    return check(task.number, names[task.name], seconds=60).state  # type: ignore[arg-type]


def failed(hint: int = 0) -> str:
    """The state of a check of a wrong answer."""
    return check("04.3a", always_asks, hint=hint, seconds=60).state


def always_asks(standing: object, promise: object) -> str:
    """Right in 18 cells of the policy table."""
    del standing, promise
    return "ask"


def test_one_line_a_check(file: Path) -> None:
    """A failed and a passed check leave a line each, exactly; the file is its owner's alone."""
    assert (failed(), failed(hint=2), solved()) == ("failed", "failed", "passed")
    head = '{"type":"check","exercise":"04.3a","passed":'
    assert [line.partition(',"sum"')[0] for line in file.read_text("utf-8").splitlines()] == [
        f'{head}18,"cases":60',
        f'{head}18,"cases":60,"hint":2',
        f'{head}60,"cases":60',
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_stub_leaves_nothing(file: Path) -> None:
    """An unsolved stub is no try: no file, no folder."""

    def my_move(standing: object, promise: object) -> None:
        raise NotImplementedError

    assert check("04.3a", my_move).state == "not solved yet"
    assert not file.parent.exists()
    assert state() == ("○ open", 0)


def test_passed_stays_passed() -> None:
    """The table says open, then not yet, then passed, and a later failure takes nothing back."""
    seen = [state()]
    for step in (failed, solved, failed):
        step()
        seen.append(state())
    assert seen == [("○ open", 0), ("◆ not yet", 1), ("✓ passed", 2), ("✓ passed", 3)]
    assert state("03.2") == ("○ open", 0)


def test_the_table_has_every_exercise_in_order() -> None:
    """A beginner sees all exercises, open, as the same text every time."""
    table = progress.progress_table()
    assert list(table["exercise"]) == list(EXERCISES) == sorted(EXERCISES)
    assert repr(table).splitlines()[:2] == [
        "exercise  title                              state   checks",
        "03.1a     Read what a dying process left     ○ open  0",
    ]
    assert set(table["state"]) <= STATES
    assert repr(progress.progress_table()) == repr(table)


def test_a_torn_line_is_sealed_and_hides_nothing(file: Path) -> None:
    """After a death in the middle of a line the next check goes on, and no byte is taken away."""
    solved()
    torn = file.read_bytes() + '{"type":"check","exercise":"03.2","note":"书'.encode()[:-1]
    file.write_bytes(torn)
    assert state() == ("✓ passed", 1)
    failed()
    assert file.read_bytes().startswith(torn + b"\x18\n")
    assert state() == ("✓ passed", 2)


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe not a record",
        b'{"type":"check"}',
        b'{"type":"check","exercise":"99.9","passed":1,"cases":1}',
        b'{"type":"check","exercise":["04.3a"],"passed":1,"cases":1}',
        b'{"type":"check","exercise":"04.3a","passed":"all","cases":1}',
        '{"type":"newer","exercise":"04.3a","passed":1,"cases":1,"书":"\u2028"}'.encode(),
    ],
)
def test_what_is_no_check_is_passed_over(file: Path, line: bytes) -> None:
    """Damage, other records and unknown exercises change nothing, and stay where they are."""
    failed()
    before = file.read_bytes() + line + b"\n"
    file.write_bytes(before)
    failed()
    assert file.read_bytes().startswith(before)
    assert state() == ("◆ not yet", 2)


def test_a_check_that_cannot_be_noted_says_so(file: Path) -> None:
    """Where nothing can be written the verdict is the same, with a word about it."""
    file.parent.write_bytes(b"a file where the folder should be")
    report = check("04.3a", always_asks, seconds=60)
    assert report.state == "failed"
    last = repr(report).splitlines()[-1]
    assert last.startswith("(Your progress was not saved: cannot open the session progress.jsonl")
    assert file.parent.read_bytes() == b"a file where the folder should be"
    assert state() == ("○ open", 0)


def test_another_notebook_is_waited_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody else holds the file a check waits, then gives up in words, unwritten."""
    failed()
    before = file.read_bytes()
    waits: list[float] = []
    monkeypatch.setattr(progress.time, "sleep", waits.append)
    with Session.open(file):
        problem = progress.note_check("04.3a", 60, 60)
    assert problem == "progress.jsonl is in use by another notebook"
    assert (len(waits), file.read_bytes()) == (progress.TRIES, before)


def test_many_at_once_lose_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks of several notebooks at the same time each leave their line."""
    monkeypatch.setattr(progress, "TRIES", 10**6)
    monkeypatch.setattr(progress, "PAUSE", 0.001)
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda n: progress.note_check("03.2", n, 99), range(20)))
    assert told == [""] * 20
    assert sorted(str(line["passed"]) for line in lines(file)) == sorted(map(str, range(20)))


def test_the_place_is_the_course_s_own_and_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file lies in a hidden folder of the course that git ignores, not in the home folder."""
    monkeypatch.undo()
    place = progress.FILE.relative_to(ROOT)
    assert place == Path(".lai/progress.jsonl")
    assert ".lai/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    if (ROOT / ".git").exists():
        command = ["git", "check-ignore", "-q", str(place)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
