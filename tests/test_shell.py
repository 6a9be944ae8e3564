"""run_bash: processes are counted in /proc and effects on the disk, not by what the tool says."""

import ctypes
import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lai import output, processes
from lai.tools import Effect, Run, ToolError, Unconfirmed
from lai.workspace import workspace_tools

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).parent / "data" / "cases"
MARK = "LAI_TEST_MARK"
FIELDS = [
    "exit_code",
    "output",
    "omitted_bytes",
    "truncated",
    "artifact_path",
    "timed_out",
    "children_left",
]

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")


def case(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CASES / f"{name}.case.json").read_text("utf-8"))
    return loaded


def bash(ws: Path, command: str, *, timeout: float = 10) -> dict[str, Any]:
    """Run it as the agent does, and return what is known, whatever the outcome.

    Without a sandbox: one that ends what a command leaves would hide half of these rules.
    """
    tool = workspace_tools(ws, timeout=timeout, sandbox="none")[2]
    arguments = {"command": command}
    tool.validate(arguments)
    assert tool.check(arguments)["command"] == command
    try:
        result = {"status": "succeeded", **tool.run(arguments, attempt())}
    except ToolError as error:
        result = {"status": "failed", "error": str(error), **error.result}
    except Unconfirmed as error:
        result = {"status": "unknown", "error": str(error), **error.result}
    assert set(FIELDS) <= result.keys()
    return result


def attempt() -> Run:
    return Run(f"exec_{uuid.uuid4().hex}", "demo:run_bash:call_1")


def marked(mark: str) -> list[int]:
    """Living processes whose environment has the mark: counted without asking the library."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "工作区"
    root.mkdir()
    return root


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A word in the environment of everything that is started; what is left is ended here."""
    word = f"mark-{uuid.uuid4().hex}"
    monkeypatch.setenv(MARK, word)
    yield word
    for process in marked(word) if Path("/proc").exists() else []:
        os.kill(process, signal.SIGKILL)


# How it ends


def test_exit_zero_is_a_success(ws: Path) -> None:
    """Exit 0 returns every field, with both streams in the order they were printed."""
    result = bash(ws, "echo 你好; echo 🚨 >&2; pwd")
    assert result == {
        "status": "succeeded",
        "exit_code": 0,
        "output": f"你好\n🚨\n{ws}\n",
        "omitted_bytes": 0,
        "truncated": False,
        "artifact_path": result["artifact_path"],
        "timed_out": False,
        "children_left": 0,
        "sandbox": "none",
    }
    assert (ws / result["artifact_path"]).read_text("utf-8") == result["output"]


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("echo 前; exit 3", 3, "exit code 3"),
        ("没有这个命令", 127, "exit code 127"),
        ("kill -9 $$", -9, "signal 9"),
        ("if then", 2, "exit code 2"),
    ],
)
def test_any_other_exit_is_a_confirmed_failure(
    ws: Path, command: str, code: int, words: str
) -> None:
    """A shell that ended otherwise has failed, with its exit code and its output."""
    result = bash(ws, command)
    assert result["status"] == "failed"
    assert result["exit_code"] == code
    assert words in result["error"]
    assert not result["timed_out"]


def test_a_failure_keeps_its_effects(ws: Path) -> None:
    """Failed does not mean undone: what ran before the failure stays on the disk."""
    assert bash(ws, "echo 甲 > 效果.txt; false")["status"] == "failed"
    assert (ws / "效果.txt").read_text("utf-8") == "甲\n"


@needs_proc
def test_k5_01_out_of_time_ends_every_process(ws: Path, mark: str) -> None:
    """K5-01: a timeout kills the shell and its children, and the outcome is unknown."""
    given_case = case("K5-01")
    start = time.monotonic()
    command = given_case["arguments"]["command"].replace("sleep(3)", "sleep(1.5)")  # time is dear
    result = bash(ws, "echo 开始; " + command, timeout=given_case["timeout"])
    assert time.monotonic() - start < given_case["expect"]["seconds_max"]
    assert result["status"] == given_case["expect"]["status"]
    assert result["output"] == "开始\n"
    assert result["timed_out"]
    assert result["exit_code"] is None
    assert result["children_left"] == 0
    assert marked(mark) == []
    time.sleep(max(0, start + 2.5 - time.monotonic()))  # the child would have written by then
    assert not (ws / "late.txt").exists()


@needs_proc
def test_a_child_in_its_own_group_is_ended_too(ws: Path, mark: str) -> None:
    """Job control gives children groups of their own; the session still finds them."""
    result = bash(ws, "set -m; sleep 30 & (sleep 31 & wait) & wait", timeout=0.5)
    assert result["status"] == "unknown"
    assert result["children_left"] == 0
    assert marked(mark) == []


@needs_proc
@pytest.mark.parametrize("number", [0, 1])
def test_k5_02_the_end_of_the_shell_ends_the_call(ws: Path, mark: str, number: int) -> None:
    """K5-02: a background child that holds the output is left running and counted."""
    given_case = case("K5-02")
    start = time.monotonic()
    result = bash(ws, given_case["commands"][number], timeout=given_case["timeout"])
    assert time.monotonic() - start < given_case["expect"]["seconds_max"]
    assert result["status"] == "succeeded"
    assert given_case["expect"]["stdout_contains"] in result["output"]
    assert result["children_left"] >= 1
    time.sleep(0.6)  # time for two more ticks into the output nobody waits for
    assert marked(mark)
    if number == 1:  # its output goes on into the artifact
        artifact = ws / result["artifact_path"]
        size = artifact.stat().st_size
        assert within(5, lambda: artifact.stat().st_size > size)


@needs_proc
def test_a_child_that_left_the_session_is_counted_while_it_holds_the_output(
    ws: Path, mark: str
) -> None:
    """A process with a session of its own is not found by it, but is not denied either."""
    result = bash(ws, "setsid sleep 30 & sleep 0.3; echo 好")
    assert result["output"] == "好\n"
    assert result["children_left"] == 1
    assert len(marked(mark)) == 1


def test_a_shell_that_closes_its_output_is_still_waited_for(ws: Path) -> None:
    """The end of the output is not the end of the command."""
    result = bash(ws, "exec >&- 2>&-; sleep 0.3; : > 完.txt; exit 4")
    assert result["exit_code"] == 4
    assert (ws / "完.txt").exists()


def test_a_shell_without_output_is_out_of_time_too(ws: Path) -> None:
    """The time counts also for a command that has closed its output."""
    start = time.monotonic()
    assert bash(ws, "exec >&- 2>&-; sleep 30", timeout=0.3)["status"] == "unknown"
    assert time.monotonic() - start < 5


@needs_proc
def test_without_proc_the_group_is_ended_and_the_count_is_open(ws: Path, mark: str) -> None:
    """A system without /proc still kills the group, and says that it cannot count."""
    with mock.patch.object(processes, "PROC", ws / "没有"):
        result = bash(ws, "sleep 30 & sleep 31", timeout=0.3)
    assert result["status"] == "unknown"
    assert result["children_left"] is None
    assert within(5, lambda: marked(mark) == [])


def test_a_command_may_begin_with_a_dash(ws: Path) -> None:
    """A command is never taken for an option of bash."""
    assert bash(ws, "-c 2>/dev/null; echo 好")["output"] == "好\n"


@needs_proc
def test_an_interrupt_ends_every_process_and_goes_on(ws: Path, mark: str) -> None:
    """Ctrl-C while a command runs kills its processes and is raised again."""
    tool = workspace_tools(ws)[2]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            tool.run({"command": "echo $$ > 进程.txt; sleep 30 & sleep 31"}, attempt())
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert (ws / "进程.txt").exists()
    assert marked(mark) == []


@needs_proc
def test_an_interrupt_reaches_a_worker_thread(ws: Path, mark: str) -> None:
    """A notebook interrupts the thread that runs the tool: it ends at once, with its command."""
    tool = workspace_tools(ws)[2]
    ended: list[BaseException] = []

    def work() -> None:
        try:
            tool.run({"command": ": > 开始.txt; exec >&- 2>&-; sleep 30"}, attempt())
        except BaseException as error:  # noqa: BLE001  (what it was is the question)
            ended.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    assert within(5, (ws / "开始.txt").exists)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(worker.ident or 0), ctypes.py_object(KeyboardInterrupt)
    )
    worker.join(5)
    assert not worker.is_alive()
    assert [type(error) for error in ended] == [KeyboardInterrupt]
    assert marked(mark) == []


# Input and terminal


@pytest.mark.parametrize("command", case("K5-06")["commands"])
def test_k5_06_a_question_ends_instead_of_waiting(ws: Path, command: str) -> None:
    """K5-06: input is at its end and there is no terminal, so nothing waits for keys."""
    start = time.monotonic()
    result = bash(ws, command, timeout=case("K5-06")["timeout"])
    assert time.monotonic() - start < 5  # without this rule: the timeout
    assert result["status"] in ("succeeded", "failed")
    assert not result["timed_out"]


ON_A_TERMINAL = """
import sys
from lai.tools import Run, ToolError
from lai.workspace import workspace_tools
try:
    workspace_tools(sys.argv[1])[2].run({"command": sys.argv[2]}, Run("exec_1", "k"))
except ToolError as error:
    open(sys.argv[1] + "/failed", "w").write(error.result["output"])
print("typed: " + input())
"""


def test_keys_typed_for_a_person_are_not_taken(ws: Path) -> None:
    """On a real terminal a command cannot open it, and what was typed is still there."""
    controller, terminal = pty.openpty()
    os.write(controller, "是yes\n".encode())
    program = subprocess.Popen(
        # setsid -c makes the terminal the controlling one, as in a shell
        [
            "setsid",
            "-c",
            sys.executable,
            "-c",
            ON_A_TERMINAL,
            ws,
            "head -n 1; read x < /dev/tty; exit 5",
        ],
        cwd=ROOT,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    said, problem = program.communicate(timeout=20)
    os.close(controller)
    os.close(terminal)
    assert said.decode() == "typed: 是yes\n", problem.decode()
    assert "/dev/tty" in (ws / "failed").read_text("utf-8")


# Output

MEASURE = """
import json, resource, sys
from lai.tools import Run, Unconfirmed
from lai.workspace import workspace_tools
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
root, command, timeout = sys.argv[1], sys.argv[2], float(sys.argv[3])
tool = workspace_tools(root, timeout=timeout)[2]
before = peak()
try: result = {"status": "succeeded", **tool.run({"command": command}, Run("exec_1", "k"))}
except Unconfirmed as error: result = {"status": "unknown", **error.result}
print(json.dumps({**result, "grown_mb": (peak() - before) / 1024}, ensure_ascii=False))
"""


def measured(ws: Path, number: int) -> dict[str, Any]:
    """Run a command of K5-04 in a process of its own, so that its peak memory is its own."""
    given_case = case("K5-04")
    line = [ws, given_case["commands"][number], str(given_case["timeout"][number])]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *line], cwd=ROOT, check=True, capture_output=True
    )
    assert len(done.stdout) < given_case["expect"]["session_line_bytes_max"]
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["grown_mb"] < given_case["expect"]["memory_growth_mb_max"]
    return result


def test_k5_04_much_output_is_shortened_and_counted(ws: Path) -> None:
    """K5-04: of 39 MB head and tail come back, the rest is counted and in the artifact."""
    result = measured(ws, 0)
    whole = "".join(f"{n}\n" for n in range(1, 5_000_001))
    assert result["status"] == "succeeded"
    assert result["truncated"]
    head, between, tail = result["output"].partition("\n[... ")
    assert between
    between, _, tail = tail.partition(" ...]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert (len(head), len(tail)) == (4 * 1024, 16 * 1024)
    assert result["omitted_bytes"] == len(whole) - 20 * 1024
    assert str(result["omitted_bytes"]) in between
    assert result["artifact_path"] in between
    assert (ws / result["artifact_path"]).read_text() == whole


def test_k5_04_endless_output_is_stopped_in_time(ws: Path) -> None:
    """K5-04: `yes` is killed when its time is over, with memory and disk bounded."""
    start = time.monotonic()
    result = measured(ws, 1)
    assert time.monotonic() - start < case("K5-04")["expect"]["yes_seconds_max"] + 2
    assert result["status"] == case("K5-04")["expect"]["yes_status"]
    size = (ws / result["artifact_path"]).stat().st_size
    assert 0 < size <= 64 * 1024 * 1024
    assert result["omitted_bytes"] >= size - 20 * 1024
    assert set(result["output"].split("\n")[:100]) == {"y"}


def test_beyond_the_bound_the_command_goes_on(ws: Path) -> None:
    """Output past the bound is dropped and counted, whole characters stay, the command ends."""
    with mock.patch.object(output, "DISK_LIMIT", 50_000):
        result = bash(
            ws, "for i in {1..40000}; do printf 字; done; echo 完; sleep 0.2; echo ab; : > 完.txt"
        )
    assert result["status"] == "succeeded"
    assert (ws / "完.txt").exists()
    assert (ws / result["artifact_path"]).read_text("utf-8") == "字" * (50_000 // 3)
    assert f"the first {50_000 // 3 * 3} bytes are in" in result["output"]
    assert result["output"].endswith("字完\nab\n")
    assert "\ufffd" not in result["output"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_costs_the_artifact_not_the_command(ws: Path) -> None:
    """When the artifact cannot be written the command still ends and its output comes back."""
    real = os.open

    def full(path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
        if str(path).endswith(".log"):
            return real("/dev/full", os.O_WRONLY)
        return real(path, flags, mode, **kwargs)

    with mock.patch("os.open", full):
        result = bash(ws, "seq 1 20000; echo 完")
    assert result["status"] == "succeeded"
    assert result["output"].endswith("20000\n完\n")
    assert "the first 0 bytes are in" in result["output"]


def test_output_that_is_not_utf8_is_shown_with_replacement(ws: Path) -> None:
    """Bytes that are no text become U+FFFD in the result and stay themselves on the disk."""
    result = bash(ws, r"printf '\xc4\xe3\x00\xff'")
    assert result["output"] == "\ufffd\ufffd\x00\ufffd"
    assert (ws / result["artifact_path"]).read_bytes() == b"\xc4\xe3\x00\xff"


@given(text=st.text(alphabet=st.sampled_from("aé字🧾\n"), max_size=60), size=st.integers(1, 9))
def test_cutting_never_splits_a_character(text: str, size: int) -> None:
    """Whatever the chunks and the limits, what is shown is head and tail of the real text."""
    data = text.encode()
    reader, file = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    with mock.patch.object(output, "HEAD", 7), mock.patch.object(output, "TAIL", 11):
        seen = output.Output(reader, -1, file, "p")
        for start in range(0, len(data), size):
            seen._add(data[start : start + size])
        shown = seen.shown()
    seen.close()
    if shown["truncated"]:
        head, _, rest = shown["output"].partition("\n[... ")
        tail = rest.partition(" ...]\n")[2]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len((head + tail).encode()) + shown["omitted_bytes"] == len(data)
    else:
        assert shown["output"] == text
        assert shown["omitted_bytes"] == 0


def test_the_artifact_is_for_its_owner_only(ws: Path) -> None:
    """Folders are 0700 and the file 0600, whatever the umask; its name is the execution."""
    tool = workspace_tools(ws)[2]
    before = os.umask(0)
    try:
        tool.run({"command": "echo 私"}, Run("exec_1", "k"))
    finally:
        os.umask(before)
    modes = {
        name: stat.S_IMODE((ws / name).stat().st_mode)
        for name in (".agent_state", ".agent_state/artifacts", ".agent_state/artifacts/exec_1.log")
    }
    assert list(modes.values()) == [0o700, 0o700, 0o600]


# What is refused


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo a\0; : > M", "NUL"),
        ("echo 'x' > M #" + "长" * 20_000, "60000"),
        ("echo \ud800 > M", "UTF-8"),
    ],
)
def test_a_refused_command_never_starts(ws: Path, command: str, why: str) -> None:
    """A command with NUL, too long or without UTF-8 form is refused, and nothing is made."""
    tool = workspace_tools(ws)[2]
    for refuse in (tool.check, lambda arguments: tool.run(arguments, attempt())):
        with pytest.raises(ToolError, match=why):
            refuse({"command": command})
    assert list(ws.iterdir()) == []


def test_without_bash_it_says_so(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no bash the tool fails in plain words, before a person is asked."""
    monkeypatch.setenv("PATH", str(ws))
    tool = workspace_tools(ws)[2]
    for refuse in (tool.check, lambda arguments: tool.run(arguments, attempt())):
        with pytest.raises(ToolError, match="bash is not installed"):
            refuse({"command": "true"})
    assert list(ws.iterdir()) == []


def test_a_bash_that_cannot_start_is_a_failure(
    ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the system cannot start bash nothing ran, so it is a failure, not an unknown."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bash").write_text("#!/nowhere/解释器\n", "utf-8")
    (tmp_path / "bin/bash").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ToolError, match="nothing was run"):
        workspace_tools(ws, sandbox="none")[2].run({"command": "true"}, attempt())


@pytest.mark.parametrize("name", [".agent_state", ".agent_state/artifacts"])
def test_a_linked_state_folder_is_refused(ws: Path, name: str) -> None:
    """Output is never written through a link; the command does not start."""
    outside = ws.parent / "外"
    outside.mkdir()
    if "/" in name:
        (ws / ".agent_state").mkdir()
    (ws / name).symlink_to(outside)
    with pytest.raises(ToolError, match="symbolic link"):
        workspace_tools(ws)[2].run({"command": ": > M"}, attempt())
    assert list(outside.iterdir()) == []
    assert not (ws / "M").exists()


def test_one_execution_has_one_artifact(ws: Path) -> None:
    """A second run under the same execution id does not start and overwrites nothing."""
    tool = workspace_tools(ws)[2]
    first = tool.run({"command": "echo 一"}, Run("exec_1", "k"))
    with pytest.raises(ToolError, match="the command was not run"):
        tool.run({"command": "echo 二 | tee M"}, Run("exec_1", "k"))
    assert (ws / first["artifact_path"]).read_text("utf-8") == "一\n"
    assert not (ws / "M").exists()


@pytest.mark.parametrize("command", case("K4-05")["commands"])
def test_k4_05_looking_at_a_command_runs_nothing(ws: Path, command: str) -> None:
    """K4-05: no command is harmless by its first word; check shows it whole and runs none."""
    tool = workspace_tools(ws)[2]
    assert tool.effect is Effect.OPAQUE
    assert tool.check({"command": command})["command"] == command
    assert list(ws.iterdir()) == []


# Environment


def test_secrets_are_not_in_the_environment(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env` prints no value whose name says that it is a secret, and everything else."""
    hidden = ["OPENAI_API_KEY", "GITHUB_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "MY_APIKEY"]
    for name in hidden:
        monkeypatch.setenv(name, "秘密-sk-123")
    monkeypatch.setenv("COURSE_NAME", "课程")
    result = bash(ws, "env")
    assert "秘密" not in result["output"]
    assert "秘密" not in (ws / result["artifact_path"]).read_text("utf-8")
    assert "COURSE_NAME=课程" in result["output"].splitlines()


def test_nothing_runs_but_what_was_shown(
    ws: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start-up file and shell functions of the environment do not get between."""
    (tmp_path / "start.sh").write_text("echo 坏\n", "utf-8")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "start.sh"))
    monkeypatch.setenv("BASH_FUNC_true%%", "() { echo 坏; }")
    assert bash(ws, "true")["output"] == ""


def test_nothing_is_carried_over(ws: Path) -> None:
    """Each command starts in the workspace with a fresh environment."""
    bash(ws, "export 甲=1 LEFT=1; cd /; f() { :; }")
    assert bash(ws, 'echo "$LEFT"; pwd')["output"] == f"\n{ws}\n"


def test_no_descriptor_is_left_open_or_handed_on(ws: Path) -> None:
    """A command gets three descriptors only, and after it this process has what it had."""
    secret = os.open(ws, os.O_RDONLY)
    os.set_inheritable(secret, True)
    before = len(list(Path("/dev/fd").iterdir()))
    result = bash(ws, "ls /dev/fd/")
    bash(ws, "exit 1")
    bash(ws, "sleep 5", timeout=0.2)
    assert len(list(Path("/dev/fd").iterdir())) == before
    os.close(secret)
    assert set(result["output"].split()) <= {"0", "1", "2", "3"}  # 3 is ls itself, reading
