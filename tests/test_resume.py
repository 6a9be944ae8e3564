"""Opening a long session behind its latest compaction: the same as reading all of it."""

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sums import line_of
from talk import (
    DOUBTFUL,
    LONG,
    PLAIN,
    WORDS,
    Talk,
    command_line,
    prefixes,
    same_either_way,
    told,
    whole,
)
from toolkit import JSON, assistant, attempt, kinds, log, resolution, user

from lai import Session, SessionDamaged
from lai.journal import history_of
from lai.ledger import IllegalTransition
from lai.logfile import LogFile

MORE = ["both", "long", "act", "verdict", "look", "compact", "again", "talk", "look"]


def both_go_on(folder: Path, data: bytes, words: list[str]) -> tuple[Talk, Talk]:
    """The same talk goes on in two sessions, one of them read from its first line each time."""
    folder.mkdir()
    talks = []
    for full in (False, True):
        path = folder / str(full) / "session-书.jsonl"
        path.parent.mkdir()
        path.write_bytes(data)
        talks.append(Talk(path, full=full, first_id=10**6).go(words))
    return talks[0], talks[1]


@example(["long", "compact", "compact", "both", "wait", "both", "again", "compact"], [])
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=3, max_size=16),
    st.lists(st.sampled_from(WORDS), max_size=5),
)
def test_a_part_tells_what_the_whole_tells(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], more: list[str]
) -> None:
    """View, open calls, doubts, news and decisions are the same at each line; so is what follows.

    Turns are finished, interrupted, refused, lost and resolved, compactions come by themselves
    and by hand.
    """
    folder = tmp_path_factory.mktemp("resume")
    talk = Talk(folder / "session-书.jsonl").go([*words, "look", "compact"])
    data = talk.path.read_bytes()
    for part in prefixes(data):
        (folder / "session-part.jsonl").write_bytes(part)
        same_either_way(folder / "session-part.jsonl", talk.tools)
    fast, full = both_go_on(folder / "on", data, more)
    assert fast.path.read_bytes() == full.path.read_bytes()
    assert fast.deeds == full.deeds


@pytest.mark.parametrize("words", [DOUBTFUL, PLAIN])
def test_a_part_is_all_that_is_read(tmp_path: Path, words: list[str]) -> None:
    """It begins where the compaction says, at the call in doubt if there is one."""
    talk = Talk(tmp_path / "session-书.jsonl").go(words)
    record = next(r for r in log(talk.path)[::-1] if r["type"] == "compaction")
    first = record.get("resume_line", record["first_kept"])
    with Session.open(talk.path) as session:
        assert history_of(session).partial
        assert session.recent.start == first > 1
        assert session.recent.records == log(talk.path)[first - 1 :]
        assert len(session.recent.lines) < len(session.lines)  # asking for them reads the rest
        assert session.records == log(talk.path)
        assert list(session.lines) == list(range(1, len(session.records) + 1))
    assert ("resume_line" in record) is ("lose" in words)


CALL, OTHER = ("c1", "act", {"text": "lose 书"}), ("c1", "act", {"text": "act 💶"})
NONE = ("c9", "act", {"text": "书"})


def result(call_id: str) -> JSON:
    """A tool result."""
    message = {"role": "tool", "tool_call_id": call_id, "content": LONG}
    return {"type": "message", "message": message}


LOST = [assistant(CALL), *attempt(CALL, "approved", "running", "unknown"), result("c1")]
DONE = [assistant(OTHER), *attempt(OTHER, "approved", "running", "failed", execution_id="exec_2")]
TURN = [user(f"寄 {LONG * 9}"), *LOST, assistant(text="?")]
OLDER = {"type": "compaction", "summary": "旧", "retained_tail": [user()["message"]]}
REPAIRED = {"type": "repair", "line": 1, "sha256": sha256(b"{").hexdigest()}
Encode = Callable[[JSON], bytes]
FOREIGN: dict[str, tuple[list[JSON], Encode]] = {
    "spaces": (TURN, lambda r: json.dumps(r).encode() + b"\n"),
    "carriage returns": (TURN, lambda r: line_of(r)[:-1] + b"\r\n"),
    "NULs": (TURN, lambda r: line_of(r)[:-1] + b"\0\0\n"),
    "glued lines": (TURN, lambda r: line_of(r)[: -1 if r["type"] == "tool_execution" else None]),
    "an id used twice": ([*TURN, user(), *DONE, result("c1")], line_of),
    "an empty id": ([*TURN, user(), assistant(("", *NONE[1:])), result("")], line_of),
    "a result too late": ([user(), *LOST[:-1], user(), LOST[-1]], line_of),
    "results of nothing": ([*TURN, result("c1"), result("c9")], line_of),
    "an attempt at nothing": ([*TURN, *attempt(NONE, "approved", execution_id="e")], line_of),
    "an attempt left running": ([user(LONG * 9), *LOST[:3], LOST[4], assistant(text="?")], line_of),
    "a verdict": ([*TURN, resolution("not_happened")], line_of),
    "an older compaction": ([*TURN, OLDER, *TURN[::6]], line_of),
    "no offset": ([*TURN, {"type": "compaction", "summary": "旧", "first_kept": 2}], line_of),
    "a newer type": ([*TURN, {"type": "newer", "v": {"type": "compaction"}}], line_of),
    "a sealed tail": (TURN, lambda r: line_of(r) + b'{"type\x18\n' * (r is TURN[0])),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_others_wrote_is_read_the_same_way(tmp_path: Path, name: str) -> None:
    """Whatever stands before a compaction of ours: behind it a part tells what the whole tells."""
    records, encode = FOREIGN[name]
    talk = Talk(tmp_path / "session-书.jsonl")
    damage = b"{\n" + line_of(REPAIRED)
    talk.path.write_bytes(damage + b"".join(map(encode, records)).rstrip(b"\n") + b"\n")
    talk.go(["talk", "look", "long", "talk", "look", "compact", *MORE, "long", "long", "compact"])
    partial = []
    for part in prefixes(talk.path.read_bytes()):
        (tmp_path / "session-part.jsonl").write_bytes(part)
        partial.append(same_either_way(tmp_path / "session-part.jsonl", talk.tools))
    assert any(partial)


@pytest.mark.parametrize("words", [DOUBTFUL, PLAIN])
def test_what_stands_before_is_not_looked_at(tmp_path: Path, words: list[str]) -> None:
    """With garbage in front all goes on as without; who asks for it is told, and no tool runs."""
    talk = Talk(tmp_path / "session-书.jsonl").go(words)
    data = talk.path.read_bytes()
    record = next(r for r in log(talk.path)[::-1] if r["type"] == "compaction")
    begin = record.get("resume_offset", record["first_kept_offset"])
    front = bytes(byte if byte == ord("\n") else 0xFF for byte in data[:begin])
    plain, garbled = Talk(talk.path), Talk(tmp_path / "a" / "session-书.jsonl", window=9000)
    garbled.path.parent.mkdir()
    garbled.path.write_bytes(front + data[begin:])
    with garbled.agent() as agent:
        assert told(agent.history, talk.tools) == told(whole(plain.path), talk.tools)
    garbled.window, garbled.ids, plain.ids = plain.window, count(10**6), count(10**6)
    garbled.go(MORE)
    plain.go(MORE)
    assert garbled.path.read_bytes() == front + plain.path.read_bytes()[begin:]
    assert garbled.deeds == plain.deeds
    garbled.window = 9000
    with garbled.agent() as agent:
        session = agent.journal.session
        assert session.damage == []
        assert len(session.records) < len(log(plain.path))
        assert len(session.damage) == front.count(b"\n")
        with pytest.raises(SessionDamaged, match="line 1 "):
            agent.run("act 书")
    assert garbled.deeds == plain.deeds


def test_going_on_never_reads_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns, verdicts and further compactions get along with the part that was read."""
    talk = Talk(tmp_path / "session-书.jsonl").go(DOUBTFUL)

    def fail(_: LogFile) -> None:
        raise AssertionError("the rest was read")

    monkeypatch.setattr(LogFile, "read_all", fail)
    talk.go(MORE)
    assert kinds(talk.path).count("compaction") > 1
    with pytest.raises(AssertionError, match="the rest"), talk.agent() as agent:
        assert agent.journal.session.records


# Lines that only a reader of the whole file can judge, made of an attempt in its front.
UNREAD: dict[str, Encode] = {
    "a verdict": lambda r: line_of(resolution("happened", r["execution_id"])),
    "an attempt goes on": lambda r: line_of({**r, "status": "unknown"}),
    "an attempt begins": lambda r: line_of({**r, "execution_id": "x", "status": "approved"}),
    "a result": lambda r: line_of(result(r["tool_call_id"])),
    "a lost line": lambda _: b"{\n",
    "after a lost line": lambda r: b"{\n" + line_of({**r, "status": "unknown"}),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_goes_on_with_the_unread_has_it_read(tmp_path: Path, name: str) -> None:
    """A part that speaks of what stands before it, or lost a line itself, is not enough."""
    talk = Talk(tmp_path / "session-书.jsonl").go(PLAIN)
    data = talk.path.read_bytes()
    running = next(r for r in log(talk.path) if r.get("status") == "running")
    talk.path.write_bytes(data + UNREAD[name](running))
    assert not same_either_way(talk.path, talk.tools)
    talk.path.write_bytes(data)
    assert same_either_way(talk.path, talk.tools)


def test_a_verdict_on_what_was_not_read(tmp_path: Path) -> None:
    """An attempt that a later one made good is out of sight: the command line finds it again.

    The refusal writes nothing. After the verdict the whole file is read, for it goes on with
    something unread, and the model is told.
    """
    talk = Talk(tmp_path / "session-书.jsonl").go(["again", *PLAIN])
    first = next(r for r in log(talk.path) if r.get("status") == "unknown")["execution_id"]
    before = talk.path.read_bytes()
    with talk.agent() as agent:
        assert agent.history.partial
        with pytest.raises(IllegalTransition, match="python -m lai resolve"):
            agent.resolve(first, "happened", "看到了 📬")
    assert talk.path.read_bytes() == before
    arguments = ["resolve", talk.path, first, "happened", "--evidence", "看到了 📬"]
    assert command_line(*arguments)[0] == 0
    assert not same_either_way(talk.path, talk.tools)
    talk.go(["talk"])
    assert (
        "看到了 📬"
        in [r for r in log(talk.path) if r["type"] == "message"][-2]["message"]["content"]
    )


def test_where_a_file_cannot_be_mapped_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that maps no files costs time: the session is read from its first line."""
    talk = Talk(tmp_path / "session-书.jsonl").go(PLAIN)

    def fail(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("lai.logfile.mmap", fail)
    assert not same_either_way(talk.path, talk.tools)
