"""Scenes: session files as a crash left them, each with the question "what happens next?".

    python -m lai.course.scenes      write data/scenes/ again, byte for byte

A notebook, a test and the command line start from the same scene by its name. A scene is
fabricated, so that it can be read before anything is killed; the notebooks then make the
same files by really killing a process.

Rules that live here:

1. ``content`` is pure and gives the same bytes every time; data/scenes/ holds them.
2. A scene is a log *and* a world: ``world`` is what the workspace held at that moment. The
   log cannot know it, which is why it is kept apart.
3. ``stage`` never touches a session that exists: every demonstration has its own place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lai.course import logs
from lai.course.logs import APPEND_LINE, SET_CONTENT
from lai.storage import session_path

__all__ = ["APPEND_LINE", "FOLDER", "SCENES", "SET_CONTENT", "Scene", "content", "stage"]

FOLDER = Path(__file__).resolve().parents[2] / "data" / "scenes"


@dataclass(frozen=True, slots=True)
class Scene:
    """One crash scene. ``next`` says what ``decide`` answers to it, in words."""

    name: str
    title: str
    shows: str
    next: str
    make: Callable[[], bytes]
    world: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> Path:
        """Where the scene lies in the course."""
        return FOLDER / f"{self.name}.jsonl"


_ALL = (
    Scene(
        "interrupted-write",
        "A write that was running",
        "The process died between `running` and the outcome. The file may or may not be there.",
        "settle: the attempt becomes unknown; then write again, as a new attempt",
        logs.whole(logs.interrupted_write),
    ),
    Scene(
        "interrupted-command",
        "A command that was running",
        "The same place, another tool: a second run could append a second line.",
        "settle: the attempt becomes unknown; then ask a person, never run it again unasked",
        logs.whole(logs.interrupted_command),
    ),
    Scene(
        "approved-never-started",
        "A yes that was never used",
        "The approval is on disk, `running` is not: nothing has happened yet.",
        "ask: an approval of an earlier process is not used by this one",
        logs.whole(logs.approved_never_started),
    ),
    Scene(
        "terminal-without-receipt",
        "An outcome without its receipt",
        "The ledger holds the result; the process died before the model was told.",
        "publish: the recorded result, without running anything",
        logs.whole(logs.terminal_without_receipt),
        (("recovery-demo.txt", "recovered"),),
    ),
    Scene(
        "parallel-calls",
        "Three calls, three fates",
        "One message asked for three things: one is done, one was running, one never began.",
        "publish: the first call's result; then settle the second, then ask about the third",
        logs.whole(logs.parallel_calls),
        (("report.txt", "all is well\n"),),
    ),
    Scene(
        "torn-tail",
        "Half a record at the end",
        "Death came while `running` was being written, so the effect cannot have begun.",
        "ask: the torn bytes are sealed where they stand, and the approval was never used",
        logs.torn_tail,
    ),
    Scene(
        "damaged-middle",
        "A line nobody can read",
        "Line 4 is damaged, all others load. It may have been any record.",
        "ask: but no tool runs until a person has acknowledged the damage",
        logs.damaged_middle,
        (("recovery-demo.txt", "recovered"),),
    ),
    Scene(
        "unknown-published",
        "An honest ending",
        "The turn is over and says plainly what nobody knows. A verdict may still come.",
        "done: the turn has its final answer; the unknown stays on record",
        logs.whole(logs.unknown_published),
        (("audit.log", "sent\n"),),
    ),
)
SCENES: MappingProxyType[str, Scene] = MappingProxyType({scene.name: scene for scene in _ALL})


def content(name: str) -> bytes:
    """The bytes of a scene's session file."""
    return _scene(name).make()


def stage(name: str, workspace: Path) -> Path:
    """Copy a scene into a workspace, its world too; returns the path of the session.

    Raises FileExistsError, with nothing changed, where such a session exists already.
    """
    scene = _scene(name)
    path = session_path(workspace, scene.name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("xb") as file:
        file.write(scene.file.read_bytes())
    path.chmod(0o600)
    for place, text in scene.world:
        (workspace / place).write_text(text, encoding="utf-8", newline="")
    return path


def _scene(name: str) -> Scene:
    if name not in SCENES:
        raise KeyError(f"there is no scene {name!r}; there are: {', '.join(SCENES)}")
    return SCENES[name]


def main() -> None:
    """Write every scene into data/scenes/ and say so."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scene in SCENES.values():
        scene.file.write_bytes(scene.make())
        print(f"{scene.file.name}: {scene.shows}")


if __name__ == "__main__":
    main()
