"""Kernels as a reader has them: offline under the guard, and with a person who clicks and stops."""

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from lai.course.run_notebooks import execute

OFFLINE = Path(__file__).resolve().parent / "data" / "offline"
TRIES = "raises-exception"  # a cell that may end in an error

# Offline

LEAVING = """
import socket
socket.create_connection(("192.0.2.1", 9), timeout=5)
"""
LOOKING_UP = """
import urllib.request
urllib.request.urlopen("http://example.com", timeout=5)
"""
IN_A_CHILD = """
import subprocess, sys
program = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))"
subprocess.run([sys.executable, "-c", program], check=True)
"""
STAYING = """
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
import os
print(os.environ.get("OPENAI_API_KEY"))
"""


def test_kernel_reaches_loopback_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that tries to leave fails, by address, name or child; loopback works, no key shows."""
    monkeypatch.setenv("PYTHONPATH", str(OFFLINE))
    monkeypatch.setenv("OPENAI_API_KEY", "not for a kernel")
    cells = [LEAVING, LOOKING_UP, IN_A_CHILD, STAYING]
    notebook = new_notebook(cells=[new_code_cell(c, metadata={"tags": [TRIES]}) for c in cells])
    path = tmp_path / "leaving.ipynb"
    nbformat.write(notebook, path)
    done = execute(path, tmp_path)
    last = [cell.outputs[-1] for cell in done.cells]
    assert [out.get("ename") for out in last[:3]] == [
        *("PermissionError", "URLError", "CalledProcessError")
    ]
    assert "may not leave the machine" in last[1].evalue
    assert last[3].get("text") == "None\n"


# Clicks

SETUP = """
from pathlib import Path
from lai import Session, scripted, session_path
from lai.course import scenes
from lai.course.place import agent_at, fresh, workspace_of
from lai.course.tables import steps
from lai.course.widgets import Prompt
prompt, path = Prompt(), session_path(fresh())
def sent(path):
    log = workspace_of(path) / "audit.log"
    return log.read_text().count("sent") if log.exists() else 0
"""
ASKED = """
with agent_at(path, ask=prompt) as agent:
    print(await prompt.during(agent.run, scenes.APPEND_LINE))
print(sent(path), *steps(Session.read(path).records))
"""
VERDICT = """
path = scenes.stage("interrupted-command", fresh())
with agent_at(path, ask=prompt) as agent:
    print(await prompt.during(agent.continue_turn))
print(sent(path), *steps(Session.read(path).records))
"""
STOPPED = """
path = session_path(fresh())
with agent_at(path, ask=prompt) as agent:
    await prompt.during(agent.run, scenes.APPEND_LINE)
"""
RUNNING = """
Path("stopped").mkdir()
path = session_path(Path("stopped").absolute())
model = scripted([[("run_bash", {"command": "echo sent >> audit.log; sleep 60"})]])
with agent_at(path, ask=prompt, model=model) as agent:
    await prompt.during(agent.run, "go")
"""
LEFT = """
import threading
print(sent(path), *steps(Session.read(path).records))
print("agent" in [t.name for t in threading.enumerate()])
"""


class Person(NotebookClient):
    """Executes a notebook like a person with a mouse, over the kernel's own protocol.

    ``plan`` has one list of steps a question: "stop", "say …" for the evidence, "wait for …"
    for a file, or the button to press.
    """

    def __init__(self, notebook: NotebookNode, plan: list[list[str]], folder: Path) -> None:
        super().__init__(notebook, timeout=60, resources={"metadata": {"path": str(folder)}})
        self.plan, self.folder = plan, folder
        self.comms: dict[str, str] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> Any:
        """Note the widgets of a question; act when its last button is there."""
        if msg["msg_type"] == "comm_open":
            content = msg["content"]
            state = content["data"].get("state", {})
            name = state.get("description") or ""
            if state.get("_model_name") in ("ButtonModel", "TextModel"):
                self.comms[name] = content["comm_id"]
            if name in ("Reject", "Leave it unknown"):
                task = asyncio.get_running_loop().create_task(self.act(self.plan.pop(0)))
                self.tasks.add(task)
        return super().process_message(msg, cell, cell_index)

    async def act(self, steps: list[str]) -> None:
        """Do what the plan says about one question."""
        for step in steps:
            await asyncio.sleep(0.1)  # until the question is displayed, and like a person
            if step == "stop":
                await self.km.interrupt_kernel()
            elif step.startswith("say "):
                self.send("Evidence", {"method": "update", "state": {"value": step[4:]}})
            elif step.startswith("wait for "):
                while not (self.folder / step[9:]).exists():  # noqa: ASYNC110 (a fact of the disk)
                    await asyncio.sleep(0.05)
            else:
                self.send(step, {"method": "custom", "content": {"event": "click"}})

    def send(self, widget: str, data: dict[str, Any]) -> None:
        """Send what a browser would send for a widget."""
        content = {"comm_id": self.comms[widget], "data": {"buffer_paths": [], **data}}
        self.kc.shell_channel.send(self.kc.session.msg("comm_msg", content))


def test_person_answers_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real clicks approve, reject, give a verdict; Stop ends a waiting cell and a running tool."""
    monkeypatch.delenv("LAI_ANSWER", raising=False)
    plan = [
        ["Approve", "Reject"],  # the second click comes too late
        ["Reject", "Approve"],
        ["It happened", "say 我看了 audit.log", "It happened"],  # the first has no evidence
        ["stop"],
        ["Approve", "wait for stopped/audit.log", "stop"],
    ]
    cells = [SETUP, ASKED, ASKED, VERDICT, STOPPED, LEFT, RUNNING, LEFT]
    notebook = new_notebook(cells=[new_code_cell(c, metadata={"tags": [TRIES]}) for c in cells])
    person = Person(notebook, plan, tmp_path)
    person.execute(transport_encryption="auto")
    shown = ["".join(o.get("text", o.get("ename", "")) for o in c.outputs) for c in notebook.cells]
    turn = "user assistant approved running succeeded tool assistant"
    expected = [
        ("You: approved", f"1 {turn}\n"),
        ("You: rejected", f"1 {turn} user assistant rejected tool assistant\n"),
        (
            "You: it happened",
            "0 user assistant approved running unknown resolution tool assistant\n",
        ),
        ("Not answered", "KeyboardInterrupt"),
        ("0 user assistant\n", "False\n"),
        ("You: approved", "KeyboardInterrupt"),
        ("1 user assistant approved running unknown tool\n", "False\n"),
    ]
    for (start, end), text in zip(expected, shown[1:], strict=True):
        assert text.startswith(start), shown
        assert text.endswith(end), shown
    assert "Evidence: 我看了 audit.log" in shown[3]
    assert person.plan == []
