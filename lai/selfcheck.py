"""``python -m lai --self-check``: the essential promises, tried in a temporary folder.

Each check acts for real on a real file and then looks at the disk, not at what the
library says of itself. It takes a second or two, needs no key and leaves nothing behind.
"""

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from lai.agent import Agent
from lai.calls import arguments_sha256
from lai.faults import Crash
from lai.models import scripted
from lai.records import JSON, LaiError
from lai.session import Session
from lai.storage import SessionLocked, session_path
from lai.tools import Run, Tool
from lai.workspace import workspace_tools

HASH = "316b7a5c54fa80f28f7af606784c9af906d06657a1fd35b6094fed239dca6966"
WRITE = ("write_file", {"path": "ledger-demo.txt", "content": "hello ledger"})
COMMAND = ("run_bash", {"command": "echo 已发送 >> audit.log"})


class SelfCheckFailed(LaiError):
    """A promise that does not hold on this machine."""


def self_check() -> None:
    """Raise :class:`SelfCheckFailed` with the first promise that does not hold."""
    for check in (_ordinary_turn, _retried_write, _unknown_command, _torn_tail, _one_writer):
        with tempfile.TemporaryDirectory(prefix="lai-") as folder:
            check(Path(folder))


def _expect(promise: str, *, holds: bool) -> None:
    if not holds:
        raise SelfCheckFailed(
            f"self-check failed: {promise}. `python -m lai.course.doctor` looks at this machine"
        )


def _ordinary_turn(folder: Path) -> None:
    with Session.open(session_path(folder)) as session:
        model = scripted([[WRITE], "写好了"])
        Agent(session, model, workspace_tools(folder), ask=lambda _: "y").run("请写文件")
        order = [r.get("status") or r["message"]["role"] for r in session.records]
    seven = ["user", "assistant", "approved", "running", "succeeded", "tool", "assistant"]
    _expect("a turn with one write makes seven records in their order", holds=order == seven)
    written = (folder / "ledger-demo.txt").read_bytes()
    _expect("the file has its 12 bytes", holds=written == b"hello ledger")
    _expect("arguments have the published hash", holds=arguments_sha256(WRITE[1]) == HASH)


def _retried_write(folder: Path) -> None:
    statuses = _die_and_return(folder, WRITE)
    again = ["approved", "running", "unknown", "approved", "running", "succeeded"]
    _expect("an interrupted write is unknown, then done again", holds=statuses == again)


def _unknown_command(folder: Path) -> None:
    statuses = _die_and_return(folder, COMMAND)
    once = ["approved", "running", "unknown"]
    _expect("an interrupted command stays unknown", holds=statuses == once)
    lines = (folder / "audit.log").read_text(encoding="utf-8").splitlines()
    _expect("its effect happened once", holds=len(lines) == 1)


def _die_and_return(folder: Path, call: tuple[str, JSON]) -> list[str]:
    """End a turn right after its effect, come back, and return the ledger's statuses."""
    path, model = session_path(folder), scripted([[call], "好"])
    tools = workspace_tools(folder)
    with Session.open(path) as session, contextlib.suppress(Crash):
        dying = [_dying(tool) for tool in tools]
        Agent(session, model, dying, ask=lambda _: "y").run("请做一次")
    with Session.open(path) as session:
        answer = Agent(session, model, tools, ask=None).continue_turn()
        _expect("the interrupted turn reaches its answer", holds=answer == "好")
        return [r["status"] for r in session.records if r["type"] == "tool_execution"]


def _dying(tool: Tool) -> Tool:
    def run(arguments: JSON, attempt: Run) -> JSON:
        tool.run(arguments, attempt)
        raise Crash

    return replace(tool, run=run)


def _torn_tail(folder: Path) -> None:
    path = session_path(folder)
    with Session.open(path) as session:
        session.append({"type": "message", "message": {"role": "user", "content": "书\u2028"}})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-9])
    for count in (2, 3):  # the repair record, then an append on a line of its own
        with Session.open(path) as session:
            _expect("a torn line costs no other record", holds=len(session.records) == count)
            session.append({"type": "note"})
    _expect("nothing is cut from the file", holds=path.read_bytes().startswith(whole + whole[:-9]))


def _one_writer(folder: Path) -> None:
    with Session.open(session_path(folder)):
        try:
            Session.open(session_path(folder)).close()
        except SessionLocked:
            return
    _expect("a session has one writer at a time", holds=False)
