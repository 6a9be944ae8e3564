"""Real kills: a child process dies by SIGKILL where it was told, and its files are read."""

from pathlib import Path

import pytest

from lai import Session, pending_tool_calls, session_path, workspace_tools
from lai.calls import Pairing
from lai.course import naive, tables
from lai.course.child import run_child
from lai.course.place import workspace_of
from lai.tools import find

WRITE = "请把 recovery-demo.txt 的完整内容设置为 recovered"
COMMAND = "append a line to the audit log"


def statuses(path: Path) -> list[str]:
    return [r["status"] for r in Session.read(path).records if r["type"] == "tool_execution"]


def sent(path: Path) -> int:
    """Lines in the audit log, counted outside of the agent."""
    log = workspace_of(path) / "audit.log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def test_child_is_killed_where_it_was_told(tmp_path: Path) -> None:
    """SIGKILL after the effect: return code -9, the world changed, the log at running."""
    path = session_path(tmp_path)
    ended = run_child(path, COMMAND, at="after effect of run_bash")
    assert (ended.returncode, ended.points[-1]) == (-9, "after effect of run_bash")
    assert (sent(path), statuses(path)) == (1, ["approved", "running"])


@pytest.mark.parametrize("nth", [1, 3, 6])
def test_child_dies_at_the_nth_point_of_a_name(nth: int, tmp_path: Path) -> None:
    """A name with a count selects one append: so many lines are on disk, and half of one."""
    path = session_path(tmp_path)
    assert run_child(path, WRITE, at=("during append", nth)).returncode == -9
    data = path.read_bytes()
    assert data.count(b"\n") == nth - 1
    assert not data.endswith(b"\n")


def test_children_repeat_to_the_byte(tmp_path: Path) -> None:
    """Two runs, each killed and then finished, leave the same bytes."""
    found = []
    for name in "ab":
        (tmp_path / name).mkdir()
        path = session_path(tmp_path / name)
        codes = [run_child(path, WRITE, at=15).returncode, run_child(path).returncode]
        assert codes == [-9, 0]
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert found[0].count(b"\n") == 12


def test_child_can_refuse_and_can_wait(tmp_path: Path) -> None:
    """The answer handed to a child decides: n is recorded, None leaves the question open."""
    for name, answer, expected in (("n", "n", ["rejected"]), ("w", None, [])):
        (tmp_path / name).mkdir()
        path = session_path(tmp_path / name)
        assert run_child(path, COMMAND, answer=answer).returncode == 0
        assert (sent(path), statuses(path)) == (0, expected)


def test_the_naive_agent_leaves_no_trace(tmp_path: Path) -> None:
    """Without a ledger the same death leaves a log that knows nothing of the effect."""
    path = session_path(tmp_path)
    ended = run_child(path, COMMAND, at="after effect of run_bash", naive=True)
    assert (ended.returncode, sent(path), statuses(path)) == (-9, 1, [])
    assert tables.steps(Session.read(path).records) == ["user", "assistant"]


def test_the_naive_agent_is_told_what_to_begin(tmp_path: Path) -> None:
    """Without a text a naive agent has nothing to begin: no session is made, none is changed."""
    path = session_path(tmp_path)
    with pytest.raises(ValueError, match="give it a text"):
        run_child(path, naive=True)
    assert list(tmp_path.iterdir()) == []
    run_child(path, COMMAND, at="after effect of run_bash")  # the real agent would go on here
    before = path.read_bytes()
    with pytest.raises(ValueError, match="give it a text"):
        run_child(path, naive=True)
    assert (path.read_bytes(), sent(path)) == (before, 1)


def test_each_run_of_the_naive_agent_has_a_name(tmp_path: Path) -> None:
    """The same order is carried out three times: three lines, and an artifact for each run."""
    path = session_path(tmp_path)
    run_child(path, COMMAND, at="before effect of run_bash", naive=True)
    bash = find(workspace_tools(tmp_path), "run_bash")
    assert bash
    with Session.open(path) as session:
        (call,) = Pairing().calls(session.records[-1], 2)
        for _ in range(3):
            naive.act(session, call, bash)
    artifacts = list((tmp_path / ".agent_state" / "artifacts").glob("*.log"))
    assert (sent(path), len(artifacts)) == (3, 3)


def test_the_naive_way_back(tmp_path: Path) -> None:
    """An order without a receipt is carried out once more, under another name, and answered."""
    path = session_path(tmp_path)
    assert run_child(path, at="after effect of run_bash", world="naive").returncode == -9
    ended = run_child(path, world="naive")
    assert (ended.returncode, ended.did) == (0, ("attempt", "ask the model"))
    assert (tmp_path / "runs.log").read_text("utf-8").split() == ["run_1", "run_2"]
    assert sent(path) == 2
    assert pending_tool_calls(Session.read(path).records) == []
    assert run_child(path, world="naive").did == ()  # the turn is over: nothing is left to do
    assert sent(path) == 2


def test_the_naive_agent_works_while_nothing_dies(tmp_path: Path) -> None:
    """A whole naive turn ends with its answer, a refusal too; no ledger is kept."""
    for answer, lines in (("y", 1), ("n", 0)):
        (tmp_path / answer).mkdir()
        path = session_path(tmp_path / answer)
        assert run_child(path, COMMAND, answer=answer, naive=True).returncode == 0
        roles = tables.steps(Session.read(path).records)
        assert (sent(path), roles) == (lines, ["user", "assistant", "tool", "assistant"])
