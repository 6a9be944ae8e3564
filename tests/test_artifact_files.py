"""The file of a large result: who may read it, and what stands in its way."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lai.artifacts import bounded
from lai.tokens import estimate

LINES = "".join(f"第{n}行 🧾\u2028\r\n" for n in range(9000))
RESULT = {"status": "succeeded", "execution_id": "exec_" + "0123456789abcdef" * 2, "out": LINES}


def within(result: Any, tokens: int | None) -> bool:
    text = json.dumps(result, ensure_ascii=False)
    return len(text.encode()) <= 50 * 1024 and (tokens is None or estimate(text) <= tokens)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "工作区").mkdir()
    return tmp_path / "工作区/.agent_state/artifacts"


def test_an_artifact_is_for_its_owner_only(folder: Path) -> None:
    """Folders are 0700 and files 0600, whatever the umask; the name is that of the content."""
    before = os.umask(0)
    try:
        short = bounded(RESULT, folder)
    finally:
        os.umask(before)
    names = folder.parent, folder, folder / Path(short["artifact_path"]).name
    assert [stat.S_IMODE(name.stat().st_mode) for name in names] == [0o700, 0o700, 0o600]


@pytest.mark.parametrize("left", [None, 0, 1000, -3])
def test_writing_it_again_completes_it(folder: Path, left: int | None) -> None:
    """The same result has the same artifact; one that was cut short or grew is made whole."""
    first = bounded(RESULT, folder)
    file = folder / Path(first["artifact_path"]).name
    whole = file.read_bytes()
    file.write_bytes(whole[:left] if left != -3 else whole + b"\xff" * 9)
    assert bounded(RESULT, folder) == first
    assert file.read_bytes() == whole
    assert list(folder.iterdir()) == [file]


def outside(folder: Path) -> Path:
    """A folder beside the workspace, with something in it that nobody may touch."""
    place = folder.parents[2] / "外"
    place.mkdir()
    (place / "秘密").write_text("秘密", "utf-8")
    return place


def linked_folder(file: Path) -> None:
    file.parents[1].mkdir()
    file.parent.symlink_to(outside(file.parent))


def linked_state(file: Path) -> None:
    file.parents[1].symlink_to(outside(file.parent))


def linked_file(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.symlink_to(outside(file.parent) / "秘密")


def hard_link(file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.hardlink_to(outside(file.parent) / "秘密")


def pipe(file: Path) -> None:
    file.parent.mkdir(parents=True)
    os.mkfifo(file)


def folder_there(file: Path) -> None:
    file.mkdir(parents=True)


def file_for_folder(file: Path) -> None:
    file.parents[1].write_text("文件", "utf-8")


def no_workspace(file: Path) -> None:
    file.parents[2].rmdir()


OBSTACLES: list[tuple[Callable[[Path], None], str]] = [
    (linked_folder, "symbolic link"),
    (linked_state, "symbolic link"),
    (linked_file, "symbolic link"),
    (hard_link, "another name"),
    (pipe, ""),
    (folder_there, "directory"),
    (file_for_folder, "not a folder"),
    (no_workspace, "cannot be opened"),
]


def artifact(folder: Path) -> Path:
    """Where the artifact of RESULT will be; nothing is there yet."""
    return folder / f"result-{hashlib.sha256(LINES.encode()).hexdigest()[:16]}.txt"


@pytest.mark.parametrize("tokens", [None, 300])
@pytest.mark.parametrize(("obstacle", "why"), OBSTACLES)
def test_what_stands_in_the_way_is_said_and_never_raised(
    folder: Path, obstacle: Callable[[Path], None], why: str, tokens: int | None
) -> None:
    """The effect has happened: the result is short all the same, and nothing outside changes."""
    obstacle(artifact(folder))
    open_before = len(list(Path("/dev/fd").iterdir()))
    short = bounded(RESULT, folder, tokens)
    assert len(list(Path("/dev/fd").iterdir())) == open_before
    assert within(short, tokens)
    assert short["artifact_path"] is None
    assert short["bytes"] == len(LINES.encode())
    assert " could not be kept: " in short["note"]
    assert why in short["note"]
    assert short["preview"]
    assert LINES.startswith(short["preview"])
    there = {path.name: path.read_text("utf-8") for path in folder.parents[2].glob("外/*")}
    assert there in ({}, {"秘密": "秘密"})


def test_nothing_is_poured_into_a_pipe(folder: Path) -> None:
    """A pipe that somebody reads could be opened: it gets nothing and stays where it is."""
    pipe(artifact(folder))
    reader = os.open(artifact(folder), os.O_RDONLY | os.O_NONBLOCK)
    try:
        short = bounded(RESULT, folder)
        assert os.read(reader, 10) == b""
    finally:
        os.close(reader)
    assert "named pipe" in short["note"]
    assert artifact(folder).is_fifo()


@pytest.mark.parametrize("before", [None, "half", "whole"])
def test_a_full_disk_leaves_no_half_artifact(folder: Path, before: str | None) -> None:
    """Half an artifact would take the room of the session; one that was whole stays whole."""
    file, data = artifact(folder), LINES.encode()
    if before:
        bounded(RESULT, folder)
        file.write_bytes(data[: len(data) // (2 if before == "half" else 1)])
    real, writes = os.write, []

    def write(descriptor: int, rest: Any) -> int:
        writes.append(descriptor)
        if len(writes) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, bytes(rest)[: len(data) // 3])

    with mock.patch("os.write", write):
        short = bounded(RESULT, folder)
    assert within(short, None)
    assert short["artifact_path"] is None
    assert short["note"].endswith("could not be kept: No space left on device")
    assert [path.read_bytes() for path in folder.iterdir()] == ([data] if before == "whole" else [])
