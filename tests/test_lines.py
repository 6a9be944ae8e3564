"""What a line of a session file holds: records, glued and filled ones too, or damage."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sums import summed_again, without
from toolkit import JSON, answers, assistant, lines, opaque, user, write_log

from lai import Agent, Session, SessionDamaged, scripted
from lai.lines import read_line

CASES = Path(__file__).parent / "data" / "cases"
A = '{"type":"note","v":"书\u2028\u0085}{"}'
B = '{"type":"message","message":{"role":"user","content":"\\u0000 🚀"}}'

WHOLE = [  # a line without its newline, and the records on it
    pytest.param(A, [A], id="one"),
    pytest.param(f" {A}\r", [A], id="blanks around it"),
    pytest.param(A + B, [A, B], id="glued"),
    pytest.param(f"{A} {B}\t{A}", [A, B, A], id="three, blanks between"),
    pytest.param(f"{A}\r{B}", [A, B], id="carriage return between"),
    pytest.param(f"\0\0{A}\0\0\0", [A], id="NULs around it"),
    pytest.param(f"{A}\0\0\0\0{B}", [A, B], id="NULs between"),
]
LOST = [  # a line that may have held more than the records found on it
    pytest.param(b"", [], id="empty"),
    pytest.param(b"  \t", [], id="blanks"),
    pytest.param(b"\0" * 64, [], id="only NULs"),
    pytest.param(A.encode()[:-1], [], id="cut"),
    pytest.param(A.encode()[1:], [], id="beginning lost"),
    pytest.param(b'{"type":"note"}}', [{"type": "note"}], id="bracket too many"),
    pytest.param(A.encode()[:22], [], id="cut inside a character"),
    pytest.param(b'{"type":"note","v":"\xff"}', [], id="invalid UTF-8"),
    pytest.param(b'{"type":"note","v":"\xed\xa0\x80"}', [], id="encoded surrogate"),
    pytest.param("书".encode("gbk") + A.encode(), [], id="GBK in front"),
    pytest.param(A.encode() + b"\xff", [A], id="a byte behind"),
    pytest.param(b"[]", [], id="a list"),
    pytest.param(b"5", [], id="a number"),
    pytest.param(b'"{}"', [], id="a text"),
    pytest.param(b"null", [], id="null"),
    pytest.param(A.encode() + b"5", [A], id="a number behind"),
    pytest.param(b'{"v":1}', [], id="no type"),
    pytest.param(b'{"type":"message"}', [], id="message without a message"),
    pytest.param(b'{"type":"tool_execution","execution_id":"e"}', [], id="half a ledger line"),
    pytest.param(b'{"type":"note","v":NaN}', [], id="NaN"),
    pytest.param(b'{"type":"note","v":-Infinity}', [], id="-Infinity"),
    pytest.param(b"[" * 200_000, [], id="200,000 brackets"),
    pytest.param(b'{"type":' * 200_000, [], id="200,000 objects"),
    pytest.param(b'{"type":"note","v":' + b"9" * 5_000 + b"}", [], id="5,000 digits"),
    pytest.param(A.encode()[:-1] + B.encode(), [], id="glued to a cut one"),
    pytest.param(A.encode() + B.encode()[:-1], [A], id="a cut one glued to it"),
    pytest.param(b'{"type":"x","v":' + B.encode(), [], id="whole inside a broken one"),
    pytest.param(f'{{"type":"x","v":"{B}'.encode(), [], id="whole inside a broken text"),
    pytest.param(b"\0\0" + A.encode()[:9] + b"\0\0" + B.encode(), [], id="cut, NULs, whole"),
]

PIECES = [b"\n", b"\x18\n", b"\0", b"\xff", b"\xe4\xb9", b'{"type":"note","v":"', b'"}', b"}\n"]
PIECES += [b'{"type":"note"}', b'{"type":"note","v":"\xe4\xb9\xa6\xe2\x80\xa8"}\n']
NEW = {"type": "note", "v": "新的\u2028一行"}


def parsed(texts: list[Any]) -> list[JSON]:
    """The objects that the tables above name by their JSON."""
    return [json.loads(text) if isinstance(text, str) else text for text in texts]


@pytest.mark.parametrize(("line", "records"), WHOLE)
def test_whole_objects_are_records(line: str, records: list[str], tmp_path: Path) -> None:
    """Whole objects on a line are all records, in order, and nothing of the line was lost."""
    found, reason, lost = read_line(line.encode())
    assert found == parsed(records)
    assert not lost
    assert bool(reason) is (len(records) > 1 or "\0" in line)
    path = tmp_path / "session-x.jsonl"
    path.write_bytes(f"{line}\n{B}\n".encode())
    session = Session.read(path)
    assert session.records == parsed([*records, B])
    assert list(session.lines) == [*[1] * len(records), 2]
    assert [damage.line for damage in session.damage] == [1] * bool(reason)


@pytest.mark.parametrize(("line", "records"), LOST)
def test_what_else_stands_on_a_line_is_damage(line: bytes, records: list[Any]) -> None:
    """Anything that is not whole objects is damage; an object inside a broken one is no record."""
    found, reason, lost = read_line(line)
    assert (found, lost) == (parsed(records), True)
    assert reason


@pytest.mark.parametrize(("line", "records"), LOST)
def test_damage_in_the_middle_is_reported_with_its_place(
    line: bytes, records: list[Any], tmp_path: Path
) -> None:
    """All other records load; number, byte offset, size and hash of the bad line are named."""
    path = tmp_path / "session-书.jsonl"
    before, after = f"{A}\n{B}\n".encode(), f"{B}\n{A}\n".encode()
    path.write_bytes(before + line + b"\n" + after)
    session = Session.read(path)
    assert session.records == parsed([A, B, *records, B, A])
    assert list(session.lines) == [1, 2, *[3] * len(records), 4, 5]
    (damage,) = session.unacknowledged
    assert (damage.line, damage.offset, damage.size) == (3, len(before), len(line))
    assert damage.sha256 == hashlib.sha256(line).hexdigest()
    assert f"line 3 at byte {len(before)}" in str(damage)


@pytest.mark.parametrize(("line", "records"), LOST)
def test_a_bad_last_line_with_its_newline_is_damage_too(
    line: bytes, records: list[Any], tmp_path: Path
) -> None:
    """A newline says the line was finished: opening mends nothing and waits for a person."""
    path = tmp_path / "session-x.jsonl"
    path.write_bytes(f"{A}\n".encode() + line + b"\n")
    before = path.read_bytes()
    with Session.open(path) as session:
        assert session.records == parsed([A, *records])
        assert [d.line for d in session.unacknowledged] == [2]
    assert path.read_bytes() == before


@pytest.mark.parametrize("sealed", [b"", A.encode()[:-1], b"\xe4\xb9", b"\0\0", b"{\x18"])
def test_a_line_ending_in_the_seal_is_no_damage(sealed: bytes, tmp_path: Path) -> None:
    """A torn tail sealed earlier is reported, yields nothing and needs no acknowledgement."""
    path = tmp_path / "session-x.jsonl"
    path.write_bytes(f"{A}\n".encode() + sealed + b"\x18\n" + f"{B}\n".encode())
    session = Session.read(path)
    assert session.records == parsed([A, B])
    assert session.unacknowledged == []
    assert [damage.line for damage in session.damage] == [2]


def test_acknowledging_adds_one_record_and_changes_no_earlier_byte(tmp_path: Path) -> None:
    """The repair record names line, offset, size and hash; each bad line needs its own."""
    path = tmp_path / "session-x.jsonl"
    first, second = '{"type":"书'.encode(), b"\xff\xfe"
    path.write_bytes(b"\n".join([A.encode(), first, B.encode(), second, b""]))
    before = path.read_bytes()
    with Session.open(path) as session:
        session.acknowledge(2)
        assert [d.line for d in session.unacknowledged] == [4]
        assert path.read_bytes().startswith(before)
        (record,) = map(json.loads, path.read_bytes()[len(before) :].splitlines())
        place = {"line": 2, "offset": len(A.encode()) + 1, "bytes": len(first)}
        assert without(record) == {
            "type": "repair",
            **place,
            "sha256": hashlib.sha256(first).hexdigest(),
        }
        session.acknowledge(4)
    again = Session.read(path)
    assert again.unacknowledged == []
    assert [(d.line, d.acknowledged) for d in again.damage] == [(2, True), (4, True)]


@pytest.mark.parametrize(
    "wrong", [{"sha256": "0" * 64}, {"line": 1}, {"line": "2"}, {"line": None}]
)
def test_a_repair_record_that_does_not_fit_acknowledges_nothing(
    wrong: JSON, tmp_path: Path
) -> None:
    """Line and hash must both be those of the damage."""
    path = tmp_path / "session-x.jsonl"
    sha256 = hashlib.sha256(b"bad").hexdigest()
    repair = {"type": "repair", "line": 2, "offset": 0, "bytes": 3, "sha256": sha256, **wrong}
    path.write_bytes(f"{A}\nbad\n{json.dumps(repair)}\n".encode())
    assert [d.line for d in Session.read(path).unacknowledged] == [2]


def test_no_tool_runs_before_damage_is_acknowledged(tmp_path: Path) -> None:
    """With damage anywhere a call waits, unasked and unrun; after acknowledgement it goes on."""
    path, effects = tmp_path / "session-x.jsonl", tmp_path / "effects"
    path.write_bytes(b'{"type":"tool_ex\n')
    log = write_log(tmp_path / "log", user(), assistant(("call_1", "send", {"text": "书"})))
    path.write_bytes(path.read_bytes() + log.read_bytes())
    before, ask = path.read_bytes(), answers(["y"])
    with Session.open(path) as session:
        agent = Agent(session, scripted(["", "好"]), [opaque(effects)], ask)
        for go in (agent.recover, agent.continue_turn, lambda: agent.run("再来")):
            with pytest.raises(SessionDamaged, match="line 1 at byte 0"):
                go()
        assert (path.read_bytes(), lines(effects), ask.questions) == (before, [], [])
        session.acknowledge(1)
        assert agent.continue_turn() == "好"
    assert len(lines(effects)) == 1


def test_a_wrong_repair_record_lets_no_forbidden_record_pass(tmp_path: Path) -> None:
    """A repair record with another line's hash acknowledges no violation of the table either."""
    path, effects = tmp_path / "session-x.jsonl", tmp_path / "effects"
    head = {"type": "tool_execution", "execution_id": "e", "tool_call_id": "call_1"}
    call = assistant(("call_1", "send", {"text": "书"}))
    repair = {"type": "repair", "line": 3, "offset": 0, "bytes": 9, "sha256": "0" * 64}
    write_log(path, user(), call, {**head, "status": "succeeded"}, repair)
    with Session.open(path) as session:
        agent = Agent(session, scripted([]), [opaque(effects)], answers(["y"]))
        with pytest.raises(SessionDamaged, match="line 3"):
            agent.recover()
    assert lines(effects) == []


def test_k2_03_all_good_records_load_and_nothing_runs(tmp_path: Path) -> None:
    """K2-03: eight of nine records, line 4 reported, nothing cut, nothing left to answer."""
    path = tmp_path / "session-x.jsonl"
    raw = (CASES / "K2-03.jsonl").read_bytes()
    path.write_bytes(raw)
    good = [json.loads(r) for n, r in enumerate(raw.split(b"\n")[:-1], 1) if n != 4]
    with Session.open(path) as session:
        assert session.records == good
        assert [d.line for d in session.unacknowledged] == [4]
        agent = Agent(session, scripted([]), [])
        assert (agent.history.violations, agent.recover()) == ([], [])
        assert agent.continue_turn() == "不客气。"
    assert path.read_bytes() == raw


def test_k2_05_separators_inside_texts_end_no_line(tmp_path: Path) -> None:
    """K2-05: U+2028, U+2029 and U+0085 stay inside their record, also when written again."""
    raw = (CASES / "K2-05.jsonl").read_bytes()
    assert all(sign in raw.decode() for sign in "\u2028\u2029\u0085")
    session = Session.read(CASES / "K2-05.jsonl")
    assert (len(session.records), session.damage) == (4, [])
    with Session.open(tmp_path / "session-x.jsonl") as copy:
        for record in session.records:
            copy.append(record)
    assert (tmp_path / "session-x.jsonl").read_bytes() == summed_again(raw)


def test_k2_07_glued_records_are_all_there() -> None:
    """K2-07: both records of line 3 come in order, with a warning; the trap line stays one."""
    session = Session.read(CASES / "K2-07.jsonl")
    roles = [record["message"]["role"] for record in session.records]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert list(session.lines) == [1, 2, 3, 3, 4]
    assert [(d.line, d.lost) for d in session.damage] == [(3, False)]
    assert session.records[0]["message"]["content"] == "找出 }{ 的位置"


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=8).map(b"".join))
def test_any_bytes_at_all(tmp_path_factory: pytest.TempPathFactory, old: bytes) -> None:
    """Whatever a file holds, it opens, keeps its bytes, and takes a record that comes back."""
    path = tmp_path_factory.mktemp("s") / "session-x.jsonl"
    path.write_bytes(old)
    with Session.open(path, fsync=lambda _fd: None) as session:
        found = list(session.records)
        session.append(NEW)
        assert session.lines == Session.read(path).lines
    assert path.read_bytes().startswith(old)
    assert Session.read(path).records == [*found, NEW]


def test_a_message_of_5_mb(tmp_path: Path) -> None:
    """A single message of 5 MB is one record and comes back unchanged."""
    path, record = tmp_path / "session-x.jsonl", user("书\u2028\u0085 🚀\n" * 350_000)
    with Session.open(path) as session:
        assert session.append(record) == 1
    assert path.stat().st_size > 5_000_000
    assert Session.read(path).records == [record]
