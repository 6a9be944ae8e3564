"""Damage that still reads: it is noticed, said where it is, and nothing runs on it unseen."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sums import added, line_of
from talk import PLAIN, Talk, command_line
from toolkit import answers, assistant, attempt, lines, opaque, user

from lai import Agent, RecordError, Session, SessionDamaged, scripted
from lai.lines import Contents, Damage

PROOF = os.environ.get("LAI_PROOF") == "1"
CALL = ("call_书", "send", {"text": "书\u2028"})
NOTE = {"type": "note", "v": "新的\u0085 🧾"}
TURN = [
    user("寄一本书 📖"),
    assistant(CALL, text="\u2028好"),
    *attempt(CALL, "approved", "running", "unknown", base_sha256=None),
    {"type": "resolution", "execution_id": "exec_1", "outcome": "happened", "evidence": "看过"},
]
BEFORE = added(b"", *TURN)
TORN = b'{"type":"message","message":{"role":"tool","content":"\xe4\xb9'
REPAIR = {"type": "repair", "line": 7, "offset": len(BEFORE), "bytes": len(TORN)}
WHOLE = added(BEFORE + TORN + b"\x18\n", REPAIR, NOTE, assistant(text="完成 🚀"))
RECORDS = [*TURN, REPAIR, NOTE, assistant(text="完成 🚀")]


def read(data: bytes) -> Contents:
    """What the library finds in these bytes."""
    contents = Contents()
    *whole, tail = data.split(b"\n")
    for line in whole:
        contents.feed(line + b"\n")
    if tail:
        contents.feed_tail(tail)
    return contents


CLEAN = read(WHOLE).damage


def news(contents: Contents) -> list[Damage]:
    """What is reported, and was not before the file was touched."""
    return [found for found in contents.damage if found not in CLEAN]


def place(at: int) -> tuple[int, int]:
    """The line and the offset at which a byte of the file stands."""
    return WHOLE[:at].count(b"\n") + 1, WHOLE.rfind(b"\n", 0, at) + 1


def flips() -> Iterator[tuple[int, bytes]]:
    """The file with one bit the other way: a sample that meets every byte, or all."""
    for bit in range(0, len(WHOLE) * 8, 1 if PROOF else 7):
        changed = bytearray(WHOLE)
        changed[bit // 8] ^= 1 << bit % 8
        yield bit // 8, bytes(changed)


def test_every_flipped_bit_is_noticed() -> None:
    """The report names its line and where that begins, and no changed record is handed out."""
    count = 0
    for at, changed in flips():
        contents = read(changed)
        found, (line, offset) = news(contents)[0], place(at)
        if line == 7 and found.line == 8:  # a torn tail: the line behind it misses what it was
            line, offset = 8, place(offset + len(TORN) + 2)[1]
        assert (found.line, found.offset) == (line, offset), at
        assert all(record in RECORDS for record in contents.records)
        count += 1
    assert count >= len(WHOLE)


EDITS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int]] = {
    "removed": (lambda r: [*r[:2], *r[3:]], 3),
    "the first removed": (lambda r: r[1:], 1),
    "twice": (lambda r: [*r[:3], r[2], *r[3:]], 4),
    "swapped": (lambda r: [*r[:3], r[4], r[3], *r[5:]], 4),
    "one of another session": (lambda r: [*r[:3], added(b"", NOTE)[:-1], *r[3:]], 4),
    "one without a checksum": (lambda r: [*r[:3], line_of(NOTE)[:-1], *r[3:]], 4),
    "its checksum removed": (lambda r: [*r[:3], r[3].partition(b',"sum"')[0] + b"}", *r[4:]], 4),
    "begun anew": (lambda r: [*r[:5], added(b"", NOTE)[:-1]], 6),
}


@pytest.mark.parametrize("name", EDITS)
def test_lines_that_were_moved_are_noticed(name: str, tmp_path: Path) -> None:
    """Removed, repeated, exchanged or foreign: the first line that does not follow is reported."""
    edit, line = EDITS[name]
    path = tmp_path / "session-书.jsonl"
    path.write_bytes(b"\n".join([*edit(BEFORE.split(b"\n")[:-1]), b""]))
    session = Session.read(path)
    (found, *_) = session.unacknowledged
    assert found.line == line
    code, said = command_line("verify", path)
    told = f"line {line}: damage: {found.reason}, {found.size} bytes at byte {found.offset}"
    assert (code, told in said) == (1, True)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from("xdsi")), max_size=3),
    st.integers(0, 10),
    st.integers(0, len(WHOLE) * 8 - 1) | st.none(),
)
def test_what_is_not_reported_is_as_it_was_written(
    edits: list[tuple[int, str]], end: int, bit: int | None
) -> None:
    """Whatever is done to lines and bits: it is reported, or it only took away the last ones."""
    changed = bytearray(WHOLE)
    if bit is not None:
        changed[bit // 8] ^= 1 << bit % 8
    rows = bytes(changed).split(b"\n")[:-1][:end]
    for at, how in edits:
        here = rows[at : at + 1]
        other = rows[at + 1 : at + 2]
        new = {"x": [], "d": here * 2, "s": other + here, "i": [line_of(NOTE)[:-1], *here]}[how]
        rows[at : at + 1 + (how == "s")] = new
    contents = read(b"".join(row + b"\n" for row in rows))
    if b'"sum"' in b"".join(rows) and not [d for d in news(contents) if d.lost]:
        assert contents.records == RECORDS[: len(contents.records)]


def test_what_is_missing_at_the_end_leaves_no_trace() -> None:
    """A checksum only looks back, so this is its limit: a shorter file is a whole one."""
    assert read(added(b"", *TURN[:4])).damage == []


CHANGED = BEFORE.replace("寄".encode(), "送".encode())


def test_no_tool_runs_on_a_changed_history(tmp_path: Path) -> None:
    """Nobody is asked and nothing runs until a person has acknowledged the changed line."""
    path, effects = tmp_path / "session-x.jsonl", tmp_path / "effects"
    path.write_bytes(added(b"", user("寄"), assistant(CALL)).replace(b'"user"', b'"uses"'))
    before, ask = path.read_bytes(), answers(["y"])
    with Session.open(path) as session:
        agent = Agent(session, scripted(["好"]), [opaque(effects)], ask)
        for go in (agent.recover, agent.continue_turn, lambda: agent.run("再来")):
            with pytest.raises(SessionDamaged, match="line 1 at byte 0"):
                go()
    assert (path.read_bytes(), lines(effects), ask.questions) == (before, [], [])
    assert command_line("repair", path)[0] == 0
    assert path.read_bytes().startswith(before)
    with Session.open(path) as session:
        agent = Agent(session, scripted(["好"]), [opaque(effects)], ask)
        agent.recover()
    assert len(lines(effects)) == 1
    assert Session.read(path).unacknowledged == []


def test_a_changed_line_is_no_record_and_the_next_ones_are(tmp_path: Path) -> None:
    """What was changed is not believed; what follows is; both stay after more was written."""
    path = tmp_path / "session-书.jsonl"
    path.write_bytes(CHANGED)
    for number in range(2):
        with Session.open(path) as session:
            assert [d.line for d in session.unacknowledged] == [1]
            assert session.records == [*TURN[1:], *[NOTE] * number]
            session.append(NOTE)
    assert path.read_bytes().startswith(CHANGED)
    assert [d.line for d in Session.read(path).damage] == [1]


# --- lines without a checksum -------------------------------------------------------------


def test_an_older_session_goes_on(tmp_path: Path) -> None:
    """One without checksums loads; what is added has them, and binds the last old line."""
    path = tmp_path / "session-书.jsonl"
    old = b"".join(map(line_of, TURN))
    path.write_bytes(old)
    with Session.open(path) as session:
        assert (session.records, session.damage) == (TURN, [])
        session.append(NOTE)
        assert session.records == [*TURN, NOTE]
    assert path.read_bytes() == added(old, NOTE)
    assert read(added(old, NOTE)).damage == []
    changed = added(old, NOTE).replace("看过".encode(), "没有".encode())
    assert [(d.line, d.lost) for d in read(changed).damage] == [(7, True)]


@pytest.mark.parametrize("bit", range(0, 8 * 91, 5))
def test_the_checksum_of_an_only_line_cannot_hide(bit: int) -> None:
    """Damage to the checksum itself does not turn a line into an older one that has none."""
    line = bytearray(added(b"", NOTE)[:-1])
    at = bit % (8 * len(line))
    line[at // 8] ^= 1 << at % 8
    assert read(bytes(line) + b"\n").unacknowledged


def test_the_form_of_a_line() -> None:
    """Twelve digits of SHA-256 over what stands before them, written down once by hand."""
    first = b'{"type":"note","sum":"000000000000-71c462e44d79"}\n'
    assert added(b"", {"type": "note"}) == first
    assert read(first).records == [{"type": "note"}]


@pytest.mark.parametrize("value", ["", "000000000000-71c462e44d79", None, {"书": 1}])
def test_the_key_belongs_to_the_file(value: object, tmp_path: Path) -> None:
    """A record that has a ``sum`` of its own is refused, and nothing is written."""
    with Session.open(tmp_path / "session-书.jsonl") as session:
        session.append(NOTE)
        before = session.path.read_bytes()
        with pytest.raises(RecordError, match="sum"):
            session.append({**NOTE, "sum": value})
        assert (session.path.read_bytes(), session.records) == (before, [NOTE])
        session.append(NOTE)
    assert read(added(b"", NOTE, NOTE)).damage == []


# --- a session that is opened behind its compaction ---------------------------------------


def test_damage_in_the_part_that_is_read_is_noticed(tmp_path: Path) -> None:
    """Opening reads from the last compaction's place on, and sees what changed there."""
    talk = Talk(tmp_path / "session-书.jsonl", window=9000).go(PLAIN)
    data = talk.path.read_bytes()
    with Session.open(talk.path) as session:
        begin = session.recent.begin
        assert begin > 0
    for at in range(begin, len(data), 97):
        changed = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        talk.path.write_bytes(changed)
        with Session.open(talk.path, fsync=lambda _: None) as session:
            assert session.damage, at


def test_damage_before_that_place_is_found_by_verify(tmp_path: Path) -> None:
    """What nobody reads is not checked on opening, and is in a full reading."""
    talk = Talk(tmp_path / "session-书.jsonl", window=9000).go(PLAIN)
    data: bytes = talk.path.read_bytes()
    talk.path.write_bytes(data.replace(b"talk", b"walk", 1))
    with Session.open(talk.path) as session:
        assert session.recent.damage == []
    assert Session.read(talk.path).unacknowledged[0].line == 1
    code, said = command_line("verify", talk.path)
    assert (code, "bytes at byte 0" in said) == (1, True)
