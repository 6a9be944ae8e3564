"""Compactions that tell lies about their file, texts that look like one, and torn ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sums import added, line_of, summed_again
from talk import (
    DOUBTFUL,
    LONG,
    PLAIN,
    Talk,
    command_line,
    last_compaction,
    same_either_way,
)
from toolkit import JSON, assistant, log, user

from lai import Session
from lai.report import flaws

NOTE = {"type": "note", "v": "书\u2028"}


def roomy(folder: Path) -> Talk:
    """A talk in a window so large that a compaction is made on demand alone."""
    return Talk(folder / "session-书.jsonl", window=9000)


Lie = Callable[[JSON, int], JSON]
LIES: dict[str, Lie] = {
    "a byte late": lambda r, _: {"first_kept_offset": r["first_kept_offset"] + 1},
    "a byte early": lambda r, _: {"first_kept_offset": r["first_kept_offset"] - 1},
    "no byte": lambda r, _: {"first_kept_offset": r["first_kept_offset"] - 10**6},
    "the end": lambda _, size: {"first_kept_offset": size},
    "past the end": lambda _, size: {"first_kept_offset": size + 9},
    "huge": lambda *_: {"first_kept_offset": 10**30},
    "negative": lambda *_: {"first_kept": -1, "first_kept_offset": -1},
    "bool": lambda *_: {"first_kept": True, "first_kept_offset": True},
    "false": lambda *_: {"first_kept": 1, "first_kept_offset": False},
    "text": lambda r, _: {"first_kept_offset": str(r["first_kept_offset"])},
    "fraction": lambda r, _: {"first_kept_offset": float(r["first_kept_offset"])},
    "null": lambda *_: {"first_kept_offset": None},
    "line 0": lambda *_: {"first_kept": 0},
    "line 1": lambda *_: {"first_kept": 1},
    "a huge line": lambda *_: {"first_kept": 10**30},
    "no number": lambda *_: {"first_kept": "1"},
}


def lying(data: bytes, lie: Lie) -> bytes:
    """The same session, its last compaction telling a lie about the file."""
    start, record = last_compaction(data)
    rest = data[start:].partition(b"\n")[2]
    return summed_again(data[:start] + line_of({**record, **lie(record, len(data))}) + rest)


def resumes(lie: Lie) -> Lie:
    """The same lie about the place from which to read."""
    names = {"first_kept": "resume_line", "first_kept_offset": "resume_offset"}

    def other(record: JSON, size: int) -> JSON:
        about = {name: record[of] for name, of in names.items()}
        return {names[name]: value for name, value in lie(about, size).items()}

    return other


MISMATCH: dict[str, Lie] = {
    "a line more": lambda r, _: {"first_kept": r["first_kept"] + 1},
    "a line less": lambda r, _: {"first_kept": r["first_kept"] - 1},
    "resumes later": lambda r, _: {"resume_line": r["first_kept"] + 1},
    "turned round": lambda r, _: {
        "resume_line": r["first_kept"],
        "resume_offset": r["first_kept_offset"],
        "first_kept": r["resume_line"],
        "first_kept_offset": r["resume_offset"],
    },
    "half of it": lambda r, _: {"resume_offset": None, "resume_line": r["resume_line"]},
}
CASES = [
    *((f"{name}, kept", PLAIN, lie) for name, lie in LIES.items()),
    *((f"{name}, kept and doubtful", DOUBTFUL, lie) for name, lie in LIES.items()),
    *((f"{name}, resumed", DOUBTFUL, resumes(lie)) for name, lie in LIES.items()),
    *((name, DOUBTFUL, lie) for name, lie in MISMATCH.items()),
]


@pytest.mark.parametrize(("words", "lie"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_lying_compaction_costs_time_alone(tmp_path: Path, words: list[str], lie: Lie) -> None:
    """A claim that the bytes do not bear out is not used: all is read, and nothing is lost."""
    talk = roomy(tmp_path).go(words)
    data = lying(talk.path.read_bytes(), lie)
    talk.path.write_bytes(data)
    assert not same_either_way(talk.path, talk.tools)
    with Session.open(talk.path) as session:
        damage = Session.read(talk.path).damage
        assert session.damage == damage
        session.append(NOTE)
        assert session.records == Session.read(talk.path).records
    assert talk.path.read_bytes().startswith(data)
    assert log(talk.path)[-1] == NOTE
    assert Session.read(talk.path).damage == damage


@pytest.mark.parametrize(
    "change",
    [
        lambda r: {name: value for name, value in r.items() if not name.startswith("resume")},
        lambda r: {name: value for name, value in r.items() if not name.startswith("first_kept")},
        lambda r: {**r, "retained_tail": []},
    ],
)
def test_a_compaction_that_does_not_tell(tmp_path: Path, change: Callable[[JSON], JSON]) -> None:
    """What it pins must be read too: without its place, and in the older form, all is read."""
    talk = roomy(tmp_path).go(DOUBTFUL)
    data = talk.path.read_bytes()
    start, record = last_compaction(data)
    talk.path.write_bytes(added(data[:start], change(record)))
    assert not same_either_way(talk.path, talk.tools)


TRUSTED: dict[str, Lie] = {
    "a line more": lambda r, _: {"first_kept": r["first_kept"] + 1},
    "a line less": lambda r, _: {"first_kept": r["first_kept"] - 1},
}


@pytest.mark.parametrize("name", TRUSTED)
def test_a_wrong_line_number_is_found_by_verify(tmp_path: Path, name: str) -> None:
    """The lines before are not counted, so a part goes by it; no record is lost by that."""
    talk = roomy(tmp_path).go(PLAIN)
    data = lying(talk.path.read_bytes(), TRUSTED[name])
    start, record = last_compaction(data)
    talk.path.write_bytes(data)
    with Session.open(talk.path) as session:
        kept = list(session.recent.records)
        session.append(NOTE)
        assert session.records == Session.read(talk.path).records
        assert session.records[-len(kept) - 1 :] == [*kept, NOTE]
        assert session.lines == Session.read(talk.path).lines
    assert talk.path.read_bytes() == added(data, NOTE)
    code, said = command_line("verify", talk.path)
    place = f"line {data[:start].count(10) + 1}: compaction: line {record['first_kept']} begins at"
    assert (code, place in said) == (1, True)


@pytest.mark.parametrize("name", LIES)
def test_verify_reports_a_wrong_place(tmp_path: Path, name: str) -> None:
    """It says which compaction is wrong, and nothing of a true one or of one that says none."""
    talk = roomy(tmp_path).go(DOUBTFUL)
    true = talk.path.read_bytes()
    assert "compaction" not in [flaw.kind for flaw in flaws(Session.read(talk.path))]
    for lie in (LIES[name], resumes(LIES[name])):
        talk.path.write_bytes(lying(true, lie))
        found = flaws(Session.read(talk.path))
        wrong = [flaw.line for flaw in found if flaw.kind in ("compaction", "damage")]
        assert wrong == ([] if name == "null" else [true.count(b"\n")])


def test_what_only_looks_like_a_compaction_is_none(tmp_path: Path) -> None:
    """Quoted in a message, in arguments, inside another record: the real one before it counts."""
    talk = roomy(tmp_path).go(PLAIN)
    data = talk.path.read_bytes()
    fake = {"type": "compaction", "summary": "假", "first_kept": 2, "first_kept_offset": 9}
    quoted = line_of(fake).decode()
    records = [
        user(quoted),
        assistant(("c1", "look", {"text": quoted})),
        {"type": "message", "message": {"role": "tool", "tool_call_id": "c1", "content": quoted}},
        {"type": "note", "v": fake},
        {"type": "note", "type2": "compaction", "v": [fake, fake]},
        assistant(text=quoted),
    ]
    (_, real) = last_compaction(data)
    for number in range(1, len(records) + 1):
        talk.path.write_bytes(added(data, *records[:number]))
        assert same_either_way(talk.path, talk.tools)
        with Session.open(talk.path) as session:
            assert session.recent.start == real["first_kept"]


def test_a_glued_compaction_is_read_in_whole(tmp_path: Path) -> None:
    """A compaction that shares its line with another record is read, but not gone by."""
    talk = roomy(tmp_path).go(PLAIN)
    data = talk.path.read_bytes()
    talk.path.write_bytes(data[:-1] + added(data, NOTE)[len(data) :])
    assert not same_either_way(talk.path, talk.tools)


@pytest.mark.parametrize("before", [[], PLAIN])
def test_a_compaction_cut_at_every_byte(tmp_path: Path, before: list[str]) -> None:
    """Torn anywhere it counts for nothing, the one before it does; whole it counts at once."""
    talk = roomy(tmp_path).go([*before, *PLAIN])
    data = talk.path.read_bytes()
    start, record = last_compaction(data)
    for cut in range(start, len(data) + 1):
        talk.path.write_bytes(data[:cut])
        whole = cut >= len(data) - 1
        assert same_either_way(talk.path, talk.tools) is (whole or bool(before))
        assert talk.path.read_bytes().startswith(data[:cut])
        assert (record in Session.read(talk.path).records) is whole


@pytest.mark.parametrize("behind", [0, 65_000, 65_536, 200_000, 1_000_000])
def test_a_compaction_is_found_wherever_it_stands(tmp_path: Path, behind: int) -> None:
    """However much stands behind it: read in blocks or not, it lies across no border."""
    talk = roomy(tmp_path).go(PLAIN)
    data = talk.path.read_bytes()
    start, record = last_compaction(data)
    size = len(data) - start
    for shift in range(0, size + 40, 40):
        filler = {"type": "note", "v": "x" * max(behind - shift, 0)}
        talk.path.write_bytes(added(data, filler))
        with Session.open(talk.path, fsync=lambda _: None) as session:
            assert session.recent.start == record["first_kept"]
            assert session.recent.begin == record["first_kept_offset"]


def test_other_line_ends(tmp_path: Path) -> None:
    """With CR LF the places are others: true ones are gone by, the old ones are not."""
    talk = roomy(tmp_path).go(PLAIN)
    data = talk.path.read_bytes()
    _, record = last_compaction(data)
    talk.path.write_bytes(data.replace(b"\n", b"\r\n"))
    assert not same_either_way(talk.path, talk.tools)
    moved = record["first_kept_offset"] + record["first_kept"] - 1
    data = lying(data, lambda *_: {"first_kept_offset": moved})
    talk.path.write_bytes(data.replace(b"\n", b"\r\n"))
    assert same_either_way(talk.path, talk.tools)
    assert LONG in Session.read(talk.path).records[0]["message"]["content"]
