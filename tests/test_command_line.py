"""The command line: what a person types, sees and is told."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lai.__main__ import main
from lai.session import Session
from lai.storage import session_path

ROOT = Path(__file__).parents[1]
AUDIT = "给审计日志追加一行"
RECOVERY_HASH = "8889280b9146b06f667dd62a1bdb2f6bcb763b656a18214926a39dba97dc18fe"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "AGENT_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lai(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run one command with typed input; returns exit code, output and errors."""

    def run(*arguments: str | Path, typed: str = "") -> tuple[int, str, str]:
        stdin = io.TextIOWrapper(io.BytesIO(typed.encode("utf-8", "surrogateescape")), "utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def write_session(folder: Path, records: list[dict[str, Any]], name: str = "demo") -> Path:
    """Put a session file with these records into a workspace."""
    path = session_path(folder, name)
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    return path


def interrupted(tool: str, arguments: dict[str, str], key: str, sha256: str) -> list[Any]:
    """The four records a process leaves that died while a tool was running."""
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    call = {"id": "call_中断", "type": "function", "function": function}
    ledger = {
        "type": "tool_execution",
        "execution_id": "exec_old",
        "tool_call_id": "call_中断",
        "tool_name": tool,
        "idempotency_key": key,
        "arguments_sha256": sha256,
    }
    prompt = {"write_file": "请把 recovery-demo.txt 的完整内容设置为 recovered", "run_bash": AUDIT}
    return [
        {"type": "message", "message": {"role": "user", "content": prompt[tool]}},
        {"type": "message", "message": {"role": "assistant", "content": "", "tool_calls": [call]}},
        {**ledger, "status": "approved"},
        {**ledger, "status": "running"},
    ]


def interrupted_write() -> list[Any]:
    """An interrupted write of the second experiment."""
    arguments = {"path": "recovery-demo.txt", "content": "recovered"}
    return interrupted("write_file", arguments, f"write_file:{RECOVERY_HASH}", RECOVERY_HASH)


def interrupted_command() -> list[Any]:
    """An interrupted command, which nobody may repeat."""
    sha256 = "719d0a79df2b98083a730240bc7028d022c68f6c443599c600adf662cebd8a58"
    arguments = {"command": "echo sent >> audit.log"}
    return interrupted("run_bash", arguments, f"run_bash:{sha256}", sha256)


def test_a_chat_through_a_pipe_acts_once_and_says_where_its_session_is(
    lai: Callable[..., Any], tmp_path: Path
) -> None:
    """A prompt and a y through a pipe run the command once and end with the answer."""
    code, out, err = lai("--workspace", tmp_path, typed=f"{AUDIT}\ny\n")
    assert (code, err) == (0, "")
    assert out.startswith(f"[session] {session_path(tmp_path)}\n")
    assert (tmp_path / "audit.log").read_text() == "sent\n"
    assert "Agent> " in out
    assert out.index("Approve this call?") < out.index("Agent> ")


@pytest.mark.parametrize("answer", ["n", "", "Y", "yes please", "ｙ", "happened: 我看过"])
def test_only_y_and_yes_approve(lai: Callable[..., Any], tmp_path: Path, answer: str) -> None:
    """Any other answer refuses, and nothing runs."""
    code, _, _ = lai("--workspace", tmp_path, typed=f"{AUDIT}\n{answer}\n")
    assert code == 0
    assert not (tmp_path / "audit.log").exists()
    statuses = [r.get("status") for r in Session.read(session_path(tmp_path)).records]
    assert "rejected" in statuses


def test_the_end_of_input_leaves_an_approval_open(lai: Callable[..., Any], tmp_path: Path) -> None:
    """Without an answer nothing is recorded, the exit code is 3, and the next start asks again."""
    code, out, _ = lai("--workspace", tmp_path, typed=f"{AUDIT}\n")
    before = session_path(tmp_path).read_bytes()
    assert code == 3
    assert "[waiting] run_bash" in out
    code, out, _ = lai("--workspace", tmp_path, typed="y\n")
    assert code == 0
    assert session_path(tmp_path).read_bytes().startswith(before)
    assert (tmp_path / "audit.log").read_text() == "sent\n"
    assert "[recovery] run_bash" in out


def test_a_start_finishes_the_interrupted_write(lai: Callable[..., Any], tmp_path: Path) -> None:
    """The second experiment from the command line: 12 records, each step told, the file written."""
    path = write_session(tmp_path, interrupted_write(), "lesson05")
    os.environ["AGENT_SESSION_ID"] = "lesson05"
    try:
        code, out, _ = lai("--workspace", tmp_path)
    finally:
        del os.environ["AGENT_SESSION_ID"]
    assert code == 0
    assert (tmp_path / "recovery-demo.txt").read_bytes() == b"recovered"
    assert len(path.read_bytes().splitlines()) == 12
    steps = [line for line in out.splitlines() if line.startswith("[recovery]")]
    assert len(steps) == 3
    assert all("call_中断" in step for step in steps)
    assert out.index("[recovery]") < out.index("Agent> ") < out.index("You> ")


def test_a_start_leaves_the_interrupted_command_unknown(
    lai: Callable[..., Any], tmp_path: Path
) -> None:
    """Nobody answers, so the command is not repeated, and model and user are told so."""
    write_session(tmp_path, interrupted_command())
    code, out, _ = lai("--workspace", tmp_path)
    assert code == 0
    assert "Result not confirmed." in out
    assert not (tmp_path / "audit.log").exists()
    assert lai("verify", session_path(tmp_path))[0] == 1


def test_a_verdict_is_taken_with_its_evidence(lai: Callable[..., Any], tmp_path: Path) -> None:
    """`happened: …` settles the call with the evidence in its result."""
    path = write_session(tmp_path, interrupted_command())
    lai("--workspace", tmp_path, typed="happened: 日志里有一行\n")
    tool = next(r for r in Session.read(path).records if r.get("message", {}).get("role") == "tool")
    result = json.loads(tool["message"]["content"])
    assert (result["status"], result["evidence"]) == ("succeeded", "日志里有一行")
    assert lai("verify", path)[0] == 0


def test_resolve_tells_the_model_later(lai: Callable[..., Any], tmp_path: Path) -> None:
    """A verdict after publication stands in front of the next user text, once."""
    path = write_session(tmp_path, interrupted_command())
    lai("--workspace", tmp_path)
    code, out, _ = lai("resolve", path, "exec_o", "not-happened", "--evidence", "没有这一行")
    assert code == 0
    assert "exec_old" in out
    lai("--workspace", tmp_path, typed="谢谢\n再见\n")
    texts = [
        r["message"]["content"]
        for r in Session.read(path).records
        if r.get("message", {}).get("role") == "user"
    ]
    assert texts[-2].endswith("\n\n谢谢")
    assert "没有这一行" in texts[-2]
    assert texts[-1] == "再见"


def test_resolve_refuses_what_is_not_unknown(lai: Callable[..., Any], tmp_path: Path) -> None:
    """A verdict on a running attempt, or on none, is an error and changes nothing."""
    path = write_session(tmp_path, interrupted_command())
    before = path.read_bytes()
    for execution in ("exec_old", "exec_nobody", ""):
        code, _, err = lai("resolve", path, execution, "happened", "--evidence", "看过")
        assert code == 2
        assert err.startswith("lai: ")
    code, _, err = lai("resolve", path, "exec_old", "happened", "--evidence", "  ")
    assert (code, "evidence" in err) == (2, True)
    assert path.read_bytes() == before


def test_verify_and_repair_a_damaged_file(lai: Callable[..., Any], tmp_path: Path) -> None:
    """Damage blocks tools until repair acknowledges it, and repair removes nothing."""
    path = write_session(tmp_path, interrupted_command()[:2])
    with path.open("ab") as file:
        file.write(b'{"type":"tool_exec\n')
    before = path.read_bytes()
    code, out, _ = lai("verify", path)
    assert (code, "line 3: damage" in out) == (1, True)
    code, out, err = lai("--workspace", tmp_path, typed="y\n")
    assert (code, "repair" in err, "[damage]" in out) == (2, True, True)
    assert path.read_bytes() == before
    assert lai("repair", path)[0] == 0
    assert path.read_bytes().startswith(before)
    code, out, _ = lai("--workspace", tmp_path, typed="y\n")
    assert code == 0
    assert "may have run already" in out
    assert (tmp_path / "audit.log").read_text() == "sent\n"


def test_show_prints_a_line_for_every_record(lai: Callable[..., Any], tmp_path: Path) -> None:
    """The table has a line for each record and no character that moves the cursor."""
    records = [*interrupted_write(), {"type": "未来", "x": 1}]
    records[0]["message"]["content"] = "看\x1b[2J\u202e这里"
    code, out, _ = lai("show", write_session(tmp_path, records))
    lines = out.splitlines()
    assert code == 0
    assert len(lines) == 1 + len(records)
    assert "⟦ESC⟧[2J⟦U+202E⟧这里" in lines[1]
    assert "running" in lines[4]


def test_slash_commands(lai: Callable[..., Any], tmp_path: Path) -> None:
    """/context shows the view, /ledger the attempts, /exit ends; an unknown one lists them."""
    typed = f"{AUDIT}\ny\n/ledger\n/context\n/what\n/exit\nnever read\n"
    code, out, _ = lai("--workspace", tmp_path, typed=typed)
    assert code == 0
    assert "succeeded" in out
    assert "4 messages" in out
    assert "/abandon" in out
    assert "never read" not in out


def test_the_window_in_a_chat(
    lai: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a small window the chat says when a summary is made, and goes on; /context adds up."""
    monkeypatch.setenv("AGENT_CONTEXT_WINDOW", "2000")
    typed = "你能做什么？\n" * 30 + "/context\n/compact\n/context\n"
    code, out, err = lai("--workspace", tmp_path, typed=typed)
    assert (code, err) == (0, "")
    assert out.count("Agent> ") == 30
    assert 3 <= out.count("[context] a summary was made") <= 10  # not every turn
    for line in [line for line in out.splitlines() if line.startswith("tokens: system ")]:
        assert sum(int(number.replace(",", "")) for number in re.findall(r"[\d,]+", line)) == 2000
    records = [json.loads(line) for line in session_path(tmp_path).read_bytes().split(b"\n")[:-1]]
    assert sum(r.get("message", {}).get("role") == "user" for r in records) == 30
    assert "[Summary of the earlier" in out


def test_compact_says_why_not(lai: Callable[..., Any], tmp_path: Path) -> None:
    """With nothing to summarise, or a useless summary, /compact changes nothing and says so."""
    code, out, _ = lai("--workspace", tmp_path, typed="/compact\n你能做什么？\n/compact\n")
    assert code == 0
    assert "nothing to summarise yet" in out
    assert "not smaller" in out
    assert b"compaction" not in session_path(tmp_path).read_bytes()


def test_a_window_too_small_for_anything(
    lai: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can never fit is said with its largest part; a bigger window goes on with the turn."""
    monkeypatch.setenv("AGENT_CONTEXT_WINDOW", "300")
    code, out, err = lai("--workspace", tmp_path, typed="你能做什么？\n")
    assert code == 2
    assert "the set of tool schemas" in out
    assert "AGENT_CONTEXT_WINDOW" in out
    monkeypatch.setenv("AGENT_CONTEXT_WINDOW", "很大")
    code, out, err = lai("--workspace", tmp_path, typed="你能做什么？\n")
    assert (code, out) == (2, "")
    assert "AGENT_CONTEXT_WINDOW" in err
    monkeypatch.delenv("AGENT_CONTEXT_WINDOW")
    code, out, _ = lai("--workspace", tmp_path, typed="")
    assert code == 0
    assert "Agent> " in out


def test_abandon_closes_a_turn(
    lai: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that no model can finish is closed on a person's word, and the next one starts."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    code, out, _ = lai("--workspace", tmp_path, typed="你好\n/abandon\n")
    assert code == 2 or "[abandoned]" in out
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, _ = lai("--workspace", tmp_path, typed="what can you do?\n")
    assert code == 0
    assert "Agent> " in out


def test_a_key_without_a_server_keeps_the_turn(
    lai: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unreachable provider is told in words without the key; later the turn goes on."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123456789")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    code, out, err = lai("--workspace", tmp_path, typed=f"{AUDIT}\n")
    assert code == 2
    assert "[model]" in out
    assert "sk-not-a-real" not in out + err
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, _ = lai("--workspace", tmp_path, typed="y\n")
    assert code == 0
    assert (tmp_path / "audit.log").read_text() == "sent\n"


def test_the_self_check_passes(lai: Callable[..., Any]) -> None:
    """The self-check prints its one line and leaves with 0."""
    assert lai("--self-check") == (0, "self-check passed\n", "")


BAD = [
    (["--workspace", "{tmp}/nowhere"], "no folder"),
    (["verify", "{tmp}/nowhere.jsonl"], "nowhere.jsonl"),
    (["show", "{tmp}"], "directory"),
    (["repair", "{tmp}/nowhere.jsonl"], "no session file"),
    (["resolve", "{tmp}/nowhere.jsonl", "exec_1", "happened", "--evidence", "x"], "nowhere"),
    (["resolve", "{tmp}/nowhere.jsonl", "exec_1", "maybe", "--evidence", "x"], "maybe"),
    (["dance"], "dance"),
    (["--workspace"], "--workspace"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=lambda value: str(value)[:40])
def test_mistakes_are_told_in_one_line(
    lai: Callable[..., Any], tmp_path: Path, arguments: list[str], says: str
) -> None:
    """Exit code 2, one line on stderr that names the matter, nothing created."""
    before = sorted(tmp_path.rglob("*"))
    code, _, err = lai(*(a.replace("{tmp}", str(tmp_path)) for a in arguments))
    assert code == 2
    assert err.count("\n") == 1
    assert says in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "会话", "x" * 65])
def test_a_session_id_that_is_no_name_is_refused(
    lai: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A bad AGENT_SESSION_ID is an error; an empty one means the default."""
    monkeypatch.setenv("AGENT_SESSION_ID", name)
    code, out, err = lai("--workspace", tmp_path)
    if name:
        assert (code, "AGENT_SESSION_ID" in err) == (2, True)
        assert not list(tmp_path.iterdir())
    else:
        assert "session-demo.jsonl" in out


def test_a_directory_where_the_session_should_be(lai: Callable[..., Any], tmp_path: Path) -> None:
    """It is named, and nothing of it is touched."""
    session_path(tmp_path).mkdir(parents=True)
    code, _, err = lai("--workspace", tmp_path)
    assert (code, "session-demo.jsonl" in err) == (2, True)


def test_input_that_is_not_utf8_ends_nothing(lai: Callable[..., Any], tmp_path: Path) -> None:
    """Other bytes on the input become replacement characters, and the chat goes on."""
    code, out, _ = lai("--workspace", tmp_path, typed="\udcff\udcfe 你好\n")
    assert code == 0
    assert "Agent> " in out
    path = session_path(tmp_path)
    assert Session.read(path).records[0]["message"]["content"].endswith("你好")


ESCAPES = "\x1b]0;标题\x07\x1b[2J\u202e\n"


@pytest.mark.parametrize("command", ["show", "verify", "chat"])
def test_nothing_in_a_file_moves_the_cursor(
    lai: Callable[..., Any], tmp_path: Path, command: str
) -> None:
    """Ids, names, roles and statuses of a hostile file are shown, never obeyed."""
    records = interrupted("run_bash", {"command": "true"}, "k", "h")
    text = json.dumps(records, ensure_ascii=False)
    text = text.replace("call_中断", json.dumps(f"call_{ESCAPES}")[1:-1])
    text = text.replace("exec_old", json.dumps(f"exec_{ESCAPES}")[1:-1])
    path = write_session(tmp_path, [*json.loads(text), {"type": ESCAPES}])
    _, out, err = lai("--workspace", tmp_path) if command == "chat" else lai(command, path)
    assert "⟦ESC⟧" in out
    assert not any(c in out + err for c in "\x1b\x07\u202e")


def test_resolve_takes_an_exact_id_before_a_beginning(
    lai: Callable[..., Any], tmp_path: Path
) -> None:
    """`exec_old` names itself although another id begins with it."""
    first = interrupted_command()
    second = json.loads(json.dumps(first).replace("exec_old", "exec_old2"))
    second = json.loads(json.dumps(second).replace("call_\\u4e2d\\u65ad", "call_2"))
    path = write_session(tmp_path, [*first, *second])
    lai("--workspace", tmp_path)
    code, out, _ = lai("resolve", path, "exec_old", "happened", "--evidence", "看过")
    assert (code, out.startswith("exec_old:")) == (0, True)


@pytest.mark.parametrize("redirect", ["0<&-", ">&-", "2>&-", ">/dev/full"])
def test_closed_or_full_streams_show_no_traceback(tmp_path: Path, redirect: str) -> None:
    """A stream that is closed or takes nothing ends in an exit code, not in a traceback."""
    path = write_session(tmp_path, interrupted_write())
    line = f"exec {sys.executable} -m lai show {path} {redirect}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=ROOT, timeout=60
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


class Provider(BaseHTTPRequestHandler):
    """A provider on loopback that asks for one command and then says it is done."""

    wanted = "true"

    def do_POST(self) -> None:
        """Answer a chat completion request with one streamed message."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answered = body["messages"][-1]["role"] == "tool"
        function = {"name": "run_bash", "arguments": json.dumps({"command": self.wanted})}
        call = {"index": 0, "id": "", "type": "function", "function": function}
        delta = {"content": "完成"} if answered else {"tool_calls": [call]}
        choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
        data = {"id": "x", "created": 0, "model": "m", "object": "chat.completion.chunk"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        event = json.dumps({**data, "choices": [choice]})
        self.wfile.write(f"data: {event}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


@pytest.fixture
def live() -> Iterator[Callable[[str], dict[str, str]]]:
    """The environment of a live provider on loopback that asks for one command."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    Thread(target=server.serve_forever, daemon=True).start()

    def environment(command: str) -> dict[str, str]:
        Provider.wanted = command
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        mine = {"OPENAI_API_KEY": "sk-loopback-only", "OPENAI_BASE_URL": address}
        return {**os.environ, **mine, "AGENT_SANDBOX": "none"}  # its commands outlive a kill

    yield environment
    server.shutdown()
    server.server_close()


def start(folder: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start the command line as a user would, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "lai", "--workspace", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=env,
        cwd=ROOT,
    )


def wait_for(path: Path) -> None:
    """Wait until the effect of a command is seen in the world."""
    deadline = time.monotonic() + 60
    while not path.exists() or path.stat().st_size == 0:  # it is opened first, then written
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.01)


SLOW = "echo 已发送 >> audit.log; sleep 20"  # far longer than a start takes on a busy machine


def test_killed_while_a_command_runs(live: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    """SIGKILL in the middle of a command: the next start finishes the turn without repeating it."""
    env = live(SLOW)
    first = start(tmp_path, env)
    assert first.stdin is not None
    first.stdin.write("追加一行\ny\n")
    first.stdin.flush()
    wait_for(tmp_path / "audit.log")
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    second = start(tmp_path, env)
    out, err = second.communicate("", timeout=60)
    assert (second.returncode, err) == (0, "")
    assert "[recovery]" in out
    assert "still_running: true" in out  # it sleeps on, and the question says so
    assert "Agent> 完成" in out
    assert (tmp_path / "audit.log").read_text(encoding="utf-8") == "已发送\n"
    statuses = [r.get("status") for r in Session.read(session_path(tmp_path)).records]
    assert [s for s in statuses if s] == ["approved", "running", "unknown"]


def test_not_happened_waits_for_the_command_to_end(
    live: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """While the killed agent's command still runs, "not happened" is not taken as a verdict."""
    env = live(SLOW)
    first = start(tmp_path, env)
    assert first.stdin is not None
    first.stdin.write("追加一行\ny\n")
    first.stdin.flush()
    wait_for(tmp_path / "audit.log")
    first.kill()
    first.communicate()
    second = start(tmp_path, env)
    out, _ = second.communicate("not happened：没看见\ny\n", timeout=60)
    assert second.returncode == 3
    assert "not over" in out
    assert "resolution" not in session_path(tmp_path).read_text(encoding="utf-8")
    assert (tmp_path / "audit.log").read_text(encoding="utf-8") == "已发送\n"


@pytest.mark.parametrize(
    "typed",
    ["happened：看过了", "happened\nhappened: 看过了", "/ledger\nhappened: 看过了"],
)
def test_a_verdict_may_be_typed_in_more_than_one_way(
    lai: Callable[..., Any], tmp_path: Path, typed: str
) -> None:
    """A Chinese colon, evidence given a line later, and a command before it lose no verdict."""
    path = write_session(tmp_path, interrupted_command())
    lai("--workspace", tmp_path, typed=f"{typed}\n")
    [verdict] = [r for r in Session.read(path).records if r["type"] == "resolution"]
    assert (verdict["outcome"], verdict["evidence"]) == ("happened", "看过了")


def test_exit_at_a_question_decides_nothing(lai: Callable[..., Any], tmp_path: Path) -> None:
    """/exit leaves an approval open, and the next start asks again."""
    code, _, _ = lai("--workspace", tmp_path, typed=f"{AUDIT}\n/exit\n")
    assert code == 3
    assert [r["type"] for r in Session.read(session_path(tmp_path)).records] == ["message"] * 2
    lai("--workspace", tmp_path, typed="y\n")
    assert (tmp_path / "audit.log").read_text() == "sent\n"


def test_ctrl_c_while_a_command_runs(live: Callable[[str], dict[str, str]], tmp_path: Path) -> None:
    """Ctrl-C stops the command; unknown and its receipt are on disk before anything else."""
    process = start(tmp_path, live(SLOW))
    assert process.stdin is not None
    process.stdin.write("追加一行\ny\n")
    process.stdin.flush()
    wait_for(tmp_path / "audit.log")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate("/exit\n", timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "[interrupted]" in out
    records = Session.read(session_path(tmp_path)).records
    assert [r["status"] for r in records if "status" in r] == ["approved", "running", "unknown"]
    assert records[-1]["message"]["role"] == "tool"
    assert (tmp_path / "audit.log").read_text(encoding="utf-8") == "已发送\n"


def test_a_second_chat_on_the_same_session_is_refused(tmp_path: Path) -> None:
    """The second process is told which process has the file."""
    with Session.open(session_path(tmp_path)):
        second = start(tmp_path, dict(os.environ))
        _, err = second.communicate("", timeout=60)
    assert second.returncode == 2
    assert str(os.getpid()) in err
    assert err.count("\n") == 1
