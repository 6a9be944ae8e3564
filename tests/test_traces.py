"""Whether a command of an earlier process still runs is seen, not guessed."""

import os
import subprocess
from pathlib import Path

import pytest

from lai import processes, traces

ID = "exec_痕"


@pytest.fixture
def sleeper() -> "subprocess.Popen[bytes]":
    """A command in a session of its own, as ``run_bash`` starts one."""
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


@pytest.fixture(autouse=True)
def _ended(sleeper: "subprocess.Popen[bytes]") -> object:
    yield
    sleeper.kill()
    sleeper.wait()


def seen(root: Path) -> str:
    """What a person would be told."""
    told = traces.look(root, ID)
    assert (told["still_running"] is True) == ("not over" in told["seen"])
    return str(told["seen"])


def test_a_running_command_is_seen(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    """While it runs its number is named; once it has ended nothing is left."""
    traces.leave(tmp_path, ID, sleeper.pid)
    assert f"(process {sleeper.pid})" in seen(tmp_path)
    sleeper.kill()
    sleeper.wait()
    assert seen(tmp_path) == "no process of it is left"


@pytest.mark.parametrize("field", [1, 2])
def test_another_process_under_the_same_number_is_not_taken_for_it(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]", field: int
) -> None:
    """A number that was given out again, since or after a boot, is somebody else's."""
    traces.leave(tmp_path, ID, sleeper.pid)
    [note] = tmp_path.rglob("*.process")
    parts = note.read_text().split()
    parts[field] = "9" + parts[field]
    note.write_text(" ".join(parts))
    assert seen(tmp_path) == "no process of it is left"


@pytest.mark.parametrize("text", [None, "", "书", "-1 x y"])
def test_without_a_note_it_says_that_it_cannot_tell(tmp_path: Path, text: str | None) -> None:
    """No note, or one that says nothing, is no evidence either way."""
    if text is not None:
        folder = tmp_path / ".agent_state" / "artifacts"
        folder.mkdir(parents=True)
        (folder / f"{ID}.process").write_text(text, encoding="utf-8")
    assert "not over" not in seen(tmp_path)


def test_where_the_system_cannot_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc nothing is noted, and nothing is claimed."""
    monkeypatch.setattr(processes, "PROC", tmp_path / "none")
    traces.leave(tmp_path, ID, os.getpid())
    assert "cannot be told" in seen(tmp_path)
    assert not list(tmp_path.rglob("*.process"))
