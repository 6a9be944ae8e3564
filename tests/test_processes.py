"""What outlives a command is found and named; nothing is killed that is not provably ours."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from toolkit import log
from walls import JSON, run, tag, tagged, within, ws

from lai import Agent, Session, processes, report, scripted, session_path, traces, workspace_tools
from lai.outcome import not_over

__all__ = ["tag", "ws"]  # fixtures
ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
ESCAPES = "(setsid sh -c 'echo $$ > daemon; exec sleep 60' > /dev/null 2>&1 &) ; "
ESCAPES += "while ! [ -s daemon ]; do sleep 0.01; done; "
HIDES = ESCAPES.replace("setsid sh", "env -i setsid sh")


def daemon(ws: Path) -> int:
    """The number of the process that made a session of its own, by its own word."""
    return int((ws / "daemon").read_text())


def alive(pid: int) -> bool:
    """Whether a process lives, by the system's word."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def stranger() -> "subprocess.Popen[bytes]":
    """A process that is none of the command's."""
    made = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield made
    made.kill()
    made.wait()


# --- at the end of a call -----------------------------------------------------------------


@pytest.mark.parametrize(("ending", "timeout"), [("sleep 60", 1.0), ("exit 3", 20), ("true", 20)])
def test_an_escaped_process_is_named_and_left_alone(
    ws: Path, tag: str, ending: str, timeout: float
) -> None:
    """A process in a session of its own outlives the time, the failure and the success."""
    result = run(ws, f"{ESCAPES}{ending}", "none", timeout=timeout)
    assert result["timed_out"] == (ending == "sleep 60")
    assert result["may_still_run"] == tagged(tag) == [daemon(ws)]
    assert result["children_left"] == 1


def test_nothing_is_named_when_nothing_is_left(ws: Path, tag: str) -> None:
    """Out of time, what is in the command's session is ended, and there is nobody to name."""
    result = run(ws, "set -m; sleep 60 & (sleep 61 & wait) & wait", "none", timeout=0.5)
    assert (result["timed_out"], result["children_left"]) == (True, 0)
    assert "may_still_run" not in result
    assert tagged(tag) == []


def test_many_are_counted_and_some_named(ws: Path, tag: str) -> None:
    """The list is bounded, the count is not."""
    result = run(ws, "for i in {1..30}; do sleep 60 > /dev/null 2>&1 & done", "none")
    assert result["children_left"] == len(tagged(tag)) == 30
    assert len(result["may_still_run"]) == traces.NAMED < 30
    assert set(result["may_still_run"]) <= set(tagged(tag))


def test_the_limit_that_is_stated(ws: Path, tag: str) -> None:
    """Without its session and its environment a process is found by nobody: it says nothing."""
    del tag
    result = run(ws, HIDES, "none")
    try:
        assert alive(daemon(ws))
        assert (result["children_left"], "may_still_run" in result) == (0, False)
    finally:
        os.kill(daemon(ws), signal.SIGKILL)


# --- whose it is --------------------------------------------------------------------------


def test_the_mark_is_of_one_attempt_in_one_workspace(ws: Path) -> None:
    """Neither a longer id, nor another workspace, nor the word in another place is taken for it."""
    marks = [processes.mark(name, ws) for name in ("exec_1", "exec_11")]
    marks.append(processes.mark("exec_1", ws.parent / "outside"))
    envs = [{processes.MARK: mark} for mark in marks]
    envs.append({"OTHER": f"{processes.MARK}={marks[0]}"})
    started = [subprocess.Popen(["sleep", "60"], env=env) for env in envs]
    try:
        for mark, one in zip(marks, started, strict=False):
            assert within(5, lambda m=mark, o=one: processes.carrying(m) == [o.pid])
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_a_stranger_under_the_number_is_not_killed(
    stranger: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is found but belongs to another session by now is left alone."""
    ours = subprocess.Popen(["sleep", "60"], start_new_session=True)
    monkeypatch.setattr(processes, "alive", lambda _: [stranger.pid, ours.pid, 2**22 + 1])
    processes.end(ours.pid)
    assert ours.wait() == -signal.SIGKILL
    assert alive(stranger.pid)


@pytest.mark.parametrize("held", [True, False])
def test_a_group_of_its_own_is_ended_with_and_without_descriptors(
    ws: Path, tag: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel has no descriptors of processes, the members of the session end too."""

    def refuse(_: int) -> int:
        raise OSError(errno.ENOSYS, "没有")

    sent: list[int] = []
    real = signal.pidfd_send_signal
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda d, s: [sent.append(d), real(d, s)])
    if not held:
        monkeypatch.setattr(os, "pidfd_open", refuse)
    run(ws, "set -m; sleep 60 & wait", "none", timeout=0.3)
    assert tagged(tag) == []
    assert bool(sent) == held


def test_the_shell_is_waited_for_last(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While anything is looked for or ended, the number of the session is not free."""
    seen: list[str] = []

    def look(session: int, _: str) -> list[int]:
        seen.append(Path(f"/proc/{session}/stat").read_text().rpartition(")")[2].split()[0])
        return []

    monkeypatch.setattr(processes, "living", look)
    assert run(ws, "exit 7", "none")["exit_code"] == 7
    assert run(ws, "sleep 60", "none", timeout=0.2)["status"] == "unknown"
    assert seen == ["Z", "Z"]


# --- after the death of the agent ---------------------------------------------------------

LIFE = """
import sys
from lai import Agent, Session, scripted, session_path, workspace_tools
ws, command = sys.argv[1:]
with Session.open(session_path(ws)) as session:
    tools = workspace_tools(ws, sandbox="none", timeout=20)
    Agent(session, scripted([[("run_bash", {"command": command})]]), tools, lambda _: "y").run("跑")
"""


def die_at(ws: Path, command: str) -> Path:
    """An agent's life that its own command ends, and then the shell; returns its session."""
    line = [sys.executable, "-c", LIFE, ws, f"{command} echo $$ > shell; kill -9 $PPID"]
    assert subprocess.run(line, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert within(5, lambda: not alive(int((ws / "shell").read_text())))
    return session_path(ws)


def come_back(path: Path) -> tuple[JSON, JSON]:
    """The next process, with nobody to ask: the record of the unknown, and what is told."""
    ws = path.parent.parent
    with Session.open(path) as session:
        tools = workspace_tools(ws, sandbox="none")
        Agent(session, scripted(["-", "完"]), tools, None).continue_turn()
    (record,) = [r for r in log(path) if r.get("status") == "unknown"]
    (told,) = [r["message"] for r in log(path) if r.get("message", {}).get("role") == "tool"]
    return record["result"], json.loads(told["content"])


@pytest.mark.parametrize(
    "left", [ESCAPES, "sleep 60 > /dev/null 2>&1 & echo $! > daemon; "], ids=["escaped", "child"]
)
def test_recovery_names_what_still_lives(ws: Path, tag: str, left: str) -> None:
    """Ledger, receipt and table of a killed agent's command name what lives, and let it live."""
    path = die_at(ws, left)
    assert tagged(tag) == [daemon(ws)]
    for said in come_back(path):
        assert said["may_still_run"] == [daemon(ws)]
    assert alive(daemon(ws))
    shown = [row.text for row in report.rows(Session.read(path)) if row.who == "tool"]
    assert f"may_still_run: [{daemon(ws)}]" in shown[0]


def test_recovery_says_nothing_of_what_has_ended(ws: Path, tag: str) -> None:
    """Once the process is over, nothing is claimed."""
    path = die_at(ws, ESCAPES)
    os.kill(daemon(ws), signal.SIGKILL)
    assert within(5, lambda: tagged(tag) == [])
    assert all("may_still_run" not in said for said in come_back(path))


def test_the_question_about_it_shows_the_numbers(ws: Path, tag: str) -> None:
    """A person who is asked for a verdict sees them, and "not happened" is not taken."""
    path = die_at(ws, ESCAPES)
    asked: list[str] = []

    def person(question: object) -> str:
        asked.append(str(question))
        return "not happened: 没看见"

    with Session.open(path) as session:
        tools = workspace_tools(ws, sandbox="none")
        stopped = Agent(session, scripted(["-", "完"]), tools, person).continue_turn()
    assert f"may_still_run: [{daemon(ws)}]" in asked[0]
    assert "sandbox: none" in asked[0]
    assert not isinstance(stopped, str)
    assert tagged(tag) == [daemon(ws)]


def test_a_stop_by_a_person_names_what_escaped(ws: Path, tag: str) -> None:
    """Ctrl-C in the middle: the receipt is on disk at once and names the process that is left."""
    path = session_path(ws)

    def press() -> None:
        if within(20, (ws / "ready").exists):
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    presser = threading.Thread(target=press)
    try:
        with Session.open(path) as session:
            model = scripted([[("run_bash", {"command": f"{ESCAPES} : > ready; sleep 60"})]])
            agent = Agent(session, model, workspace_tools(ws, sandbox="none"), lambda _: "y")
            presser.start()
            with pytest.raises(KeyboardInterrupt):
                agent.run("跑")
    finally:
        presser.join()
        signal.signal(signal.SIGINT, before)
    (record,) = [r for r in log(path) if r.get("status") == "unknown"]
    assert record["result"]["may_still_run"] == tagged(tag) == [daemon(ws)]


def test_looking_ends_nothing(ws: Path, tag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery has no way to signal a process: it is taken away, and all is found all the same."""
    path = die_at(ws, ESCAPES)

    def refuse(*_: object) -> None:
        raise AssertionError("a signal was sent")

    for module, name in ((os, "kill"), (os, "killpg"), (signal, "pidfd_send_signal")):
        monkeypatch.setattr(module, name, refuse)
    found = come_back(path)
    monkeypatch.undo()
    assert [said["may_still_run"] for said in found] == [[daemon(ws)]] * 2
    assert tagged(tag) == [daemon(ws)]


def test_a_tool_that_cannot_look_hides_nothing(ws: Path) -> None:
    """A look that fails costs the names, not the record of the unknown."""
    bash = workspace_tools(ws, sandbox="none")[2]

    def fail(_: str) -> JSON:
        raise RuntimeError("坏了")

    assert not_over(replace(bash, watch=fail), "exec_1") == {}
    assert not_over(None, "exec_1") == {}
    assert not_over(replace(bash, watch=lambda _: {"may_still_run": [1]}), "e") == {
        "may_still_run": [1]
    }
