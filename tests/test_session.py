"""The session file: durable appends, tails cut at every byte, one writer, nothing removed."""

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sums import added
from test_records import JSON_VALUES, TEXTS
from toolkit import JSON, assistant, attempt, user

from lai import Session, SessionError, SessionLocked

CALL = ("call_1", "send", {"text": "书"})
RECORDS = [
    user("写一本书 📖"),
    assistant(CALL, text="\u2028好"),
    *attempt(CALL, "approved", "running", "succeeded", base_sha256=None),
    {"type": "message", "message": {"role": "tool", "tool_call_id": "call_1", "content": "\u0085"}},
    {"type": "newer", "v": [{"type": "newer"}, "}{", "书"]},
    {"type": "compaction", "summary": "书\u2029", "first_kept": 1},
    assistant(text="完成 \u0085🚀"),
    user("再见\x18"),
]
NEW = {"type": "note", "v": "新的\u2028一行"}


WHOLE = added(b"", *RECORDS)
ENDS = [len(added(b"", *RECORDS[:n])) for n in range(len(RECORDS) + 1)]


def committed(cut: int) -> list[JSON]:
    """The records whose last bracket stands before the cut: the newline may be missing."""
    return [record for record, end in zip(RECORDS, ENDS[1:], strict=True) if end - 1 <= cut]


def fresh(path: Path) -> Session:
    """Open without waiting for the disk: these tests cut bytes, not power."""
    return Session.open(path, fsync=lambda _fd: None)


def kept(session: Session) -> list[JSON]:
    """What a session holds besides its own notes of mended tails."""
    return [record for record in session.records if record["type"] != "repair"]


def same_as_on_disk(session: Session) -> bool:
    """Whether memory holds what a fresh reader finds, records and lines."""
    read = Session.read(session.path)
    return (session.records, session.lines) == (read.records, read.lines)


def assert_mended(path: Path, old: bytes, expected: list[JSON]) -> None:
    """Open, append, open again: the expected records and the new one, no byte of ``old`` gone."""
    path.unlink(missing_ok=True)  # a new file is faster than emptying the old one
    path.write_bytes(old)
    with fresh(path) as session:
        assert kept(session) == expected
        assert session.unacknowledged == []
        mended = path.read_bytes()
        session.append(NEW)
        assert same_as_on_disk(session)
    assert mended.startswith(old)
    assert path.read_bytes() == added(mended, NEW)
    with fresh(path) as session:
        assert kept(session) == [*expected, NEW]
        assert session.unacknowledged == []
    assert path.read_bytes() == added(mended, NEW)


@pytest.mark.parametrize("fill", [b"", b"\0" * 64], ids=["plain", "NULs"])
def test_a_session_cut_at_every_byte_loses_only_the_cut_record(tmp_path: Path, fill: bytes) -> None:
    """Cut anywhere, with NULs behind or not: whole records stay, the next append stands alone."""
    path = tmp_path / "session-书.jsonl"
    for cut in range(len(WHOLE) + 1):
        assert_mended(path, WHOLE[:cut] + fill, committed(cut))


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_dying_while_mending_leaves_a_torn_tail_again(tmp_path: Path, number: int) -> None:
    """The bytes that mending writes are cut at every byte too, and mended like any other."""
    path = tmp_path / "session-x.jsonl"
    torn = WHOLE[: ENDS[number] + 40]
    path.write_bytes(torn)
    fresh(path).close()
    mended = path.read_bytes()
    for cut in range(len(torn), len(mended) + 1):
        assert_mended(path, mended[:cut], committed(ENDS[number]))


def test_a_torn_tail_is_reported_sealed_and_explained(tmp_path: Path) -> None:
    """One 0x18, a newline and a repair record follow the torn bytes: line, offset, size, hash."""
    path = tmp_path / "session-x.jsonl"
    torn = WHOLE[ENDS[2] : ENDS[2] + 30]
    path.write_bytes(WHOLE[: ENDS[2]] + torn)
    place = {"line": 3, "offset": ENDS[2], "bytes": 30}
    repair = {"type": "repair", **place, "sha256": hashlib.sha256(torn).hexdigest()}
    with Session.open(path) as session:
        assert [(d.line, d.offset, d.size) for d in session.damage] == [(3, ENDS[2], 30)]
        assert session.records[2:] == [repair]
    assert path.read_bytes() == added(WHOLE[: ENDS[2]] + torn + b"\x18\n", repair)


def test_a_tail_torn_three_times(tmp_path: Path) -> None:
    """Three appends in a row that die half-way leave three sealed lines and every whole record."""
    path = tmp_path / "session-x.jsonl"
    expected = []
    for number, record in enumerate(RECORDS[:3]):
        with fresh(path) as session:
            session.append(record)
        expected.append(record)
        cut = path.stat().st_size + 20 + number
        old = added(path.read_bytes(), RECORDS[number + 3])[:cut]
        path.write_bytes(old)
        assert_mended(path, old, expected)
        expected.append(NEW)
    assert path.read_bytes().count(b"\x18\n") == 3


@pytest.mark.parametrize(("case", "whole"), [("K2-01", 4), ("K2-01.b", 4)])
def test_k2_01_tails(tmp_path: Path, case: str, whole: int) -> None:
    """K2-01: a cut line is sealed and reported, a whole one gets its newline; no byte goes."""
    raw = (Path(__file__).parent / "data" / "cases" / f"{case}.jsonl").read_bytes()
    records = [json.loads(r) for r in raw.split(b"\n")[:whole]]
    assert_mended(tmp_path / "session-x.jsonl", raw, records)
    torn = [(d.line, d.offset) for d in Session.read(tmp_path / "session-x.jsonl").damage]
    assert torn == ([(5, raw.rindex(b"\n") + 1)] if case == "K2-01" else [])


@given(st.lists(st.dictionaries(TEXTS, JSON_VALUES, max_size=3), max_size=6), st.data())
def test_any_records_round_trip(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[JSON], data: st.DataObject
) -> None:
    """Records of any content, appended over any number of openings, come back in order."""
    path = tmp_path_factory.mktemp("s") / "session-书.jsonl"
    records = [{**body, "type": "note"} for body in bodies]
    at = data.draw(st.integers(0, len(records)))
    for part in (records[:at], records[at:]):
        with fresh(path) as session:
            assert [session.append(r) for r in part] == list(session.lines)[-len(part) :][
                : len(part)
            ]
            assert same_as_on_disk(session)
    assert Session.read(path).records == records
    assert path.read_bytes() == added(b"", *records)


def test_reading_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    """Session.read leaves a torn file as it is, makes no file, and works beside a writer."""
    path = tmp_path / "session-x.jsonl"
    with pytest.raises(SessionError, match="session-x"):
        Session.read(path)  # nothing is there, and none is made
    path.write_bytes(WHOLE[:-9])
    before = path.stat()
    session = Session.read(path)
    assert (session.records, len(session.damage)) == (RECORDS[:-1], 1)
    assert path.read_bytes() == WHOLE[:-9]
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert list(tmp_path.iterdir()) == [path]
    with Session.open(path) as writer:
        assert Session.read(path).records == writer.records
        writer.append(NEW)
        assert Session.read(path).records[-1] == NEW


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the session open until its input ends."""
    code = """
        import sys
        from lai import Session
        with Session.open(sys.argv[1]):
            print("open", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], **pipes) as process:
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_another_process_is_refused_and_a_dead_one_is_not(tmp_path: Path) -> None:
    """A second opener gets an error with file and pid; SIGKILL of the holder frees the session."""
    path = tmp_path / "书" / "session-x.jsonl"
    with holder(path) as process:
        for _ in range(2):
            with pytest.raises(SessionLocked) as error:
                Session.open(path)
            assert str(path) in str(error.value)
            assert str(process.pid) in str(error.value)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with Session.open(path) as session:
            session.append(NEW)
            with pytest.raises(SessionLocked, match=rf"process {os.getpid()}\b"):
                Session.open(path)
    assert path.read_bytes() == added(b"", NEW)


def test_the_same_process_is_refused_too(tmp_path: Path) -> None:
    """The lock knows no friends: a second opening raises with our own pid, the first goes on."""
    path = tmp_path / "session-x.jsonl"
    path.with_name(f"{path.name}.lock").write_text("9" * 20)  # a dead holder's
    with Session.open(path) as first:
        with pytest.raises(SessionLocked, match=rf"process {os.getpid()}\b"):
            Session.open(path)
        Session.read(path)  # opening and closing the file by other means drops no lock
        with pytest.raises(SessionLocked):
            Session.open(path)
        first.append(NEW)
        first.close()
        first.close()
    with Session.open(path) as second:
        assert second.records == [NEW]


class Disk:
    """Counts the fsyncs of files and of folders."""

    def __init__(self) -> None:
        self.files: list[int] = []  # the size that was made durable
        self.folders: list[int] = []  # the inode

    def __call__(self, fd: int) -> None:
        """Make it durable and remember what it was."""
        os.fsync(fd)
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            self.folders.append(found.st_ino)
        else:
            self.files.append(found.st_size)


def test_one_fsync_for_each_record(tmp_path: Path) -> None:
    """Every append is exactly one fsync, of all its bytes, and none of a folder."""
    disk, path = Disk(), tmp_path / "session-x.jsonl"
    with Session.open(path, fsync=disk) as session:
        disk.files.clear()
        disk.folders.clear()
        for number, record in enumerate(RECORDS, start=1):
            session.append(record)
            assert (disk.files, disk.folders) == (ENDS[1 : number + 1], [])


def test_what_opening_found_is_made_durable(tmp_path: Path) -> None:
    """A process before may have died ahead of its fsync: file and folder entry are fsynced."""
    disk, path = Disk(), tmp_path / "session-x.jsonl"
    path.write_bytes(WHOLE)
    with Session.open(path, fsync=disk):
        assert disk.files == [len(WHOLE)]
        assert disk.folders == [tmp_path.stat().st_ino]


@pytest.mark.parametrize("new", [[], [".agent_state"], ["workspace", ".agent_state"]])
def test_the_folder_entries_are_made_durable(tmp_path: Path, new: list[str]) -> None:
    """The folder of a new file, and that of every new folder, is fsynced."""
    disk, path = Disk(), tmp_path.joinpath(*new, "session-x.jsonl")
    Session.open(path, fsync=disk).close()
    changed = [tmp_path, *(tmp_path.joinpath(*new[: n + 1]) for n in range(len(new)))]
    assert {folder.stat().st_ino for folder in changed} <= set(disk.folders)


def test_a_folder_that_another_process_makes_meanwhile(tmp_path: Path) -> None:
    """Two processes may begin in one new workspace: the folder that is there already is used."""
    path = tmp_path / "workspace" / ".agent_state" / "session-x.jsonl"
    meanwhile = lambda _fd: path.parent.mkdir(parents=True, exist_ok=True)  # noqa: E731
    with Session.open(path, fsync=meanwhile) as session:
        session.append(NEW)
    assert path.read_bytes() == added(b"", NEW)


def test_permissions(tmp_path: Path) -> None:
    """Whatever the umask: the folder is 0700, and every file in it 0600."""
    path = tmp_path / ".agent_state" / "session-x.jsonl"
    umask = os.umask(0)
    try:
        with Session.open(path) as session:
            session.append(NEW)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}
