"""Which exercises you have passed: an append-only file, kept like everything else in this course.

One line for each check that passed or failed, in ``.lai/progress.jsonl`` at the top of the
course's folder, which git ignores. The folder is yours and moves with the course; your home
directory is left alone, and deleting ``.lai`` begins anew.

Rules that live here:

1. It is a session file, written by ``Session``: one writer, fsync, a torn tail is sealed and
   what cannot be read hides nothing else. So it can be read with the course's own tables.
2. Nothing is taken back: an exercise that was passed once stays passed.
3. Saving is no reason to fail: ``note_check`` says in words why it could not.

No time is recorded: nothing here needs one.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from lai.course.exercises import EXERCISES
from lai.records import LaiError, Record
from lai.session import Session
from lai.storage import SessionLocked

if TYPE_CHECKING:
    from lai.course.tables import Table

FILE = Path(__file__).resolve().parents[2] / ".lai" / "progress.jsonl"
TRIES, PAUSE = 20, 0.1  # another notebook may be writing its line just now; seconds
SIGNS = {"passed": "✓ passed", "tried": "◆ not yet", "open": "○ open"}


def note_check(number: str, passed: int, cases: int, hint: int = 0) -> str:
    """Append what a check found. Returns why that could not be done, empty if it was."""
    record: Record = {"type": "check", "exercise": number, "passed": passed, "cases": cases}
    if hint:
        record["hint"] = hint
    for _ in range(TRIES):
        try:
            with Session.open(FILE) as session:
                session.append(record)
        except SessionLocked:
            time.sleep(PAUSE)
        except (LaiError, OSError) as error:
            return str(error).replace(str(FILE), FILE.name)
        else:
            return ""
    return f"{FILE.name} is in use by another notebook"


def read_checks() -> list[Record]:
    """Every check on record, oldest first; what is no check of a known exercise is left out."""
    if not FILE.exists():
        return []
    return [record for record in Session.read(FILE).records if _is_check(record)]


def progress_table() -> "Table":
    """A row for every exercise: where it stands, and how often it was checked."""
    from lai.course.tables import Table  # pandas takes a while, and a check does without it

    found = read_checks()
    rows = []
    for number, task in EXERCISES.items():
        mine = [record for record in found if record["exercise"] == number]
        passed = any(record["passed"] == record["cases"] for record in mine)
        state = "passed" if passed else "tried" if mine else "open"
        row = {"exercise": number, "title": task.title, "state": SIGNS[state], "checks": len(mine)}
        rows.append(row)
    return Table(rows)


def _is_check(record: Record) -> bool:
    match record:
        case {"type": "check", "exercise": str(number), "passed": int(), "cases": int()}:
            return number in EXERCISES
    return False
