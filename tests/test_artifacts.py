"""The backstop for large results: what is kept, what is said, and that it never raises."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lai.artifacts import bounded
from lai.outcome import named
from lai.records import Status
from lai.tokens import estimate
from lai.tools import Run
from lai.workspace import workspace_tools

JSON = dict[str, Any]
LIMIT = 50 * 1024
ID = "exec_" + "0123456789abcdef" * 2
HEAD = {"status": "succeeded", "execution_id": ID}
LINES = "".join(f"第{n}行 “日志” line 🧾\u2028\x85\r\n" for n in range(4000))
nested: JSON = {"k": [{"书": {"深": ["🧾", None, 1.5, {"text": "a\nb"}]}}] * 3000}
# A large result, and the ending of its artifact.
LARGE: dict[str, tuple[JSON, str]] = {
    "lines": ({**HEAD, "stdout": LINES, "exit_code": 0, "warnings": ["一", "二"]}, "txt"),
    "one long line": ({**HEAD, "value": "书" * 30_000}, "txt"),
    "an error's words": ({**HEAD, "status": "failed", "message": LINES, "code": 7}, "txt"),
    "control characters": ({**HEAD, "raw": "\0\x1b[2K" * 20_000}, "txt"),
    "a text named like ours": ({**HEAD, "preview": LINES}, "txt"),
    "two texts": ({**HEAD, "a": LINES, "b": LINES[::-1]}, "json"),
    "a path of its own": ({**HEAD, "out": LINES, "artifact_path": "书/自己.log"}, "json"),
    "nested": ({**HEAD, **nested, "done": True}, "json"),
    "a text inside": ({**HEAD, "data": {"text": LINES}}, "json"),
    "a huge list": ({**HEAD, "rows": list(range(60_000))}, "json"),
    "many small fields": ({**HEAD, **{f"字段{n}": n for n in range(20_000)}}, "json"),
    "a huge key": ({**HEAD, "键" * 60_000: 1, "z": "小"}, "json"),
    "a huge key of a text": ({**HEAD, "键" * 20_000: LINES}, "json"),
    "a text among many": ({**HEAD, "t": LINES, **{f"f{n}": n for n in range(3000)}}, "json"),
}


def written(result: Any) -> str:
    """The result as it stands in a message."""
    return json.dumps(result, ensure_ascii=False)


def within(result: JSON, tokens: int | None) -> bool:
    text = written(result)
    return len(text.encode()) <= LIMIT and (tokens is None or estimate(text) <= tokens)


def read_whole(ws: Path, path: str, offset: int = 0, window: int | None = None) -> str:
    """All that read_file gives, from offset to offset."""
    read_file = workspace_tools(ws, window=window)[0]
    pieces, following = [], offset
    while following is not None:
        page = read_file.run({"path": path, "offset": following}, Run(ID, "k"))
        pieces.append(page["content"])
        following = page["next_offset"]
    return "".join(pieces)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "工作区").mkdir()
    return tmp_path / "工作区/.agent_state/artifacts"


# What fits


@pytest.mark.parametrize("tokens", [None, 200])
@pytest.mark.parametrize(
    "result", [{}, HEAD, {**HEAD, "输出": "好\n" * 20, "n": [1, None]}, {"truncated": False}]
)
def test_what_fits_is_returned_as_it_is(folder: Path, result: JSON, tokens: int | None) -> None:
    """A small result is the same object, and neither folder nor file is made."""
    assert bounded(result, folder, tokens) is result
    assert not folder.parent.exists()


def test_the_bound_is_exact_in_bytes_and_tokens(folder: Path) -> None:
    """50 KiB of JSON text fit and one byte more does not; so with the estimated tokens."""
    result = {**HEAD, "t": ""}
    result["t"] = "字" * 1000 + "x" * (LIMIT - len(written(result).encode()) - 3000)
    assert len(written(result).encode()) == LIMIT
    tokens = estimate(written(result))
    assert bounded(result, folder) is result
    assert bounded(result, folder, tokens) is result
    assert bounded(result, folder, tokens - 1)["truncated"]
    assert bounded({**result, "t": result["t"] + "x"}, folder)["truncated"]


# What does not


@pytest.mark.parametrize("tokens", [None, 32_000, 1000, 200, 100])
@pytest.mark.parametrize("name", LARGE)
def test_nothing_of_a_large_result_is_lost(folder: Path, name: str, tokens: int | None) -> None:
    """The short form is within the bound, and with its artifact it says all the result said."""
    result, ending = LARGE[name]
    before = copy.deepcopy(result)
    short = bounded(result, folder, tokens)
    assert result == before
    assert within(short, tokens)
    assert short["truncated"] is True
    assert short["artifact_path"] == f".agent_state/artifacts/{Path(short['artifact_path']).name}"
    whole = read_whole(folder.parents[1], short["artifact_path"])
    assert short["bytes"] == len(whole.encode())
    if short["artifact_path"].endswith(".json"):
        assert json.loads(whole) == result
    else:
        rest = {field: value for field, value in result.items() if value != whole}
        assert len(rest) == len(result) - 1
        assert {field: short[field] for field in rest} == rest
    assert short["artifact_path"].endswith(ending) or tokens in {200, 100}


@pytest.mark.parametrize("name", LARGE)
def test_the_short_form_says_what_there_is_room_for(folder: Path, name: str) -> None:
    """Status, id and other small fields stay, and most of the room goes to the preview."""
    result, _ = LARGE[name]
    short = bounded(result, folder, 1000)
    assert list(short)[:2] == ["status", "execution_id"]
    assert {field: short[field] for field in HEAD} == {field: result[field] for field in HEAD}
    for field in {"exit_code", "code", "done", "z"} & result.keys():
        assert short[field] == result[field]
    assert estimate(written(short["preview"])) > 450


@pytest.mark.parametrize("tokens", [None, 4000, 300])
@pytest.mark.parametrize("name", LARGE)
def test_reading_on_where_the_preview_ends_gives_the_rest(
    folder: Path, name: str, tokens: int | None
) -> None:
    """The offset in the note is that of the first byte that was not shown, in any window."""
    short = bounded(LARGE[name][0], folder, tokens)
    said, _, offset = short["note"].rpartition("; read_file goes on at offset ")
    assert said.endswith(f" is cut after {offset} bytes")
    rest = read_whole(folder.parents[1], short["artifact_path"], int(offset), 9000)
    assert short["preview"] + rest == read_whole(folder.parents[1], short["artifact_path"])
    if name == "lines":
        assert short["preview"].endswith("\r\n")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=60), inner),
    max_leaves=40,
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(result=st.dictionaries(st.text(max_size=30), json_values), tokens=st.integers(100, 400))
def test_any_result_comes_back_within_the_bound(folder: Path, result: JSON, tokens: int) -> None:
    """Whatever a tool returns, what the model gets is within the bound or as it was."""
    result = named(Status.SUCCEEDED, ID, result)
    short = bounded(result, folder, tokens)
    assert within(short, tokens)
    if short is not result:
        whole = read_whole(folder.parents[1], short["artifact_path"])
        is_json = short["artifact_path"].endswith(".json")
        assert json.loads(whole) == result if is_json else whole in result.values()


@pytest.mark.parametrize(("tokens", "fields"), [(0, []), (1, []), (40, []), (60, ["status"])])
def test_too_small_a_bound_gives_the_bare_facts(
    folder: Path, tokens: int, fields: list[str]
) -> None:
    """Words and preview go first, then the fields; the facts come back even if they do not fit."""
    short = bounded(LARGE["one long line"][0], folder, tokens)
    assert list(short) == [*fields, "truncated", "bytes", "artifact_path"]


# Pages


def test_a_page_of_read_file_is_no_large_result(folder: Path) -> None:
    """A page of 50 KiB stays as it is: its reader goes on by next_offset, not by an artifact."""
    page = {"status": "completed", "content": "一\n" * (LIMIT // 4), "path": "书/" + "名" * 1000}
    page |= {"truncated": True, "next_offset": LIMIT // 4 * 4}
    assert bounded(page, folder) is page
    for larger in ({**page, "content": page["content"] + "x"}, {**page, "more": "x" * 9000}):
        assert bounded(larger, folder)["artifact_path"]


def test_a_page_too_large_for_the_window_can_be_read_on(folder: Path) -> None:
    """Tools that do not know the window return too much; the file and the rest stay in reach."""
    ws = folder.parents[1]
    (ws / "长.txt").write_text(LINES, "utf-8", newline="")
    read_file, got, offset = workspace_tools(ws)[0], "", 0
    while offset is not None:  # each page of the file, and of each page what was not shown
        page = read_file.run({"path": "长.txt", "offset": offset}, Run(ID, "k"))
        short = bounded({"status": "completed", **page}, folder, 500)
        assert within(short, 500)
        assert (short["path"], short["next_offset"]) == ("长.txt", page["next_offset"])
        got += short["preview"] + read_whole(
            ws, short["artifact_path"], len(short["preview"].encode()), 2000
        )
        offset = page["next_offset"]
    assert got == LINES
