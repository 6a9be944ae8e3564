"""``run_bash``: a command, from its start to what can be said about its end.

Nothing is known about a command before it ran, so the tool promises nothing (``OPAQUE``).
What this module owes is to say truthfully how it ended, and never to hang.

Rules that live here and nowhere else:

1. The end of the shell is the end of the call. Exit 0 is a success, any other exit a
   confirmed failure; being out of time confirms nothing. A background child may hold the
   output open: it is left running, never waited for, and counted in ``children_left``.
   (Its output is read on while this process lives, so that it is not stopped by us.)
2. Out of time or interrupted, every process of the command's session is killed, not the
   shell alone. A process that made a session of its own (``setsid``) escapes. Whatever is
   left is named in ``may_still_run``. Where the sandbox ends what it started, nothing is.
3. The command has no terminal and an empty input: a question ends instead of waiting, and
   no key that is meant for the person's prompt is taken. Nothing is carried over to the next.
4. Waiting is done in short ticks, so that an interrupt sent to a worker thread arrives.

The ``sandbox`` was settled before; the question, the record of the start and the result name
it. Without one a command has all rights of the person, over ``.agent_state`` too.
"""

import os
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from lai import paths, processes, sandbox, traces
from lai.bounds import Room
from lai.output import Output
from lai.records import JSON
from lai.sandbox import Sandbox
from lai.tools import Arguments, Effect, Run, Tool, ToolError, Unconfirmed

Process = subprocess.Popen[bytes]
COMMAND_LIMIT = 60_000  # bytes; the system's own limit for one argument is 131,072
TICK, GRACE = 0.05, 0.2  # seconds: between two looks; for output that is still on its way
DESCRIPTION = "Run a bash command in the workspace. No input; long output is shortened."
WARNING = (
    "Approval is not permission and not a sandbox: the command runs with all your rights. It can "
    "change, delete or send away whatever you can reach, also outside the workspace."
)
WALLS = "Approval is not permission. In the sandbox {0}: {1}"


class _Setting(NamedTuple):
    root: Path
    timeout: float
    room: Room
    kind: Sandbox


class BashArguments(Arguments):
    """What ``run_bash`` takes."""

    command: str = Field(description="The bash command. It starts in the workspace, without input.")


def run_bash_tool(root: Path, timeout: float, room: Room, kind: Sandbox) -> Tool:
    """The tool. ``timeout`` is in seconds, ``room`` is what a result may take."""
    walls, noted = WALLS.format(kind, sandbox.described(kind)), {"sandbox": str(kind)}
    return Tool(
        name="run_bash",
        description=DESCRIPTION if kind is Sandbox.NONE else f"{DESCRIPTION} {_limits(kind)}",
        arguments=BashArguments,
        run=partial(_run, _Setting(root, timeout, room, kind)),
        effect=Effect.OPAQUE,
        warning=WARNING if kind is Sandbox.NONE else walls,
        check=partial(_preview, {"timeout_seconds": timeout, **noted}),
        watch=partial(traces.look, root),
        noted=noted,
    )


def _limits(kind: Sandbox) -> str:
    """What a model should know before it tries."""
    return f"Sandbox: {kind}; network: {sandbox.TABLE['network'][kind]}."


def _preview(about: JSON, arguments: JSON) -> JSON:
    _bash()
    _command(arguments)
    return {"command": arguments["command"], "cwd": "workspace", **about}


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


def _run(setting: _Setting, arguments: JSON, run: Run) -> JSON:
    root, kind = setting.root, setting.kind
    line: list[str | bytes] = [_bash(), "-c", "--", _command(arguments)]
    mark = processes.mark(run.execution_id, root)
    with ExitStack() as kept:
        with paths.plainly("/".join(paths.ARTIFACTS), "the command was not run"):
            temporary = kept.enter_context(sandbox.scratch(kind))
            output = Output.create(root, run.execution_id)
        env = {**sandbox.environment(kind, temporary), processes.MARK: mark}
        process = _start(sandbox.command(kind, root, temporary, line), root, output, env)
        try:
            traces.leave(root, run.execution_id, process.pid)
            ended = _listen(process, output, time.monotonic() + setting.timeout)
            if not ended or kind is Sandbox.BUBBLEWRAP:  # with it ends all that it started
                processes.end(process.pid)
            silent = _drain(output)
            left = processes.living(process.pid, mark)
        except BaseException:
            processes.end(process.pid)
            output.close()
            raise
        finally:
            with suppress(subprocess.TimeoutExpired):  # one that the system cannot end either
                process.wait(2)
    if ended and not silent:
        threading.Thread(target=output.copy_to_the_end, daemon=True).start()
    else:
        output.close()
    fields = {
        "exit_code": process.returncode if ended else None,
        **output.shown(setting.room),
        "timed_out": not ended,
        "children_left": None if left is None else max(len(left), 0 if silent else 1),
        **({"may_still_run": left[: traces.NAMED]} if left else {}),
        "sandbox": str(kind),
    }
    return _outcome(fields, setting.timeout)


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


def _start(line: list[str | bytes], root: Path, output: Output, env: dict[str, str]) -> Process:
    try:
        return subprocess.Popen(
            line,
            cwd=root,
            env=env,
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


def _listen(process: Process, output: Output, deadline: float) -> bool:
    """Copy output until the shell has ended (True) or the time is over (False)."""
    printing = True
    while not processes.over(process):
        if time.monotonic() >= deadline:
            return False
        if printing:
            printing = output.copy(TICK)
        else:
            time.sleep(TICK)
    return True


def _drain(output: Output) -> bool:
    """Copy what is still on its way; whether everybody has closed the output."""
    deadline = time.monotonic() + GRACE
    while output.copy(deadline - time.monotonic()):  # at least once: see output.PIPE
        if time.monotonic() >= deadline:
            return False
    return True
