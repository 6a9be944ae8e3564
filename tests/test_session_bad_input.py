"""What a disk, a file or a user can do to a session: a clear error, and nothing lost."""

import errno
import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
from toolkit import JSON, agent, answers, assistant, attempt, lines, log, opaque, user

from lai import Question, Session, SessionError, SessionFailed, session_path

CASES = Path(__file__).parent / "data" / "cases"
NEW = {"type": "note", "v": "新的\u2028一行"}
BAD_IDS = [
    "a/b",
    "/",
    "../x",
    "..",
    ".",
    "",
    "x" * 65,
    "书",
    "a\n",
    "\na",
    "a b",
    "a.b",
    "a\0",
    "é",
]


@pytest.mark.parametrize("name", BAD_IDS)
def test_a_session_id_that_is_no_plain_name(tmp_path: Path, name: str) -> None:
    """An id that could leave the folder or name another file is refused, and nothing is made."""
    with pytest.raises(SessionError, match="only ASCII letters, digits"):
        session_path(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["demo", "A-z_09", "x" * 64, "-"])
def test_a_good_session_id(tmp_path: Path, name: str) -> None:
    """The file of a session stands in .agent_state and bears its id; naming it makes nothing."""
    path = session_path(tmp_path, name)
    assert path == tmp_path / ".agent_state" / f"session-{name}.jsonl"
    assert list(tmp_path.iterdir()) == []
    with Session.open(path) as session:
        assert session.id == name


def a_folder(tmp_path: Path) -> Path:
    """A folder stands where the session file should be."""
    (tmp_path / "session-x.jsonl").mkdir()
    return tmp_path / "session-x.jsonl"


def below_a_file(tmp_path: Path) -> Path:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("书")
    return tmp_path / "file" / "session-x.jsonl"


def deep_below_a_file(tmp_path: Path) -> Path:
    """A file stands where the workspace should be."""
    return below_a_file(tmp_path).parent / ".agent_state" / "session-x.jsonl"


PLACES = [a_folder, below_a_file, deep_below_a_file]
PLACES += [lambda tmp_path: tmp_path / ("书" * 300), lambda _tmp_path: Path()]


@pytest.mark.parametrize("way", [Session.open, Session.read])
@pytest.mark.parametrize("place", PLACES)
def test_a_place_where_no_session_can_be(
    tmp_path: Path, place: Callable[[Path], Path], way: Callable[[Path], Session]
) -> None:
    """Opening and reading raise SessionError with the path, and destroy nothing."""
    path = place(tmp_path)
    with pytest.raises(SessionError) as error:
        way(path)
    assert str(path) in str(error.value)
    assert all(file.read_text() == "书" for file in tmp_path.glob("file"))


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EMFILE])
def test_a_folder_that_takes_no_files(tmp_path: Path, code: int) -> None:
    """A read-only, forbidden or full disk is named with its reason; the lock is not kept."""
    path, real = tmp_path / "session-x.jsonl", os.open

    def refuse(name: Path, flags: int, *more: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(code, os.strerror(code))
        return real(name, flags, *more)

    with mock.patch("os.open", refuse), pytest.raises(SessionError) as error:
        Session.open(path)
    assert str(path) in str(error.value)
    assert os.strerror(code) in str(error.value)
    Session.open(path).close()


def test_a_folder_entry_that_was_not_made_durable_is_tried_again(tmp_path: Path) -> None:
    """If the folder's fsync failed at creation, the opening raises and the next one repeats it."""
    path, synced = tmp_path / "session-x.jsonl", []

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(SessionError, match="Input/output error"):
        Session.open(path, fsync=fail)
    Session.open(path, fsync=lambda fd: synced.append(os.fstat(fd).st_ino)).close()
    assert tmp_path.stat().st_ino in synced


class Broken:
    """An fsync or write that raises once when it is armed, then works as if nothing had been."""

    def __init__(self, real: Callable[..., int | None], error: BaseException) -> None:
        self.real, self.error, self.armed = real, error, False

    def __call__(self, *args: int) -> int | None:
        """Raise if it is armed."""
        if self.armed:
            self.armed = False
            raise self.error
        return self.real(*args)


ERRORS = [OSError(errno.ENOSPC, "No space"), OSError(errno.EIO, "I/O"), KeyboardInterrupt()]


@pytest.mark.parametrize("name", ["write", "fsync"])
@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_nothing_is_appended_after_a_failure(
    tmp_path: Path, name: str, error: BaseException
) -> None:
    """After a failed write or fsync the session refuses; memory holds only what was confirmed."""
    path, broken = tmp_path / "session-书.jsonl", Broken(getattr(os, name), error)
    with (
        mock.patch(f"os.{name}", broken),
        Session.open(path, fsync=os.fsync) as session,
    ):
        session.append(NEW)
        broken.armed = True
        with pytest.raises((SessionFailed, KeyboardInterrupt)) as raised:
            session.append({"type": "note", "v": 2})
        if isinstance(error, OSError):
            assert f"{path}: line 2" in str(raised.value)
            assert error.strerror in str(raised.value)
        before = path.read_bytes()
        for _ in range(2):
            with pytest.raises(SessionFailed, match="open the session again"):
                session.append(NEW)
        assert (session.records, path.read_bytes()) == ([NEW], before)
    with Session.open(path) as session:
        assert session.records == log(path)
        session.append(NEW)
    assert path.read_bytes().startswith(before)


def test_short_writes_are_completed(tmp_path: Path) -> None:
    """A disk that takes one byte at a time still gets the whole record, with one fsync."""
    path, real, synced = tmp_path / "session-x.jsonl", os.write, []
    with Session.open(path, fsync=synced.append) as session:
        synced.clear()
        with mock.patch("os.write", lambda fd, data: real(fd, bytes(data[:1]))):
            session.append(NEW)
        assert len(synced) == 1
    assert log(path) == [NEW]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes: the kernel writes what fits, then refuses."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SCRIPT = [[("send", {"text": "书\u2028"})], "完成"]
# The record that finds no room, the times the tool ran until then, how a person answers after
# the restart (None: nobody is there), the status that the model is told.
FULL = [
    ("assistant", 0, ["y"], "succeeded"),
    ("approved", 0, ["y"], "succeeded"),
    ("running", 0, ["y"], "succeeded"),
    ("terminal", 1, None, "unknown"),
    ("tool_message", 1, [], "succeeded"),
]


def turn(path: Path, effects: Path, said: list[str] | None) -> str | Question:
    """Begin a turn with one call, or go on with it; the same ids come every time."""
    numbers, begun = count(), path.exists()
    ask = None if said is None else answers(said)
    new_id = lambda prefix: f"{prefix}_{begun}_{next(numbers)}"  # noqa: E731
    with agent(path, SCRIPT, [opaque(effects)], ask, new_id=new_id) as one:
        try:
            return one.continue_turn() if begun else one.run("写 书")
        except SessionFailed:
            with pytest.raises(SessionFailed, match="open the session again"):
                one.journal.append(NEW)
            raise
        finally:
            assert one.journal.session.records == Session.read(path).records


@pytest.mark.parametrize("half", [False, True], ids=["nothing written", "half written"])
@pytest.mark.parametrize(("kind", "ran", "said", "told"), FULL)
def test_k2_09_a_full_disk(
    tmp_path: Path, kind: str, ran: int, said: list[str] | None, told: str, half: bool
) -> None:
    """K2-09: the error comes at once, nothing runs behind it, and the restart is right."""
    points = json.loads((CASES / "K2-09.case.json").read_text("utf-8"))["points"]
    assert [row[0] for row in FULL] == points
    turn(tmp_path / "whole", tmp_path / "other effects", ["y"])
    whole = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    place = points.index(kind) + 1  # the user message stands before them
    size = len(b"".join(whole[:place])) + (len(whole[place]) // 2 if half else 0)
    path, effects = tmp_path / "session-x.jsonl", tmp_path / "effects"
    with room_for(size), pytest.raises(SessionFailed, match=f"line {place + 1} may not be"):
        turn(path, effects, ["y"])
    torn = path.read_bytes()
    assert torn == b"".join(whole)[:size]
    assert len(lines(effects)) == ran
    assert turn(path, effects, said) == "完成"
    assert path.read_bytes().startswith(torn)
    assert len(lines(effects)) == 1
    results = [r["message"] for r in Session.read(path).records if r.get("message")]
    results = [json.loads(m["content"])["status"] for m in results if m["role"] == "tool"]
    assert results == [told]
    assert Session.read(path).unacknowledged == []


def big_session(path: Path, case: JSON) -> None:
    """Write ``turns`` of question, call, result and answer; the last call is left running."""
    call = ("call_#", "read_file", {"path": "书.txt"})
    content = json.dumps({"status": "completed", "content": "x" * (case["tool_result_bytes"] - 40)})
    result = {"role": "tool", "tool_call_id": "call_#", "content": f"{content} 书"}
    ledger = attempt(call, "approved", "running", execution_id="exec_#")
    opening = [user("读 #"), assistant(call)]
    ending = [{"type": "message", "message": result}, assistant(text="读完了 #")]
    done = attempt(call, "succeeded", execution_id="exec_#")
    plain, full = opening + ending, opening + ledger + done + ending
    with path.open("w", encoding="utf-8", newline="\n") as out:
        text = {k: "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in v) for k, v in
                {"plain": plain, "full": full, "last": opening + ledger}.items()}  # fmt: skip
        for turn_number in range(case["turns"]):
            kind = "plain" if turn_number % case["ledger_every"] else "full"
            kind = "last" if turn_number == case["turns"] - 1 else kind
            out.write(text[kind].replace("#", str(turn_number)))


READER = """
    import json, re, sys
    from lai import Agent, Session, scripted
    def proc(file, name):
        return int(re.search(rf"{name}:\\s+(\\d+)", open(f"/proc/self/{file}").read())[1])
    before = proc("status", "VmRSS")
    with Session.open(sys.argv[1]) as session:
        agent = Agent(session, scripted([]), [])
        action = agent.next_action()
        read = proc("io", "rchar")
        session.append({"type": "note", "v": "\\u4e66"})
        read = proc("io", "rchar") - read
        print(json.dumps([type(action).__name__, action.call.id, len(agent.history.ledger.open),
                          len(session.records), read, (proc("status", "VmHWM") - before) * 1024]))
"""


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="memory is read from /proc")
def test_k2_11_a_session_of_100_mb(tmp_path: Path) -> None:
    """K2-11: it loads in under four times its size, finds its open call, and appends unread."""
    case = json.loads((CASES / "K2-11.case.json").read_text("utf-8"))
    path, turns = tmp_path / "session-x.jsonl", case["generate"]["turns"]
    big_session(path, case["generate"])
    size = path.stat().st_size
    assert 80_000_000 < size < 120_000_000
    command = [sys.executable, "-c", textwrap.dedent(READER), str(path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, check=True)
    action, call_id, still_open, records, read, memory = json.loads(done.stdout)
    assert (action, call_id, still_open) == ("Settle", f"call_{turns - 1}", 1)
    assert records == 4 * turns + 3 * turns // case["generate"]["ledger_every"] + 1
    assert memory < case["expect"]["memory_times_file_max"] * size
    assert read < 100_000
    assert path.stat().st_size > size
