"""Commands in a sandbox, and what they did, counted without asking the library."""

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lai import Run, ToolError, sandbox, workspace_tools
from lai.sandbox import Sandbox
from lai.tools import Unconfirmed

REQUIRED = "LAI_REQUIRE_SANDBOX"
TAG = "LAI_TEST_TAG"
JSON = dict[str, Any]


@pytest.fixture(params=["bubblewrap", "landlock"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each sandbox; one that does not work here is skipped, or fails where it is required."""
    name: str = request.param
    if name not in sandbox.available():
        why = f"{name} does not work here: {sandbox.FIXES[Sandbox(name)]}"
        if name in os.environ.get(REQUIRED, "").split():
            pytest.fail(why)
        pytest.skip(why)
    return name


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace with a name that is not ASCII, and beside it the folder ``outside``."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "账.txt").write_text("旧", "utf-8")
    root = tmp_path / "工作区 🧱"
    root.mkdir()
    return root


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A word in the environment of everything that is started; what is left is ended here."""
    word = f"tag-{uuid.uuid4().hex}"
    monkeypatch.setenv(TAG, word)
    yield word
    for process in tagged(word):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def tagged(word: str) -> list[int]:
    """The living processes that were started with the word, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if f"{TAG}={word}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return sorted(found)


def run(ws: Path, command: str, kind: str | None, *, timeout: float = 20) -> JSON:
    """Run a command as the agent does, and return what is known, whatever the outcome."""
    tool = workspace_tools(ws, timeout=timeout, sandbox=kind)[2]
    try:
        attempt = Run(f"exec_{uuid.uuid4().hex}", "demo:run_bash:call_1")
        return {"status": "succeeded", **tool.run({"command": command}, attempt)}
    except ToolError as error:
        return {"status": "failed", "message": str(error), **error.result}
    except Unconfirmed as error:
        return {"status": "unknown", "message": str(error), **error.result}


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether something comes true; how long it takes decides nothing but when to give up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)
    return condition()


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The mode of everything beneath a folder, and its bytes."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }
