"""Claims that no other test made: each was found by a seeded fault that nobody noticed."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from sums import digest, line_of
from toolkit import Text, agent, answers, log, opaque

from lai import Run, Session, Tool, ToolError, workspace_tools
from lai.actions import Attempt

SEND = ("send", {"text": "书\u2028"})


def test_two_equal_wishes_are_two_actions(tmp_path: Path) -> None:
    """The same call twice in one message has two keys, and happens twice if a person agrees."""
    path, effects = tmp_path / "session-书.jsonl", tmp_path / "effects"
    with agent(path, [[SEND, SEND], "好"], [opaque(effects)], answers(["y", "y"])) as one:
        one.run("寄两本")
    approved = [r for r in log(path) if r.get("status") == "approved"]
    assert len({record["idempotency_key"] for record in approved}) == 2
    assert len(effects.read_text("utf-8").splitlines()) == 2


def test_a_result_stands_under_the_attempt_that_made_it(tmp_path: Path) -> None:
    """A tool that returns a status and an id of its own renames neither."""
    lies = {"status": "failed", "execution_id": "exec_别人", "说": "书"}
    tool = Tool(name="send", description="", arguments=Text, run=lambda *_: lies)
    path = tmp_path / "session-书.jsonl"
    with agent(path, [[SEND], "好"], [tool], answers(["y"])) as one:
        one.run("寄")
    (end,) = [r for r in log(path) if r.get("status") == "succeeded"]
    assert end["result"] == {"status": "succeeded", "execution_id": end["execution_id"], "说": "书"}


def test_whoever_watches_is_told_of_what_is_on_the_disk(tmp_path: Path) -> None:
    """When an attempt is told of, its outcome is in the file."""
    path = tmp_path / "session-书.jsonl"
    seen: list[list[Any]] = []
    with agent(path, [[SEND], "好"], [opaque(tmp_path / "effects")], answers(["y"])) as one:
        one.watch = lambda action: seen.append([type(action), *(r["type"] for r in log(path))])
        one.run("寄")
    (told,) = [types for types in seen if types[0] is Attempt]
    assert told.count("tool_execution") == 3


def test_the_lock_file_stays(tmp_path: Path) -> None:
    """It is never removed: else one process could hold the old file and another the new."""
    path = tmp_path / "session-书.jsonl"
    found = []
    for _ in range(2):
        with Session.open(path):
            found.append(path.with_name(f"{path.name}.lock").stat().st_ino)
        assert path.with_name(f"{path.name}.lock").exists()
    assert found[0] == found[1]


def test_the_checksum_covers_the_name_of_the_line_before(tmp_path: Path) -> None:
    """One over the record alone would let a line be moved anywhere by who changes its name."""
    path = tmp_path / "session-书.jsonl"
    head = line_of({"type": "note", "v": "书"})[:-2]
    path.write_bytes(head + f',"sum":"{"0" * 12}-{digest(head)}"}}\n'.encode())
    session = Session.read(path)
    assert (session.records, [d.lost for d in session.damage]) == ([], [True])


def test_a_session_beside_the_state_folder_is_private_too(tmp_path: Path) -> None:
    """Wherever somebody puts it, whatever the umask: nobody else reads it."""
    path, umask = tmp_path / "session-书.jsonl", os.umask(0)
    try:
        Session.open(path).close()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_put_there_at_the_last_moment_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a file when it was looked at, and is a link when it is opened: nothing is read."""
    root, secret = tmp_path / "工作", tmp_path / "secret.txt"
    root.mkdir()
    secret.write_text("秘密", "utf-8")
    (root / "a.txt").write_text("书", "utf-8")
    read_file, *_ = workspace_tools(root, sandbox="none")
    real = os.open

    def late(path: Any, flags: int, *more: Any, **where: Any) -> int:
        if path == "a.txt":
            (root / "a.txt").unlink()
            (root / "a.txt").symlink_to(secret)
        return real(path, flags, *more, **where)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(ToolError):
        read_file.run({"path": "a.txt"}, Run("", ""))
    assert (root / "a.txt").is_symlink()
