"""Which sandbox is in force: who chooses it, who is told, and what is never chosen."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from toolkit import answers, log
from walls import JSON, ws

from lai import Agent, LaiError, Session, landlock, sandbox, scripted, session_path
from lai import workspace_tools as tools
from lai.sandbox import TABLE, Sandbox

__all__ = ["ws"]  # a fixture
ROOT = Path(__file__).parents[1]


# --- who is told --------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(Sandbox))
def test_prompt_result_and_ledger_name_it(ws: Path, name: str) -> None:
    """The question says what it keeps; the record of the start and the receipt name it."""
    if name not in sandbox.available():
        pytest.skip(f"{name} does not work here")
    person, path = answers(["y"]), session_path(ws)
    model = scripted([[("run_bash", {"command": "echo 好"})], "完"])
    with Session.open(path) as session:
        Agent(session, model, tools(ws, sandbox=name), person).run("跑")
    shown = str(person.questions[0])
    assert f"sandbox: {name}\n" in shown
    if name != "none":
        assert all(cells[Sandbox(name)] in shown for cells in TABLE.values())
    assert ("not a sandbox" in shown) == (name == "none")
    records = log(path)
    assert [r["sandbox"] for r in records if r.get("status") == "running"] == [name]
    (said,) = [r["message"] for r in records if r.get("message", {}).get("role") == "tool"]
    assert json.loads(said["content"])["sandbox"] == name
    with Session.open(path) as session:
        assert [r for r in session.records if "sandbox" in r] != []


@pytest.mark.parametrize("name", list(Sandbox))
def test_the_model_knows_its_walls(ws: Path, name: str) -> None:
    """Before it tries, the description of the tool says which sandbox there is, and no network."""
    if name not in sandbox.available():
        pytest.skip(f"{name} does not work here")
    said = tools(ws, sandbox=name)[2].schema()["function"]["description"]
    assert (f"Sandbox: {name}; network: no" in said) is (name != "none")


def test_a_note_replaces_no_field_of_the_record(ws: Path) -> None:
    """A tool that would note a status, or another field of the format, cannot be made."""
    with pytest.raises(ValueError, match="noted"):
        replace(tools(ws, sandbox="none")[2], noted={"status": "succeeded"})


def test_the_table_is_whole() -> None:
    """Each row says something of each sandbox, and no two sandboxes are alike."""
    assert all(set(cells) == set(Sandbox) and all(cells.values()) for cells in TABLE.values())
    assert len({sandbox.described(name) for name in Sandbox}) == len(Sandbox)


# --- which one ----------------------------------------------------------------------------


def test_the_best_that_works_is_taken(ws: Path) -> None:
    """Without a name it is the first of the available ones, and ``none`` is the last."""
    found = sandbox.available()
    assert found[-1] == "none"
    assert tools(ws)[2].check({"command": "true"})["sandbox"] == found[0]


def test_an_unknown_name_is_refused(ws: Path) -> None:
    """A name that is none raises, says which there are, and touches nothing."""
    with pytest.raises(LaiError, match="bubblewrap, landlock, none"):
        tools(ws, sandbox="docker")
    assert list(ws.iterdir()) == []


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_a_required_one_that_fails_is_an_error(
    ws: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it does not work nothing weaker is taken: an error says what to do, nothing runs."""
    monkeypatch.setattr(sandbox, "_works", lambda found, _: found is Sandbox.NONE)
    with pytest.raises(LaiError, match=r"does not work here: .*Nothing was run"):
        tools(ws, sandbox=name)
    assert tools(ws)[2].noted == {"sandbox": "none"}
    assert list(ws.iterdir()) == []


def test_one_that_keeps_nothing_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bwrap that only runs the command is found out by trying it."""
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert "bubblewrap" not in sandbox.available()


def chat(ws: Path, said: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Start the command line, say one thing, and answer no question."""
    env = {**os.environ, "PYTHONUTF8": "1", **environment}
    line = [sys.executable, "-m", "lai", "--workspace", ws]
    return subprocess.run(
        line, cwd=ROOT, env=env, input=said, capture_output=True, text=True, check=False
    )


def test_the_chat_takes_it_from_the_environment(ws: Path) -> None:
    """AGENT_SANDBOX is named and used; a wrong one is an error before a session is made."""
    wrong = chat(ws, "", AGENT_SANDBOX="墙")
    assert (wrong.returncode, "AGENT_SANDBOX" in wrong.stderr) == (2, True)
    assert list(ws.iterdir()) == []
    right = chat(ws, "append a line to the audit log\n", AGENT_SANDBOX="none")
    assert "[sandbox] none" in right.stdout
    assert "\n  sandbox: none\n" in right.stdout


# --- the helper of landlock ---------------------------------------------------------------


def helped(*arguments: str) -> JSON:
    """Run the helper as a program."""
    done = subprocess.run(
        [sys.executable, "-I", str(landlock.__file__), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return {"code": done.returncode, "said": done.stdout + done.stderr}


def test_the_helper_that_cannot_start_runs_nothing(ws: Path) -> None:
    """A program that is not there, or a kernel without landlock, is a plain sentence."""
    found = helped(f"--write={ws}", "--", "/没有")
    assert found["code"] != 0
    assert "nothing was run" in found["said"]
    assert "Traceback" not in found["said"]


def test_a_kernel_without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel does not know it, nothing is given up and it is said."""
    monkeypatch.setattr(landlock, "CREATE", 100_000)
    assert landlock.version() == 0
    with pytest.raises(OSError, match="no landlock"):
        landlock.restrict([], [], [])
