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

from pathlib import Path
from types import MappingProxyType

from lai.course import effects
from lai.course.logs import APPEND_LINE, SET_CONTENT
from lai.course.scenery import ALL, FOLDER, Scene
from lai.course.tables import Table
from lai.storage import session_path
from lai.tools import Tool
from lai.workspace import workspace_tools

__all__ = [
    "APPEND_LINE",
    "FOLDER",
    "SCENES",
    "SET_CONTENT",
    "Scene",
    "content",
    "scene_table",
    "scene_tools",
    "stage",
]

SCENES: MappingProxyType[str, Scene] = MappingProxyType({scene.name: scene for scene in ALL})


def content(name: str) -> bytes:
    """The bytes of a scene's session file."""
    return _scene(name).make()


def scene_tools(workspace: Path) -> tuple[Tool, ...]:
    """The tools that the next process has: those of the workspace, ``pay`` and ``submit``."""
    others = [make(workspace, lambda *_: None) for make in (effects.pay, effects.submit)]
    return (*workspace_tools(workspace, sandbox="none"), *others)


def scene_table() -> Table:
    """A row for every scene, in the order of the policy: its name, what it shows, the answer."""
    return Table(
        {"scene": scene.name, "what it shows": scene.shows, "what happens next": scene.next}
        for scene in SCENES.values()
    )


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
        (FOLDER / scene.file.name).write_bytes(scene.make())
        print(f"{scene.file.name}: {scene.shows}")


if __name__ == "__main__":
    main()
