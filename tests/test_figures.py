"""What the figure of a session shows: compared with what the provider counted, and the file."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lai import Budget, Session, session_path
from lai.course import figures
from lai.course.place import agent_at, workspace_of
from lai.records import JSON

LINES = "书\u2028🙂 雨一直下，屋里没有人睡着。\nNobody in the house slept.\n"
TALK = ("读前三章，告诉我信在谁手里", "now read the last three and tell me who took it")


def talk(folder: Path, window: int, turns: Sequence[str] = TALK) -> tuple[Path, Budget]:
    """A session about six chapters, and the budget its agent had."""
    path = session_path(folder)
    for number in range(1, 7):
        text = f"第 {number} 章\n{LINES * 15}"
        (workspace_of(path) / f"chapter-{number}.txt").write_text(text, encoding="utf-8")
    with agent_at(path, budget=Budget(window=window)) as agent:
        for turn in turns:
            agent.run(turn)
        assert agent.budget
        return path, agent.budget


def answers(path: Path) -> list[JSON]:
    """The assistant messages of a session, as they stand in the file."""
    found = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
    return [r for r in found if r.get("message", {}).get("role") == "assistant"]


def test_bars_are_what_the_provider_counted(tmp_path: Path) -> None:
    """Each request that was sent is one row, as large as the provider says in the file."""
    path, budget = talk(tmp_path, 20_000)
    requests = figures.filling(path, budget).requests
    told = [record["usage"]["prompt_tokens"] for record in answers(path)]
    assert [r.number for r in requests] == [1, 2, 3, 4, 5, 6]
    assert all(abs(r.total - n) <= 5 for r, n in zip(requests, told, strict=True))
    assert all(r.total + r.parts.left == 20_000 for r in requests)
    assert not any(r.instead_of or r.parts.summary for r in requests)


def test_parts_are_told_apart(tmp_path: Path) -> None:
    """What a tool answered counts as a result, and fixed parts are the same in every request."""
    path, budget = talk(tmp_path, 20_000, ["你能做什么？", TALK[0]])
    first, second, third, fourth = figures.filling(path, budget).requests
    assert {(r.parts.system, r.parts.tools) for r in (first, second, third, fourth)} == {
        (budget.system, budget.tools)
    }
    assert (first.parts.results, second.parts.results) == (0, 0)
    assert fourth.parts.results > 2.8 * third.parts.results > 0  # one chapter, then three
    assert 0 < first.parts.messages < second.parts.messages


def test_a_summary_stands_at_its_request(tmp_path: Path) -> None:
    """The request behind a compaction says what it would have been, as the record has it."""
    path, budget = talk(tmp_path, 4000, [*TALK, "what can you do?"])
    records = Session.read(path).records
    place = next(n for n, r in enumerate(records) if r["type"] == "compaction")
    number = sum(r.get("message", {}).get("role") == "assistant" for r in records[:place]) + 1
    requests = figures.filling(path, budget).requests
    assert {r.number: r.instead_of for r in requests if r.instead_of} == {
        number: records[place]["tokens_before"]
    }
    assert [r.number for r in requests if r.parts.summary] == list(range(number, 8))
    assert requests[number - 1].total < budget.limit < requests[number - 1].instead_of


def test_the_text_twin_is_the_table(tmp_path: Path) -> None:
    """The words of a figure hold every number of it, and say where a summary was made."""
    path, budget = talk(tmp_path, 4000)
    figure = figures.filling(path, budget)
    data, metadata = figure._repr_mimebundle_()
    assert data["text/plain"] == repr(figure) == repr(figure.table)
    header, *rows = [line.split() for line in repr(figure).splitlines()]
    assert header[:6] == ["request", *figures.PARTS]
    for request, row in zip(figure.requests, rows, strict=True):
        numbers = [request.number, *(getattr(request.parts, name) for name in figures.PARTS)]
        numbers += [request.total, request.parts.left, request.instead_of]
        assert row == [str(n) for n in (numbers if request.instead_of else numbers[:-1])]
    (made,) = [r for r in figure.requests if r.instead_of]
    alt = metadata["image/png"]["alt"]
    assert alt == " ".join(figure.facts)
    assert "6 bars" in alt
    assert f"Before request {made.number} a summary was made: {made.instead_of:,} became" in alt
    assert "limit 2,800" in alt
    assert "window 4,000" in alt


def test_the_facts_stand_below_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell shows the picture with its words, and under it the same words as text."""
    shown: list[tuple[dict[str, str], JSON]] = []
    monkeypatch.setattr(figures, "display", lambda data, **more: shown.append((data, more)))
    figure = figures.filling(*talk(tmp_path, 20_000))
    figure._ipython_display_()
    [(data, more)] = shown
    assert (data, more["metadata"]) == figure._repr_mimebundle_()
    bars, lines, made = capsys.readouterr().out.splitlines()
    assert bars.startswith("6 bars of ")
    assert lines == "Two lines: the limit 14,000, the window 20,000."
    assert made == "No summary was made."


def test_the_picture_is_small_and_repeats(tmp_path: Path) -> None:
    """The same session gives the same PNG, below 60 kB; another session gives another."""
    (tmp_path / "other").mkdir()
    path, budget = talk(tmp_path, 4000)
    one, two = figures.filling(path, budget).png(), figures.filling(path, budget).png()
    other = figures.filling(*talk(tmp_path / "other", 20_000)).png()
    assert one == two != other
    assert one.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(one) < 60_000


def test_no_part_is_a_colour_alone() -> None:
    """No two parts share a colour or a hatching, but for the plain one at the bottom."""
    colours, hatchings = zip(*figures.PARTS.values(), strict=True)
    assert len(set(colours)) == len(set(hatchings)) == len(figures.PARTS)


def test_drawing_changes_nothing(tmp_path: Path) -> None:
    """A figure is drawn while somebody has the session open, and no byte moves."""
    path, budget = talk(tmp_path, 4000)
    before = path.read_bytes()
    with Session.open(path):
        figures.filling(path, budget).png()
    assert path.read_bytes() == before


def test_a_session_without_requests(tmp_path: Path) -> None:
    """Where the model was never asked there is an empty picture, and it says so."""
    path, budget = talk(tmp_path, 4000, [])
    figure = figures.filling(path, budget)
    assert figure.png().startswith(b"\x89PNG")
    assert figure.alt == "An empty picture: the model was not asked yet."


def test_matplotlib_waits_until_something_is_drawn() -> None:
    """Importing the module does not import matplotlib."""
    code = "import sys, lai.course.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("budget", "cut"), [(Budget(window=4000), True), (None, False)])
def test_results_have_the_room_of_the_window(
    tmp_path: Path, budget: Budget | None, cut: bool
) -> None:
    """With a budget, the tools of a course agent return at most a quarter of its window."""
    path, text = session_path(tmp_path), LINES * 300
    for number in (1, 2, 3):
        (tmp_path / f"chapter-{number}.txt").write_text(text, encoding="utf-8")
    with agent_at(path, budget=budget) as agent:
        agent.run(TALK[0])
    told = [r["message"] for r in Session.read(path).records if r["type"] == "message"]
    results = [json.loads(m["content"]) for m in told if m["role"] == "tool"]
    assert [result["truncated"] for result in results] == [cut] * 3
    assert all((len(result["content"]) < 4000) is cut for result in results)
