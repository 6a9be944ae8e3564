"""The timeline: what it draws is what stands in the file, in words and as a picture."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lai import Session, Status, session_path
from lai.course import scenes
from lai.course import timeline as module
from lai.course.child import run_child
from lai.course.place import agent_at, fresh
from lai.course.timeline import Timeline, timeline
from lai.records import Record, execution_record, message_record, resolution_record

PUBLISHED = """\
line           1  2  3  4 ┆  5  6  7  8  9 10 11 12
messages       U  C       ┆             R2  C  R  A
1 write_file         ○──●━┆━━◆
2 write_file              ┆     ○──●━━✓

U user  C call  R result  A answer  ○ approved  ● running  ✓ succeeded  ◆ unknown
1 write_file exec_interrup…: approved 3, running 4, unknown 5 (crash)
2 write_file exec_{}…: approved 6 (retry of 1), running 7, succeeded 8, receipt 9
┆ before line 5: a process had died; what follows is another one's"""


def recovered(kind: str = "interrupted-write") -> Path:
    """A scene that another process brought to its end."""
    path = scenes.stage(kind, fresh())
    with agent_at(path) as agent:
        agent.continue_turn()
    return path


def written(path: Path, *records: Record) -> Path:
    with Session.open(path) as session:
        for record in records:
            session.append(record)
    return path


def attempt(number: int, *statuses: str, tool: str = "send", **details: Any) -> list[Record]:
    """The records of one attempt, without a call."""
    head = {"tool_name": tool, "key": None, "sha256": None}
    names = f"exec_{number}", f"call_{number}"
    return [execution_record(*names, Status(s), **head) | details for s in statuses]


def on_disk(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def image(drawn: Timeline) -> tuple[bytes, dict[str, Any]]:
    data, metadata = drawn._repr_mimebundle_()
    assert data["text/plain"] == repr(drawn)
    return base64.b64decode(data["image/png"]), metadata["image/png"]


def test_the_published_experiment_in_words() -> None:
    """The twelve records of experiment 2: two attempts, one death, one receipt."""
    path = recovered()
    new = next(r["execution_id"] for r in on_disk(path)[5:])
    assert repr(timeline(path)) == PUBLISHED.format(new.removeprefix("exec_")[:8])
    assert path.read_bytes().count(b"\n") == 12


@pytest.mark.parametrize("name", [*scenes.SCENES, "a second turn"])
def test_every_record_is_drawn_where_it_stands(name: str) -> None:
    """Each attempt has the states, lines and receipt that the file has, and each line a place."""
    path = recovered() if name == "a second turn" else scenes.SCENES[name].file
    drawn, states, others = timeline(path), {}, set()
    for line, text in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            record = json.loads(text)
        except ValueError:
            others |= {line} if text else set()
            continue
        if record["type"] == "tool_execution":
            states.setdefault(record["execution_id"], []).append((line, record["status"]))
        elif record["type"] == "resolution":
            said = {"happened": "succeeded", "not_happened": "unknown"}[record["outcome"]]
            states[record["execution_id"]].append((line, said))
        else:
            others.add(line)
    found = {a.id: [(line, str(status)) for line, status, _ in a.states] for a in drawn.attempts}
    assert found == states
    assert set(drawn.others) == others
    for one in drawn.attempts:
        if one.receipt:
            assert one.id in path.read_text("utf-8").split("\n")[one.receipt - 1]


def test_a_sign_stands_below_the_number_of_its_line() -> None:
    """In every row of the text, what belongs to a line stands in that line's columns."""
    numbers, messages, *rows = repr(timeline(recovered())).splitlines()[:4]
    assert messages.index("U") == numbers.index("1")
    assert [rows[0].index(sign) for sign in "○●◆"] == [numbers.index(n) for n in "345"]
    assert [rows[1].index(sign) for sign in "○●✓"] == [numbers.index(n) for n in "678"]


def test_a_real_death_is_marked_once() -> None:
    """A torn tail and the attempt it left open are one death, of one process."""
    path = session_path(fresh())
    run_child(path, scenes.APPEND_LINE, at=("during append", 5))
    run_child(path)
    drawn = timeline(path)
    assert drawn.deaths == [6]
    assert (drawn.others[5], drawn.others[6]) == ("torn", "repair")
    assert drawn.attempts[0].states[-1] == (7, Status.UNKNOWN, " (crash)")
    with Session.open(path) as session:
        session.acknowledge(5)  # a person says once more what everybody knew
    assert timeline(path).deaths == [6]


def test_a_death_without_a_trace_is_not_drawn() -> None:
    """Killed between two records, with nothing running: the file does not know, so no line."""
    path = session_path(fresh())
    assert run_child(path, scenes.APPEND_LINE, at=("after append", 5)).returncode == -9
    run_child(path)
    assert timeline(path).deaths == []


def test_a_session_that_is_not_empty(tmp_path: Path) -> None:
    """A second turn goes on with line numbers and attempts; ``first`` leaves the first one out."""
    path = session_path(tmp_path)
    run_child(path, "write the report and log it")
    run_child(path, "请把 recovery-demo.txt 的完整内容设置为 recovered")
    whole, later = timeline(path), timeline(path, first=13)
    assert whole.last == later.last == len(on_disk(path))
    assert [a.number for a in whole.attempts] == [1, 2, 3]
    assert [a.number for a in later.attempts] == [3]
    assert min(later.others) == 13


def test_verdicts_refusals_and_other_records(tmp_path: Path) -> None:
    """A person's word is a state with its remark; a refusal, a summary and a stranger are shown."""
    path = written(
        session_path(tmp_path),
        message_record({"role": "user", "content": "书"}),
        *attempt(1, "approved", "running", "unknown"),
        *attempt(2, "rejected"),
        resolution_record("exec_1", "not_happened", "数过了", "me"),
        {"type": "compaction", "summary": "早先"},
        {"type": "从未见过"},
    )
    drawn = timeline(path)
    assert drawn.attempts[0].states[-1] == (6, Status.UNKNOWN, " (a person: not happened)")
    assert [str(s) for _, s, _ in drawn.attempts[1].states] == ["rejected"]
    assert drawn.others == {1: "user", 7: "summary", 8: "other"}
    assert "⊘ rejected" in repr(drawn)


def test_a_picture_is_light_opaque_small_and_told() -> None:
    """The picture brings its own light card and its words, and takes less than 60 kB."""
    from PIL import Image

    drawn = timeline(recovered())
    data, told = image(drawn)
    picture = Image.open(io.BytesIO(data)).convert("RGBA")
    corners = [(0, 0), (picture.width - 1, 0), (0, picture.height - 1)]
    assert [picture.getpixel(corner) for corner in corners] == [(250, 250, 250, 255)] * 3
    assert picture.getextrema()[3] == (255, 255)
    assert len(data) < 60_000
    assert told["alt"] == drawn.alt
    for word in ("approved 3", "unknown 5 (crash)", "succeeded 8", "receipt 9", "before line 5"):
        assert word in told["alt"]


def test_the_same_session_gives_the_same_picture_and_stays_as_it_is() -> None:
    """Drawing changes no byte of the file, and twice the same gives the same."""
    path = recovered("interrupted-command")
    before = path.read_bytes()
    assert image(timeline(path)) == image(timeline(path))
    with Session.open(path) as session:
        assert repr(timeline(session)) == repr(timeline(path))
    assert path.read_bytes() == before


def test_who_cannot_see_the_picture_reads_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell shows the picture with its words, and the same facts as text of its own."""
    shown: list[Any] = []
    monkeypatch.setattr(module, "display", lambda data, **how: shown.append((data, how)))
    drawn = timeline(recovered())
    drawn._ipython_display_()
    ((data, how),) = shown
    assert (set(data), how["raw"]) == ({"image/png", "text/plain"}, True)
    assert capsys.readouterr().out.splitlines() == repr(drawn).splitlines()[-3:]


def test_strange_names_do_no_harm(tmp_path: Path) -> None:
    """Text that no font has, that a screen obeys, or that looks like mathematics, is only text."""
    tool = "书$\\x$\u2028\x1b[2J<b>"
    path = written(session_path(tmp_path), *attempt(1, "approved", tool=tool))
    drawn = timeline(path)
    assert r"书$\x$⟦U+2028⟧⟦ESC⟧[2J<b>" in repr(drawn)
    assert image(drawn)[0].startswith(b"\x89PNG")


@pytest.mark.parametrize("many", [0, 1, 61, 200])
def test_any_length_has_a_picture(many: int, tmp_path: Path) -> None:
    """An empty session and a long one have one too; a long one shows its last 60 lines."""
    says = [message_record({"role": "user", "content": "🙂"}) for _ in range(many)]
    drawn = timeline(written(session_path(tmp_path), *says))
    assert len(drawn.others) == min(many, 60)
    assert drawn.first == max(1, many - 59)
    data, size = image(drawn)
    assert data.startswith(b"\x89PNG")
    assert size["width"] <= 1000
    assert len(data) < 60_000
