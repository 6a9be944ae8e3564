"""How much is returned: cut texts, pages of read_file, output of run_bash in a small window."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lai import bounds, output, workspace
from lai.artifacts import bounded
from lai.bounds import Room
from lai.records import LaiError
from lai.tokens import estimate
from lai.tools import Run, Tool, ToolError, Unconfirmed
from lai.workspace import workspace_tools

JSON = dict[str, Any]
KIB = 1024
RUN = Run("exec_" + "0123456789abcdef" * 2, "demo:tool:call_1")
ATOMS = ["a", " ", "\r\n", "\n", "é", "书", "🧾", "\u2028", "\x85", '"', "\\", "\0", "word ", "0"]
ATOMS += ["bcdfg", "HTTP", "\t\t", "-" * 9, "   " * 9, "🇨🇳", "字\n", "ꙮ"]
texts = st.lists(st.tuples(st.sampled_from(ATOMS), st.integers(1, 40)), max_size=40).map(
    lambda runs: "".join(atom * times for atom, times in runs)
)
on_disk = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MIXED = [
    "日志 line 🧾\n",
    "x" * 30,
    "\n\n\n",
    '{"k": "v"}, ',
    "\0\x1b[2K",
    "书" * 9,
    "-" * 40,
    "0F",
]


def tokens(value: Any) -> int:
    """The tokens of a result, as it stands in a message."""
    return estimate(json.dumps(value, ensure_ascii=False))


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def read(tool: Tool, path: str, offset: int = 0) -> JSON:
    """A result of read_file, with the status that the agent adds."""
    return {"status": "completed", **tool.run({"path": path, "offset": offset}, RUN)}


def pages(tool: Tool, path: str) -> list[JSON]:
    """All results, from offset to offset."""
    found, offset = [], 0
    while offset is not None:
        found.append(read(tool, path, offset))
        following = found[-1]["next_offset"]
        assert following is None or following > offset, "reading goes on"
        offset = following
    return found


def bash(root: Path, command: str, window: int | None, timeout: float = 20) -> JSON:
    """What the agent knows after a command, whatever the outcome; each one in its own run."""
    head = {"status": "succeeded", "execution_id": RUN.execution_id}
    (root / f".agent_state/artifacts/{RUN.execution_id}.log").unlink(missing_ok=True)
    tool = workspace_tools(root, window=window, timeout=timeout)[2]
    try:
        return {**head, **tool.run({"command": command}, RUN)}
    except ToolError as error:
        return {**head, "status": "failed", "message": str(error), **error.result}
    except Unconfirmed as error:
        return {**head, "status": "unknown", "message": str(error), **error.result}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "工作区"
    root.mkdir()
    return root


# Cutting a text


@given(text=texts, size=st.integers(0, 400), limit=st.integers(0, 300))
def test_a_cut_is_a_part_that_fits(text: str, size: int, limit: int) -> None:
    """Head and tail are start and end of the text, and within the bytes and the tokens."""
    head, tail = (cut(text, Room(size, limit)) for cut in (bounds.head, bounds.tail))
    assert text.startswith(head)
    assert text.endswith(tail)
    for cut in (head, tail):
        written = json.dumps(cut, ensure_ascii=False)[1:-1]
        assert len(written.encode()) <= size
        assert estimate(written) <= limit


@pytest.mark.parametrize("cut", [bounds.head, bounds.tail])
@pytest.mark.parametrize("unit", ["a plain line of English\n", "书", "🧾 ", "\0", "xK9/" * 8])
def test_a_cut_wastes_little(cut: Callable[[str, Room], str], unit: str) -> None:
    """Of an even text at least nine tenths of the room are used, or all of the text."""
    text = unit * 4000
    for room in (Room(tokens=500), Room(tokens=3000), Room(2000)):
        kept = cut(text, room)
        assert 0.9 < room.share(kept) <= 1
        assert cut(text[: len(kept) // 2], room) == text[: len(kept) // 2]


@pytest.mark.parametrize("cut", [bounds.head, bounds.tail])
@pytest.mark.parametrize("text", ["".join(MIXED) * 10**4, (" " * 9**6 + "书\n" * 9**4) * 2])
def test_a_cut_looks_at_little_more_than_it_keeps(
    cut: Callable[[str, Room], str], text: str
) -> None:
    """What fits is estimated a few times, the rest of a long text never."""
    with mock.patch.object(bounds, "estimate", side_effect=estimate) as counted:
        kept = cut(text, Room(2**40, 2000))
    seen = sum(len(call.args[0]) for call in counted.call_args_list)
    assert seen < 4 * len(json.dumps(kept, ensure_ascii=False)) + 8 * bounds.BLOCK
    assert seen < len(text) / 2


# read_file


@on_disk
@given(text=texts, window=st.integers(4, 3000))
def test_pages_add_up_to_the_file_in_any_window(ws: Path, text: str, window: int) -> None:
    """Whatever the text and the window, paging gives every byte once, a quarter at a time."""
    (ws / "t.txt").write_bytes(text.encode())
    found = pages(workspace_tools(ws, window=window)[0], "t.txt")
    assert "".join(page["content"] for page in found) == text
    for page in found:
        assert page["truncated"] is (page["next_offset"] is not None)
        assert estimate(page["content"]) <= window // 4 or len(page["content"]) == 1
    for page in found[:-1]:
        fitting = len(page["content"]) > 1 and "\n" in page["content"]
        assert page["content"].endswith("\n") or not fitting


@pytest.mark.parametrize("window", [1000, 8000, 32_000])
@pytest.mark.parametrize("unit", MIXED)
def test_a_page_with_all_its_fields_is_within_the_quarter(ws: Path, unit: str, window: int) -> None:
    """The whole JSON text of a page counts, escapes and path too, and nearly all is used."""
    path = "夹/" + "名" * 40 + ".txt"
    (ws / path).parent.mkdir()
    (ws / path).write_text(unit * (60_000 // len(unit)), "utf-8", newline="")
    page = read(workspace_tools(ws, window=window)[0], path)
    assert page["truncated"]
    assert tokens(page) <= window // 4
    assert tokens(page) > window // 4 * 0.75 or len(page["content"].encode()) > 49 * KIB


@pytest.mark.parametrize("window", [None, 10**7])
@pytest.mark.parametrize("unit", ["书\n", "x" * 10, "\r\n"])
def test_no_window_makes_a_page_larger_than_50_kib(ws: Path, unit: str, window: int | None) -> None:
    """However large the window, a page is as large as without one: 50 KiB."""
    (ws / "长.txt").write_bytes(unit.encode() * 30_000)
    page = read(workspace_tools(ws, window=window)[0], "长.txt")
    assert 50 * KIB - 20 < len(page["content"].encode()) <= 50 * KIB
    assert page == read(workspace_tools(ws)[0], "长.txt")


def test_a_long_path_does_not_stop_the_reading(ws: Path) -> None:
    """Where a path alone takes the quarter, half of it is still for the content."""
    path = "/".join(["夹" * 60] * 12 + ["长.txt"])
    (ws / path).parent.mkdir(parents=True)
    (ws / path).write_text("一行字\n" * 500, "utf-8")
    found = pages(workspace_tools(ws, window=800)[0], path)
    assert "".join(page["content"] for page in found) == "一行字\n" * 500
    assert all(estimate(page["content"]) > 60 for page in found[:-1])


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_that_holds_nothing_is_refused(ws: Path, window: int) -> None:
    """A window without tokens is an error at once, not an endless reading later."""
    with pytest.raises(LaiError, match="holds nothing"):
        workspace_tools(ws, window=window)


# run_bash

PRINTED = [
    "".join(MIXED).replace("\0", "") * 400,
    "".join(f"第{n}行 🧾\n" for n in range(3000)),
    "书" * 2000,
    "ok\n",
]


@pytest.mark.parametrize("window", [800, 2000, 16_000, 128_000, None])
@pytest.mark.parametrize("printed", PRINTED)
def test_what_was_printed_is_shown_within_the_quarter(
    ws: Path, printed: str, window: int | None
) -> None:
    """Head and tail are the real ones, what is omitted is counted and in the artifact."""
    (ws / "out").write_bytes(printed.encode())
    result = bash(ws, "cat out", window)
    if window:
        assert tokens(result) <= window // 4 or (
            window < 1500 and estimate(result["output"]) <= 200
        )
    if not result["truncated"]:
        assert result["output"] == printed
        return
    head, _, rest = result["output"].partition("\n[... ")
    between, _, tail = rest.partition(" ...]\n")
    assert printed.startswith(head)
    assert printed.endswith(tail)
    assert head
    assert len(tail) > len(head)
    assert result["omitted_bytes"] == len(printed.encode()) - len((head + tail).encode())
    assert between.startswith(f"{result['omitted_bytes']} bytes left out here; everything is in")
    assert (ws / result["artifact_path"]).read_bytes() == printed.encode()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("seq 9999; exit 3", "failed"),
        ("seq 9999; kill $$", "failed"),
        ("seq 9999; sleep 9", "unknown"),
    ],
)
def test_a_failure_is_within_the_quarter_too(ws: Path, command: str, status: str) -> None:
    """What is said about a bad end has its room beside head and tail."""
    result = bash(ws, command, 2000, timeout=1)
    assert result["status"] == status
    assert result["output"].startswith("1\n2\n3\n")
    assert result["output"].endswith("9998\n9999\n")
    assert 400 < tokens(result) <= 500


@pytest.mark.parametrize("raw", ["\\xff", "\\x01", "\\x00\\xc4\\xe3"])
@pytest.mark.parametrize("times", [6000, 40_000])
def test_bytes_that_grow_in_json_are_bounded(ws: Path, raw: str, times: int) -> None:
    """Control characters and replaced bytes take up to six times their size: 50 KiB stay 50."""
    code = f"import sys; sys.stdout.buffer.write(b'{raw}' * {times})"
    result = bash(ws, f'python3 -c "{code}"', None)
    assert size(result) <= 50 * KIB
    raw_size = (ws / result["artifact_path"]).stat().st_size
    assert raw_size == times * raw.count("x")
    assert 0 <= result["omitted_bytes"] < raw_size


@given(
    data=st.lists(st.binary(max_size=9) | texts.map(str.encode), max_size=12).map(b"".join),
    room=st.tuples(st.integers(300, 2000), st.integers(0, 500)),
)
@example(data=b"a" * 40 + b"\x80\x80 no character starts here", room=(2000, 500))
@example(data=b"\0" * 3, room=(300, 14))
def test_head_and_tail_never_overlap(data: bytes, room: tuple[int, int]) -> None:
    """Whatever was printed and whatever the room, each byte is shown once or counted once."""
    reader, file = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    with mock.patch.object(output, "HEAD", 40), mock.patch.object(output, "TAIL", 160):
        seen = output.Output(reader, -1, file, "p")
        seen._add(data)
        head, tail = seen._ends(Room(*room))
        shown = seen.shown(Room(*room))
    seen.close()
    assert data.startswith(head)
    assert data.endswith(tail)
    assert len(data) - len(head) - len(tail) >= 0
    assert shown["truncated"] is (shown["omitted_bytes"] > 0)
    if len(data) <= 200 and 6 * len(data) < room[1] // 2:  # room even for \u0000, six signs each
        assert shown["output"] == data.decode("utf-8", "replace")
        assert not shown["truncated"]


# Together


@pytest.mark.parametrize("window", [None, 2000, 4000, 128_000])
@pytest.mark.parametrize("unit", MIXED)
def test_what_these_tools_return_needs_no_backstop(ws: Path, unit: str, window: int | None) -> None:
    """A page and an output pass the bound for all tools as they are: reading never circles."""
    (ws / "长.txt").write_text(unit * (70_000 // len(unit)), "utf-8", newline="")
    tool = workspace_tools(ws, window=window)[0]
    bound = window and window // 4
    for result in (*pages(tool, "长.txt")[:3], bash(ws, "cat 长.txt", window)):
        assert bounded(result, ws / ".agent_state/artifacts", bound) is result
    assert list((ws / ".agent_state/artifacts").glob("result*")) == []


def test_the_descriptions_state_the_bound(ws: Path) -> None:
    """What the model is told about the size of a page is what it gets."""
    assert workspace.READ_LIMIT == 50 * KIB
    assert "at most 50 KiB" in workspace_tools(ws, window=1000)[0].description
