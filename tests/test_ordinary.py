"""What people do all day is not refused, not warned about and not shown as something odd."""

from pathlib import Path, PurePosixPath

import pytest
from ordinary import COMMANDS, LONG, NAMES
from screen import misfits, pieces
from test_attacks import Scene

from lai.shell import WARNING

JOINERS = ("\u200d", "\ufe0f", "\t")  # what an emoji of several parts and a script may hold


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_there_are_enough() -> None:
    """At least 200 different names and commands, in many scripts."""
    assert len({*NAMES, *LONG, *COMMANDS}) == len(NAMES) + len(LONG) + len(COMMANDS) >= 200


def test_ordinary_names_are_written_and_read_back(scene: Scene) -> None:
    """Each file is asked about once, without a caution, and is there with its very bytes."""
    paths = [*NAMES, *LONG]
    contents = {path: f"第 {n} 行 🙂 {path}\n" for n, path in enumerate(paths)}
    writes = [("write_file", {"path": p, "content": c}) for p, c in contents.items()]
    reads = [("read_file", {"path": p}) for p in paths]
    results = scene.run((*writes, *reads), "y")
    refused = [p for p, r in zip([*paths, *paths], results, strict=True) if "path" not in r]
    assert refused == []
    assert [r["content"] for r in results[len(paths) :]] == [contents[p] for p in paths]
    for path, question in zip(paths, scene.questions, strict=True):
        assert (scene.root / path).read_bytes() == contents[path].encode()
        shown = str(question)
        assert ("path", str(PurePosixPath(path))) in pieces(shown)
        assert not question.cautions
        assert not misfits(shown)
        assert ("⟦" in shown) is any(joiner in path for joiner in JOINERS), shown


def test_ordinary_commands_are_asked_about_and_shown_as_they_are(scene: Scene) -> None:
    """Each command is asked about once, whole and readable, with no caution of its own."""
    results = scene.run(tuple(("run_bash", {"command": c}) for c in COMMANDS), "n")
    assert {result["status"] for result in results} == {"rejected"}
    for command, question in zip(COMMANDS, scene.questions, strict=True):
        shown = str(question)
        assert ("command", command) in pieces(shown)
        assert question.cautions == (WARNING,)
        assert ("⟦" in shown) is any(joiner in command for joiner in JOINERS), shown
