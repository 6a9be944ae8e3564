"""``run_bash``: a command, from its start to what can be said about its end.

Nothing is known about a command before it ran, so the tool promises nothing (``OPAQUE``).
What this module owes is to say truthfully how it ended, and never to hang.

Rules that live here and nowhere else:

1. The end of the shell is the end of the call. Exit 0 is a success, any other exit a
   confirmed failure; being out of time confirms nothing. A background child may hold the
   output open: it is left running, never waited for, and counted in ``children_left``.
   (Its output is read on while this process lives, so that it is not stopped by us.)
2. Out of time or interrupted, every process of the command's session is killed, not the
   shell alone. A process that made a session of its own (``setsid``) escapes; it counts
   as one if it still holds the output, and is not seen otherwise.
3. The command has no terminal and an empty input: a question ends instead of waiting, and
   no key that is meant for the person's prompt is taken.
4. The environment is this process's own, except what looks like a secret by its name (so
   that ``env`` prints no key into the session) and what would run something else than was
   shown: ``BASH_ENV``, shell functions. Nothing is carried over to the next command.
5. Waiting is done in short ticks, so that an interrupt sent to a worker thread arrives.

This is no sandbox. A command runs with all rights of the person: it can read any of their
files, this process's environment in ``/proc``, and it can write ``.agent_state``.
"""

import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from pydantic import Field

from lai import paths, processes, traces
from lai.bounds import Room
from lai.output import Output
from lai.records import JSON
from lai.tools import Arguments, Effect, Run, Tool, ToolError, Unconfirmed

COMMAND_LIMIT = 60_000  # bytes; the system's own limit for one argument is 131,072
TICK, GRACE = 0.05, 0.2  # seconds: between two looks; for output that is still on its way
WARNING = (
    "Approval is not permission and not a sandbox: the command runs with all your rights. It can "
    "change, delete or send away whatever you can reach, also outside the workspace."
)
WITHHELD = re.compile(
    r"API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|SECRET|PASSW|CREDENTIAL"
    r"|^SHELLOPTS$|^BASHOPTS$|^PS4$|^ENV$|^BASH_ENV$|^BASH_FUNC_|^FORCE_COLOR$|^CLICOLOR_FORCE$",
    re.IGNORECASE,
)
PLAIN = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}  # no colours, no paging


class BashArguments(Arguments):
    """What ``run_bash`` takes."""

    command: str = Field(description="The bash command. It starts in the workspace, without input.")


def run_bash_tool(root: Path, timeout: float, room: Room) -> Tool:
    """The tool. ``timeout`` is in seconds, ``room`` is what a result may take."""
    return Tool(
        name="run_bash",
        description="Run a bash command in the workspace. No input; long output is shortened.",
        arguments=BashArguments,
        run=partial(_run, root, timeout, room),
        effect=Effect.OPAQUE,
        warning=WARNING,
        check=partial(_preview, timeout),
        watch=partial(traces.look, root),
    )


def _preview(timeout: float, arguments: JSON) -> JSON:
    _bash()
    _command(arguments)
    return {"command": arguments["command"], "cwd": "workspace", "timeout_seconds": timeout}


def _command(arguments: JSON) -> bytes:
    """The command as it is handed over. Raises ToolError for one that never runs."""
    text: str = arguments["command"]
    try:
        command = text.encode("utf-8")
    except UnicodeEncodeError as cause:
        raise ToolError(f"the command has no UTF-8 form: {cause}") from cause
    if b"\0" in command:
        raise ToolError("the command holds a NUL character, where it would be cut off")
    if len(command) > COMMAND_LIMIT:
        raise ToolError(
            f"the command has {len(command)} bytes, more than {COMMAND_LIMIT}: nobody can judge "
            "that. Write a script with write_file and run it."
        )
    return command


def _bash() -> str:
    found = shutil.which("bash")
    if found is None:
        raise ToolError("bash is not installed or not on PATH; nothing was run")
    return found


def environment() -> dict[str, str]:
    """What a command finds in its environment."""
    kept = {name: value for name, value in os.environ.items() if not WITHHELD.search(name)}
    return {**kept, **PLAIN}


def _run(root: Path, timeout: float, room: Room, arguments: JSON, run: Run) -> JSON:
    bash, command = _bash(), _command(arguments)
    with paths.plainly("/".join(paths.ARTIFACTS), "the command was not run"):
        output = Output.create(root, run.execution_id)
    process = _start([bash, "-c", "--", command], root, output)
    try:
        traces.leave(root, run.execution_id, process.pid)
        ended = _listen(process, output, time.monotonic() + timeout)
        if not ended:
            _kill(process)
        silent = _drain(output)
        left = processes.alive(process.pid)
    except BaseException:
        _kill(process)
        output.close()
        raise
    if ended and not silent:
        threading.Thread(target=output.copy_to_the_end, daemon=True).start()
    else:
        output.close()
    fields = {
        "exit_code": process.returncode if ended else None,
        **output.shown(room),
        "timed_out": not ended,
        "children_left": None if left is None else max(len(left), 0 if silent else 1),
    }
    return _outcome(fields, timeout)


def _outcome(fields: JSON, timeout: float) -> JSON:
    if fields["timed_out"]:
        raise Unconfirmed(
            f"the command was killed after {timeout:g} s; what it did until then stays done",
            **fields,
        )
    if fields["exit_code"] < 0:
        raise ToolError(f"the shell was ended by signal {-fields['exit_code']}", **fields)
    if fields["exit_code"] > 0:
        raise ToolError(f"the command ended with exit code {fields['exit_code']}", **fields)
    return fields


def _start(line: list[str | bytes], root: Path, output: Output) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            line,
            cwd=root,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output.sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # no terminal, and one session to find all processes by
        )
    except OSError as cause:
        output.close()
        raise ToolError(f"bash could not be started: {cause.strerror}; nothing was run") from cause
    finally:
        os.close(output.sink)


def _listen(process: "subprocess.Popen[bytes]", output: Output, deadline: float) -> bool:
    """Copy output until the shell has ended (True) or the time is over (False)."""
    printing = True
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        if printing:
            printing = output.copy(TICK)
        else:
            with suppress(subprocess.TimeoutExpired):
                process.wait(TICK)
    return True


def _drain(output: Output) -> bool:
    """Copy what is still on its way; whether everybody has closed the output."""
    deadline = time.monotonic() + GRACE
    while output.copy(deadline - time.monotonic()):  # at least once: see output.PIPE
        if time.monotonic() >= deadline:
            return False
    return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    processes.end(process.pid)
    with suppress(subprocess.TimeoutExpired):  # one that the system cannot end either
        process.wait(2)
