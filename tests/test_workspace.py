"""read_file and write_file, and the way to a file: what is on the disk afterwards decides."""

import errno
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lai import paths, workspace
from lai.tools import Effect, Run, Tool, ToolError, Unconfirmed
from lai.workspace import workspace_tools

CASES = Path(__file__).parent / "data" / "cases"
ALLOWED_NAMES = [
    "账本.txt",
    "🚀 发射/计划 1.md",
    "a b/~c",
    "...",
    "-rf",
    "é/ü",
]


def case(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CASES / f"{name}.case.json").read_text("utf-8"))
    return loaded


def attempt(*bases: str | None) -> Run:
    return Run(f"exec_{uuid.uuid4().hex}", "demo:write_file:call_1", frozenset(bases))


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(tool: Tool, path: str, content: str) -> dict[str, Any]:
    """What the agent does: look, note the base, run."""
    arguments = {"path": path, "content": content}
    tool.validate(arguments)
    tool.check(arguments)
    assert tool.version
    return tool.run(arguments, attempt(tool.version(arguments)))


def read(tool: Tool, path: str, offset: int = 0) -> dict[str, Any]:
    arguments = {"path": path, "offset": offset}
    tool.validate(arguments)
    return tool.run(arguments, attempt())


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below, with mode and content (or link target), without following links."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                content = os.fsencode(path.readlink())
            else:
                content = path.read_bytes() if stat.S_ISREG(mode) else b""
            found[str(path.relative_to(root))] = (mode, content)
    return found


def hidden(root: Path) -> list[str]:
    return [name for name in snapshot(root) if Path(name).name.startswith(".lai-")]


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    return root


@pytest.fixture
def read_file(ws: Path) -> Tool:
    return workspace_tools(ws)[0]


@pytest.fixture
def write_file(ws: Path) -> Tool:
    return workspace_tools(ws)[1]


# What the tools are


def test_each_tool_states_its_promise(ws: Path) -> None:
    """Reading is read-only, writing is idempotent and knows versions, bash promises nothing."""
    read_file, write_file, run_bash = workspace_tools(str(ws), sandbox="none")
    assert [t.name for t in (read_file, write_file, run_bash)] == [
        "read_file",
        "write_file",
        "run_bash",
    ]
    assert [t.effect for t in (read_file, write_file, run_bash)] == [
        Effect.READ_ONLY,
        Effect.IDEMPOTENT,
        Effect.OPAQUE,
    ]
    assert write_file.version and write_file.wanted  # noqa: PT018
    assert "not a sandbox" in run_bash.warning


def test_every_argument_is_described_to_the_model(ws: Path) -> None:
    """Each field of each schema has a description, and unknown keys are refused."""
    for tool in workspace_tools(ws):
        parameters = tool.schema()["function"]["parameters"]
        assert all(field["description"] for field in parameters["properties"].values())
        assert parameters["additionalProperties"] is False


# write_file


@pytest.mark.parametrize("path", ALLOWED_NAMES)
def test_what_is_written_is_on_the_disk_and_can_be_read(
    ws: Path, read_file: Tool, write_file: Tool, path: str
) -> None:
    """Ordinary names in any script are written as given, byte for byte, and read back."""
    content = "你好，账本 🧾\r\nsecond\n\u2028third"
    result = write(write_file, path, content)
    assert result == {"path": path, "bytes_written": len(content.encode())}
    assert (ws / path).read_bytes() == content.encode()
    assert read(read_file, path) == {
        "content": content,
        "path": path,
        "truncated": False,
        "next_offset": None,
    }
    assert not hidden(ws)


def test_the_preview_of_a_new_file_names_the_folders_that_will_be_made(
    ws: Path, write_file: Tool
) -> None:
    """The check shows action, size, content and new folders, and makes none of them."""
    (ws / "报告").mkdir()
    before = snapshot(ws)
    shown = write_file.check({"path": "报告/2026/七月/a.md", "content": "甲\n"})
    assert shown == {
        "action": "create",
        "path": "报告/2026/七月/a.md",
        "bytes": 4,
        "preview": "甲\n",
        "new_folders": ["报告/2026", "报告/2026/七月"],
    }
    assert snapshot(ws) == before


def test_the_preview_of_an_overwrite_has_a_diff(ws: Path, write_file: Tool) -> None:
    """The check of an overwrite shows which lines change, and changes none."""
    (ws / "诗.txt").write_text("床前明月光\n疑是地上霜\n", "utf-8")
    before = snapshot(ws)
    shown = write_file.check({"path": "诗.txt", "content": "床前明月光\n疑是地上雪\n"})
    assert shown["action"] == "overwrite"
    assert shown["preview"] == "床前明月光\n疑是地上雪\n"
    assert "-疑是地上霜\n+疑是地上雪" in shown["diff"]
    assert "-床前" not in shown["diff"]
    assert snapshot(ws) == before


@pytest.mark.parametrize("old", [b"\xc4\xe3\xba\xc3", b"x" * 300_000])
def test_a_diff_that_cannot_be_shown_says_why(ws: Path, write_file: Tool, old: bytes) -> None:
    """Where the old file is no text or very long, the preview says so in place of a diff."""
    (ws / "旧.bin").write_bytes(old)
    shown = write_file.check({"path": "旧.bin", "content": "新"})
    assert shown["diff"].startswith("(not computed")


def test_version_and_wanted_are_hashes_of_the_bytes(ws: Path, write_file: Tool) -> None:
    """The version is the hash of what is there, or None; wanted is the hash of what will be."""
    arguments = {"path": "新/数.txt", "content": "一二三\r\n"}
    assert write_file.version and write_file.wanted  # noqa: PT018
    assert write_file.version(arguments) is None
    assert write_file.wanted(arguments) == sha("一二三\r\n".encode())
    (ws / "新").mkdir()
    assert write_file.version(arguments) is None
    (ws / "新/数.txt").write_bytes(b"\xff\x00")
    assert write_file.version(arguments) == sha(b"\xff\x00")


def test_k6_06_line_ends_survive_the_round_trip(
    ws: Path, read_file: Tool, write_file: Tool
) -> None:
    """K6-06: reading and writing back changes no byte, and bytes_written counts real bytes."""
    given_case = case("K6-06")
    for name in given_case["expect"]["round_trip_bytes_equal"]:
        data = given_case["files"][name].encode().decode("unicode_escape").encode()
        assert b"\r\n" in data
        (ws / name).write_bytes(data)
        write(write_file, name, read(read_file, name)["content"])
        assert (ws / name).read_bytes() == data
    result = write(write_file, **given_case["call"])
    assert result["bytes_written"] == 5
    assert (ws / "w.txt").read_bytes() == b"a\r\nb\n"


def test_k6_06_a_gbk_file_is_refused_not_guessed(ws: Path, read_file: Tool) -> None:
    """K6-06: a file that is not UTF-8 is refused with its size and stays as it is."""
    data = bytes.fromhex(case("K6-06")["files"]["gbk.txt"].removeprefix("hex "))
    (ws / "gbk.txt").write_bytes(data)
    with pytest.raises(ToolError, match="not UTF-8 text: it has 4 bytes") as caught:
        read(read_file, "gbk.txt")
    assert caught.value.result == {"path": "gbk.txt", "bytes": 4}
    assert (ws / "gbk.txt").read_bytes() == data


def test_k6_02_permission_bits_are_kept(ws: Path, write_file: Tool) -> None:
    """K6-02: 0755 stays 0755, 0600 stays 0600, and a new file gets what the umask leaves."""
    for name, mode in {"run.sh": 0o755, "密.txt": 0o600, "组.txt": 0o664}.items():
        (ws / name).write_text("old")
        (ws / name).chmod(mode)
        write(write_file, name, "新")
        assert stat.S_IMODE((ws / name).stat().st_mode) == mode
    for mask, mode in {0o022: 0o644, 0o077: 0o600}.items():
        before = os.umask(mask)
        try:
            write(write_file, f"new-{mask}.txt", "新")
        finally:
            os.umask(before)
        assert stat.S_IMODE((ws / f"new-{mask}.txt").stat().st_mode) == mode


def test_k6_02_a_read_only_file_is_refused(ws: Path, write_file: Tool) -> None:
    """K6-02: a file its owner may not write is refused by check and by run, untouched."""
    (ws / "ro.txt").write_text("只读")
    (ws / "ro.txt").chmod(0o444)
    before = snapshot(ws)
    with pytest.raises(ToolError, match="read-only"):
        write_file.check({"path": "ro.txt", "content": "x"})
    with pytest.raises(ToolError, match="read-only"):
        write_file.run({"path": "ro.txt", "content": "x"}, attempt(sha("只读".encode())))
    assert snapshot(ws) == before


def test_another_name_of_the_file_keeps_the_old_content(ws: Path, write_file: Tool) -> None:
    """A hard link is never written through: what is outside keeps its content."""
    outside = ws.parent / "外面.txt"
    outside.write_text("old")
    (ws / "link.txt").hardlink_to(outside)
    write(write_file, "link.txt", "新")
    assert outside.read_text() == "old"
    assert (ws / "link.txt").read_text("utf-8") == "新"


@pytest.mark.parametrize("name", ["字" * 85, "n" * 255])
def test_the_longest_name_works(ws: Path, write_file: Tool, name: str) -> None:
    """A name of 255 bytes leaves room for the hidden file beside it."""
    write(write_file, name, "满")
    write(write_file, name, "滿")
    assert snapshot(ws).keys() == {name}
    with pytest.raises(ToolError, match="longer than 255 bytes"):
        write(write_file, "new/" + name + "x", "")
    assert snapshot(ws).keys() == {name}


# No lost update


@pytest.mark.parametrize("base", [None, "旧内容"])
@pytest.mark.parametrize("folder", ["", "夹/"])
def test_a_file_that_moved_since_approval_is_not_replaced(
    ws: Path, write_file: Tool, base: str | None, folder: str
) -> None:
    """When the bytes are not an expected version the attempt fails and changes nothing."""
    (ws / "夹").mkdir()
    (ws / folder / "a.txt").write_text("别人的新内容", "utf-8")
    before = snapshot(ws)
    arguments = {"path": folder + "a.txt", "content": "我的"}
    with pytest.raises(ToolError, match="changed since it was approved; nothing was written"):
        write_file.run(arguments, attempt(base and sha(base.encode())))
    assert snapshot(ws) == before


def test_a_file_that_was_deleted_since_approval_is_not_made_again(
    ws: Path, write_file: Tool
) -> None:
    """A base that is gone, folder included, is a change too: neither file nor folder is made."""
    with pytest.raises(ToolError, match="changed since"):
        write_file.run({"path": "夹/a.txt", "content": "我"}, attempt(sha(b"old")))
    assert snapshot(ws) == {}


def test_without_a_base_only_absent_or_wanted_passes(ws: Path, write_file: Tool) -> None:
    """An attempt that knows no base may create the file or repeat it, never overwrite."""
    arguments = {"path": "a.txt", "content": "恢复"}
    write_file.run(arguments, attempt())
    write_file.run(arguments, attempt())
    assert (ws / "a.txt").read_text("utf-8") == "恢复"
    (ws / "a.txt").write_text("moved")
    with pytest.raises(ToolError, match="changed since"):
        write_file.run(arguments, attempt())
    assert (ws / "a.txt").read_text() == "moved"
    assert not hidden(ws)


def test_a_change_at_the_last_moment_is_seen(ws: Path, write_file: Tool) -> None:
    """A change after the new bytes were written, just before the replace, still counts."""
    (ws / "a.txt").write_text("old")
    real = os.fsync

    def change_meanwhile(descriptor: int) -> None:
        real(descriptor)
        (ws / "a.txt").write_text("别人")

    with (
        mock.patch("os.fsync", change_meanwhile),
        pytest.raises(ToolError, match="changed since"),
    ):
        write_file.run({"path": "a.txt", "content": "我"}, attempt(sha(b"old")))
    assert snapshot(ws).keys() == {"a.txt"}
    assert (ws / "a.txt").read_text("utf-8") == "别人"


# Old or new, never between

STEPS = (
    *("mkdir", "open", "stat", "fstat", "fchmod"),
    *("write", "fsync", "replace", "listdir", "unlink"),
)


@contextmanager
def fault(number: int, error: BaseException, *, after: bool) -> Iterator[list[str]]:
    """Raise at the ``number``-th call of STEPS, before or after it had its effect."""
    calls: list[str] = []

    def faulty(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            hit = len(calls) == number
            if hit and name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            if hit and not after:
                raise error
            result = real(*args, **kwargs)
            if hit:
                raise error
            return result

        return call

    with ExitStack() as patches:
        for name in STEPS:
            patches.enter_context(mock.patch.object(os, name, faulty(name, getattr(os, name))))
        yield calls


@pytest.mark.parametrize("old", [None, "旧" * 1000])
def test_an_error_at_any_step_leaves_old_or_new_whole(tmp_path: Path, old: str | None) -> None:
    """Every system call may fail: failed means untouched, anything else means all new."""
    new = "新🆕" * 1000
    seen = set()
    for number in range(1, 100):
        ws = tmp_path / f"ws{number}"
        ws.mkdir()
        if old is not None:
            (ws / "账.txt").write_text(old, "utf-8")
        before = snapshot(ws)
        tool = workspace_tools(ws)[1]
        run = attempt(old and sha(old.encode()))
        outcome = "succeeded"
        with fault(number, OSError(errno.EIO, "I/O error"), after=False) as calls:
            try:
                tool.run({"path": "账.txt", "content": new}, run)
            except ToolError:
                outcome = "failed"
            except Unconfirmed:
                outcome = "unconfirmed"
        seen.add(outcome)
        if outcome == "failed":
            assert snapshot(ws) == before
        else:
            assert snapshot(ws).keys() == {"账.txt"}
            assert (ws / "账.txt").read_text("utf-8") == new
        if len(calls) < number:
            break
    assert len(calls) < number
    assert seen == {"succeeded", "failed", "unconfirmed"}


def test_what_makes_a_write_durable_comes_in_order(write_file: Tool) -> None:
    """A new folder is synchronised first, the bytes before the replace, the folder after it."""
    with fault(-1, OSError(), after=False) as calls:
        write_file.run({"path": "夹/账.txt", "content": "新"}, attempt(None))
    durable = [name for name in calls if name in ("mkdir", "write", "fsync", "replace")]
    assert durable == ["mkdir", "fsync", "write", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_step_leaves_old_or_new_whole(tmp_path: Path, *, after: bool) -> None:
    """Ctrl-C at any step is not swallowed, and the next write tidies what it left."""
    for number in range(1, 100):
        ws = tmp_path / f"ws{number}"
        ws.mkdir()
        (ws / "账.txt").write_text("旧", "utf-8")
        tool = workspace_tools(ws)[1]
        interrupted = False
        with fault(number, KeyboardInterrupt(), after=after) as calls:
            try:
                tool.run({"path": "账.txt", "content": "新"}, attempt(sha("旧".encode())))
            except KeyboardInterrupt:
                interrupted = True
        assert interrupted is (len(calls) >= number)
        assert (ws / "账.txt").read_text("utf-8") in ("旧", "新")
        assert len(hidden(ws)) <= after
        write(tool, "账.txt", "再")
        assert snapshot(ws).keys() == {"账.txt"}
        if not interrupted:
            break
    assert not interrupted


KILLED = """
import os, signal, sys
from lai.tools import Run
from lai.workspace import workspace_tools
root, point, base = sys.argv[1:]
def die(): os.kill(os.getpid(), signal.SIGKILL)
real = {name: getattr(os, name) for name in ("write", "replace")}
def write(fd, data):
    if point == "temp_half_written": real["write"](fd, bytes(data)[: len(data) // 2])
    if point in ("temp_created", "temp_half_written"): die()
    return real["write"](fd, data)
def replace(*args, **kwargs):
    if point == "before_replace": die()
    real["replace"](*args, **kwargs)
    die()
os.write, os.replace = write, replace
arguments = {"path": "a.txt", "content": "new" * 100_000}
write_file = workspace_tools(root, sandbox="none")[1]
write_file.run(arguments, Run("exec_" + "0" * 32, "k", frozenset({base})))
"""


@pytest.mark.parametrize(
    ("point", "content"),
    [
        ("temp_created", "old"),
        ("temp_half_written", "old"),
        ("before_replace", "old"),
        ("after_replace", "new" * 100_000),
    ],
)
def test_k6_01_a_kill_leaves_old_or_new_whole(
    ws: Path, write_file: Tool, point: str, content: str
) -> None:
    """K6-01: SIGKILL at each point; the target is whole, and a second attempt tidies up."""
    (ws / "a.txt").write_text("old")
    (ws / ".lai-someone-elses.tmp").write_text("他人")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, ws, point, sha(b"old")],
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert killed.returncode == -9
    assert (ws / "a.txt").read_text() == content
    left = [name for name in hidden(ws) if "exec_" + "0" * 32 in name]
    assert len(left) == (point != "after_replace")
    arguments = {"path": "a.txt", "content": "new" * 100_000}
    write_file.run(arguments, attempt(sha(b"old"), sha(b"new" * 100_000)))
    assert snapshot(ws).keys() == {"a.txt", ".lai-someone-elses.tmp"}
    assert (ws / "a.txt").read_text() == "new" * 100_000


# read_file


def test_a_long_file_is_cut_at_a_line_end(ws: Path, read_file: Tool) -> None:
    """At most 50 KiB come back, whole lines only, and next_offset goes on behind them."""
    data = "".join(f"第{n}行 🧾\r\n" for n in range(10_000)).encode()
    (ws / "长.txt").write_bytes(data)
    first = read(read_file, "长.txt")
    assert first["truncated"]
    assert first["content"].endswith("\r\n")
    assert 50 * 1024 - 20 < first["next_offset"] <= 50 * 1024
    assert first["content"].encode() == data[: first["next_offset"]]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.lists(st.sampled_from(["a", "\r\n", "\n", "é", "字", "🧾", "\u2028", "\0", "🇨🇳"])),
    limit=st.integers(4, 12),
)
def test_reading_on_by_next_offset_gives_every_byte_once(
    ws: Path, read_file: Tool, text: list[str], limit: int
) -> None:
    """Whatever the text and the cuts, the pieces are characters and add up to the file."""
    data = "".join(text).encode()
    (ws / "t.txt").write_bytes(data)
    pieces, offset = [], 0
    with mock.patch.object(workspace, "READ_LIMIT", limit):
        while offset is not None:
            result = read(read_file, "t.txt", offset)
            assert len(result["content"].encode()) <= limit
            assert result["truncated"] is (result["next_offset"] is not None)
            pieces.append(result["content"])
            offset = result["next_offset"]
            assert offset is None or offset > 0
    assert "".join(pieces).encode() == data


def test_wrong_offsets_are_refused_in_plain_words(ws: Path, read_file: Tool) -> None:
    """An offset behind the end or inside a character fails, at the very end it gives nothing."""
    (ws / "字.txt").write_text("字🧾", "utf-8")
    for offset in (1, 2, 4, 5, 6):
        with pytest.raises(ToolError, match=f"no character starts at offset {offset}"):
            read(read_file, "字.txt", offset)
    assert read(read_file, "字.txt", 3)["content"] == "🧾"
    assert read(read_file, "字.txt", 7) == {
        "content": "",
        "path": "字.txt",
        "truncated": False,
        "next_offset": None,
    }
    with pytest.raises(ToolError, match="ends at byte 7, before offset 8"):
        read(read_file, "字.txt", 8)


def test_a_missing_file_or_folder_is_said_so(ws: Path, read_file: Tool) -> None:
    """What is not there fails in plain words, whichever part of the path is missing."""
    for path in ("没有.txt", "没有/夹/a.txt"):
        with pytest.raises(ToolError, match="there is no such file"):
            read(read_file, path)
    assert snapshot(ws) == {}


def test_a_missing_workspace_is_said_so(tmp_path: Path) -> None:
    """Without its folder every tool fails, and none of them makes it."""
    read_file, write_file, run_bash = workspace_tools(tmp_path / "不在")
    for tool, arguments in (
        (read_file, {"path": "a"}),
        (write_file, {"path": "a", "content": ""}),
        (run_bash, {"command": "true"}),
    ):
        with pytest.raises(ToolError, match="workspace folder cannot be opened"):
            tool.run(arguments, attempt())
    assert not (tmp_path / "不在").exists()


# Paths

REFUSED = [
    "",
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "~/x",
    "~root/x",
    "a\0b",
    "a\nb",
    "\x1b[2K",
    "a\x9bb",
    "\ud800",
    ".",
    "a/",
    "a/.",
    "x" * 256,
    "a/" * 3000 + "b",
    "/proc/self/root/etc/passwd",
    "/dev/fd/3",
    ".agent_state/session-demo.jsonl",
    ".agent_state",
    "sub/.agent_state/session-demo.jsonl",
    "./.agent_state/x",
    ".AGENT_STATE/x",
    ".Agent_State/artifacts/x.log",
    ".agent_ſtate/x",
    "．ａgent_state/x",
    ".agent\u200b_state/x",
    ".agent_state/artifacts/a/b",
    ".agent_state/artifacts",
    ".agent_state/artifacts/../session-demo.jsonl",
]


@pytest.mark.parametrize("path", REFUSED)
def test_a_path_that_is_refused_changes_nothing(
    ws: Path, read_file: Tool, write_file: Tool, path: str
) -> None:
    """Traversal, homes, control characters and the agent's own folder: refused everywhere."""
    state = ws / ".agent_state"
    state.mkdir()
    (state / "session-demo.jsonl").write_text("{}\n")
    (ws.parent / "x").write_text("秘密")
    before = snapshot(ws.parent)
    arguments = {"path": path, "content": "坏"}
    assert write_file.version
    refusals: list[Callable[[], object]] = [
        lambda: read_file.run({"path": path}, attempt()),
        lambda: write_file.check(arguments),
        lambda: write_file.run(arguments, attempt(None)),
        partial(write_file.version, arguments),
    ]
    for refuse in refusals:
        with pytest.raises(ToolError):
            refuse()
    assert snapshot(ws.parent) == before


def test_an_artifact_can_be_read_and_not_written(
    ws: Path, read_file: Tool, write_file: Tool
) -> None:
    """Of the agent's folder only what commands printed can be read, and nothing written."""
    (ws / ".agent_state/artifacts").mkdir(parents=True)
    (ws / ".agent_state/artifacts/exec_1.log").write_text("输出", "utf-8")
    before = snapshot(ws)
    assert read(read_file, ".agent_state/artifacts/exec_1.log")["content"] == "输出"
    with pytest.raises(ToolError, match="belongs to the agent"):
        write_file.check({"path": ".agent_state/artifacts/exec_1.log", "content": ""})
    assert snapshot(ws) == before


def test_the_agents_folder_is_known_by_identity_too(ws: Path, read_file: Tool) -> None:
    """Where another spelling opens the same folder, as on some disks, it is refused."""
    (ws / ".agent_state").mkdir()
    (ws / ".agent_state/s.jsonl").write_text("秘密")
    real = os.open

    def lenient(path: Any, *args: Any, **kwargs: Any) -> int:
        return real(".agent_state" if path == "别名" else path, *args, **kwargs)

    with (
        mock.patch("os.open", lenient),
        pytest.raises(ToolError, match="another spelling"),
    ):
        read(read_file, "别名/s.jsonl")


def test_k6_04_nothing_outside_is_reached(ws: Path, read_file: Tool, write_file: Tool) -> None:
    """K6-04: linked folders, siblings, traversal and folders as targets are all refused."""
    given_case = case("K6-04")
    outside = ws.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("s")
    (ws.parent / "ws-evil").mkdir()
    (ws / "escape").symlink_to("../outside")
    (ws / "dir").mkdir()
    (ws / "a.txt").write_text("甲")
    before = snapshot(ws.parent)
    special = {4: str(outside / "secret.txt"), 5: "~/x.txt"}
    bad = [special.get(n, path) for n, path in enumerate(given_case["refused"])]
    bad += [".", "dir", "a.txt/b.txt"]
    assert len(bad) == len(given_case["refused"]) + len(given_case["failed"])
    for path in bad:
        with pytest.raises(ToolError):
            read(read_file, path)
        with pytest.raises(ToolError):
            write_file.check({"path": path, "content": "坏"})
        with pytest.raises(ToolError):
            write_file.run({"path": path, "content": "坏"}, attempt(None))
        assert snapshot(ws.parent) == before
    for path in given_case["allowed"]:
        write(write_file, path, "好")
        assert (ws / path).read_text("utf-8") == "好"
    assert not hidden(ws)


def links(ws: Path) -> None:
    (ws / "real").mkdir()
    (ws / "real/a.txt").write_text("里")
    (ws / "to_inside").symlink_to("real")
    (ws / "to_file.txt").symlink_to("real/a.txt")
    (ws / "dangling.txt").symlink_to("nowhere")
    (ws / "loop").symlink_to("loop")
    os.mkfifo(ws / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        where = Path.cwd()
        os.chdir(ws)  # the name of a socket is short
        try:
            server.bind("sock")
        finally:
            os.chdir(where)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("to_inside/a.txt", "symbolic link"),
        ("to_inside/new.txt", "symbolic link"),
        ("to_file.txt", "symbolic link"),
        ("dangling.txt", "symbolic link"),
        ("loop", "symbolic link"),
        ("loop/x", "symbolic link"),
        ("fifo", "named pipe"),
        ("fifo/x", "named pipe"),
        ("sock", "socket"),
        ("real", "folder"),
        ("real/a.txt/x", "regular file"),
    ],
)
def test_links_and_special_files_are_refused(
    ws: Path, read_file: Tool, write_file: Tool, path: str, why: str
) -> None:
    """No link is followed, inside or out, and nothing but a file is opened, without hanging."""
    links(ws)
    before = snapshot(ws)
    refusals: list[Callable[[], object]] = [
        lambda: read(read_file, path),
        lambda: write_file.check({"path": path, "content": "坏"}),
        lambda: write_file.run({"path": path, "content": "坏"}, attempt(None)),
    ]
    for refuse in refusals:
        with pytest.raises(ToolError, match=why):
            refuse()
    assert snapshot(ws) == before


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_a_device_is_refused_without_opening_it() -> None:
    """Reading and writing a device fail before it is opened."""
    read_file, write_file, _ = workspace_tools("/dev")
    opened: list[Any] = []
    real = os.open

    def watched(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(path)
        return real(path, *args, **kwargs)

    with mock.patch("os.open", watched):
        with pytest.raises(ToolError, match="a device"):
            read(read_file, "zero")
        with pytest.raises(ToolError, match="a device"):
            write_file.check({"path": "zero", "content": ""})
    assert "zero" not in opened


def test_what_was_opened_counts_not_what_was_there(ws: Path, read_file: Tool) -> None:
    """A pipe put in the place of a file after the first look is refused, without hanging."""
    os.mkfifo(ws / "管")
    (ws / "file").write_text("文")
    regular = (ws / "file").stat()
    with (
        mock.patch("os.stat", return_value=regular),
        pytest.raises(ToolError, match="named pipe"),
    ):
        read(read_file, "管")


NASTY = ["..", ".", "", "a", "夹", "link", "~", "🧾.txt", ".agent_state", ".AGENT_STATE", "f.txt"]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(parts=st.lists(st.sampled_from(NASTY), min_size=1, max_size=5))
def test_any_path_is_refused_or_stays_inside(ws: Path, write_file: Tool, parts: list[str]) -> None:
    """Whatever a path is made of, outside and the agent's folder stay as they are."""
    outside = ws.parent / "out"
    if not outside.exists():
        outside.mkdir()
        (outside / "f.txt").write_text("外")
        (ws / ".agent_state").mkdir()
        (ws / "夹").mkdir()
        (ws / "link").symlink_to(outside)
    path = "/".join(parts)
    try:
        result = write(write_file, path, "内")
    except ToolError:
        pass
    else:
        assert (ws / result["path"]).read_text("utf-8") == "内"
        assert ".agent_state" not in result["path"].split("/")[0].lower()
    assert snapshot(outside) == {"f.txt": (mock.ANY, "外".encode())}
    assert snapshot(ws / ".agent_state") == {}
    assert sorted(p.name for p in ws.parent.iterdir()) == ["out", "ws"]


def swap(ws: Path, outside: Path, stop: threading.Event) -> None:
    """Put a link where a folder and a file are, and back, as fast as possible."""
    targets = {"d": outside, "f.txt": outside / "f.txt"}
    for name, target in targets.items():
        (ws / f"{name}.link").symlink_to(target)
    while not stop.is_set():
        for name in targets:
            for kind, other in (("real", "link"), ("link", "real")):
                (ws / name).rename(ws / f"{name}.{kind}")
                while not stop.is_set():
                    try:
                        (ws / f"{name}.{other}").rename(ws / name)
                        break
                    except OSError:  # write_file has made a folder in the gap
                        (ws / name).rename(ws / f"aside-{uuid.uuid4().hex}")
                else:
                    return


def test_a_folder_swapped_for_a_link_never_leads_outside(
    ws: Path, read_file: Tool, write_file: Tool
) -> None:
    """For two seconds another thread swaps folder and file for links: no escape."""
    outside = ws.parent / "outside"
    outside.mkdir()
    (outside / "f.txt").write_text("外面的秘密")
    (ws / "d").mkdir()
    (ws / "d/f.txt").write_text("里")
    (ws / "f.txt").write_text("里")
    before = snapshot(outside)
    stop = threading.Event()
    swapper = threading.Thread(target=swap, args=(ws, outside, stop))
    swapper.start()
    outcomes = {"done": 0, "refused": 0}
    deadline = time.monotonic() + 2
    actions: list[Callable[[], dict[str, Any]]] = [
        lambda: read(read_file, "d/f.txt"),
        lambda: read(read_file, "f.txt"),
        lambda: write(write_file, "d/new.txt", "新"),
        lambda: write(write_file, "d/sub/深.txt", "新"),
    ]
    try:
        while time.monotonic() < deadline:
            for act in actions:
                try:
                    result = act()
                except ToolError:
                    outcomes["refused"] += 1
                else:
                    outcomes["done"] += 1
                    assert result.get("content", "里") == "里"
    finally:
        stop.set()
        swapper.join()
    assert snapshot(outside) == before
    assert min(outcomes.values()) > 0
    assert not hidden(ws)


def test_a_path_has_one_reading() -> None:
    """Doubled slashes and single dots are dropped; nothing else about a path is changed."""
    assert paths.split("a//./夹/b ") == ("a", "夹", "b ")
    assert paths.split("./~c") == ("~c",)


def test_no_descriptor_is_left_open(ws: Path, read_file: Tool, write_file: Tool) -> None:
    """Success and refusal alike close every folder and file they opened."""
    links(ws)
    paths_tried = ["a/b/c.txt", "real/a.txt", "to_inside/a.txt", "fifo", "real", "../x"]
    actions: list[Callable[[str], object]] = [
        lambda p: read(read_file, p),
        lambda p: write(write_file, p, "内"),
        lambda p: write_file.run({"path": p, "content": "x"}, attempt("other")),
    ]
    before = len(list(Path("/dev/fd").iterdir()))
    for path in paths_tried * 3:
        for act in actions:
            try:
                act(path)
            except ToolError:
                continue
    assert len(list(Path("/dev/fd").iterdir())) == before
