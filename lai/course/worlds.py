"""Small worlds to crash in: one order to one tool, and who counts what came of it.

Two witnesses in the workspace are written by no ledger: how often the tool was started
(``runs.log``, one line a start), and how often its effect is there (``World.count``).

The order is always the same, and the model is a script. A world kills nobody and judges
nothing: see ``child`` and ``crashes``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from lai.approval import Kind, Question
from lai.course import effects
from lai.course.effects import Make, Point
from lai.models import Model, scripted
from lai.records import JSON
from lai.tools import Effect, Run, Tool

ASKED, DONE = "请把 “书\u2028🖋” 办妥，只办一次", "办完了 🙂"
TEXT = "书\u2028🖋"
BOOK, NOTE = "书.txt", "note.txt"
STARTS = "runs.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A tool with its promise, the order for it, and the count of its effects.

    ``ledger`` is False where none is kept: for a read-only tool, and by the ``naive``
    agent. ``looks`` is a person who counts before giving a verdict; otherwise nobody
    gives one. ``files`` are there from the start.
    """

    name: str
    promise: Effect
    order: tuple[str, JSON]
    counted: str
    count: Callable[[Path], int]
    make: Make
    files: tuple[tuple[str, str], ...] = ()
    ledger: bool = True
    naive: bool = False
    looks: bool = False

    def model(self) -> Model:
        """It gives the order, then says that it is done."""
        return scripted([[self.order], DONE])

    def tool(self, root: Path, point: Point) -> Tool:
        """The tool, with every start noted before anything is done."""
        tool = self.make(root, point)

        def run(arguments: JSON, attempt: Run) -> JSON:
            with (root / STARTS).open("a", encoding="utf-8") as file:
                file.write(f"{attempt.execution_id or '-'}\n")
            return tool.run(arguments, attempt)

        return replace(tool, run=run)

    def answer(self, root: Path, question: Question) -> str:
        """The person: yes to the order; a verdict by the count, or none, as "y" is none."""
        if question.kind is Kind.APPROVAL or not self.looks:
            return "y"
        found = self.count(root)
        return f"{'' if found else 'not '}happened: {self.counted}: {found}"

    def prepare(self, root: Path) -> None:
        """Put what the order needs into an empty workspace."""
        for name, text in self.files:
            (root / name).write_text(text, encoding="utf-8", newline="")


def starts(root: Path) -> list[str]:
    """The attempt of each start of the tool, in order."""
    file = root / STARTS
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def next_start(root: Path, prefix: str) -> str:
    """A name for the next start of the tool; each start that happened makes it another one."""
    return f"{prefix}_{len(starts(root)) + 1}"


def _changed(root: Path) -> int:
    return int((root / BOOK).read_bytes() != TEXT.encode())


def _written(root: Path) -> int:
    """1 for the wanted content, 0 for no file, 2 for any other content."""
    if not (root / NOTE).exists():
        return 0
    return 1 if (root / NOTE).read_bytes() == TEXT.encode() else 2


_READ = World(
    name="read_file",
    promise=Effect.READ_ONLY,
    order=("read_file", {"path": BOOK}),
    counted="changes of the file",
    count=_changed,
    make=effects.read_file,
    files=((BOOK, TEXT),),
    ledger=False,
)
_WRITE = World(
    name="write_file",
    promise=Effect.IDEMPOTENT,
    order=("write_file", {"path": NOTE, "content": TEXT}),
    counted="files with the content",
    count=_written,
    make=effects.write_file,
)
_PAY = World(
    name="pay",
    promise=Effect.KEYED,
    order=("pay", {"text": TEXT}),
    counted="rows in the table",
    count=effects.rows,
    make=effects.pay,
)
_SUBMIT = World(
    name="submit",
    promise=Effect.QUERYABLE,
    order=("submit", {"text": TEXT}),
    counted="jobs in the list",
    count=effects.jobs,
    make=effects.submit,
)
_BASH = World(
    name="run_bash",
    promise=Effect.OPAQUE,
    order=("run_bash", {"command": f"echo 书 >> {effects.AUDIT}"}),
    counted="lines in the log",
    count=effects.lines,
    make=effects.run_bash,
)
_LOOKED_AT = replace(_BASH, name="run_bash+look", looks=True)
_NAIVE = replace(_BASH, name="naive", naive=True, ledger=False)
_ALL = (_READ, _WRITE, _PAY, _SUBMIT, _BASH, _LOOKED_AT, _NAIVE)
WORLDS: MappingProxyType[str, World] = MappingProxyType({world.name: world for world in _ALL})
