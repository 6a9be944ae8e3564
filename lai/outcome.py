"""Running a tool once, and what its answer, its error or its silence means.

Here the rule stands that the table in ``tools`` tells: a value is a success, ToolError a
confirmed failure, and everything else leaves the outcome open.

It does not record anything, and it does not know why the tool is run.
"""

import json
from dataclasses import replace
from typing import Any

from lai.executions import Execution
from lai.records import JSON, Status
from lai.tools import Answer, Effect, Finding, Run, Tool, ToolError, Unconfirmed


def run_once(tool: Tool, arguments: JSON, run: Run) -> tuple[Status, JSON]:
    """Run the tool and say what is known. KeyboardInterrupt and SystemExit pass through."""
    try:
        return Status.SUCCEEDED, named(Status.SUCCEEDED, run.execution_id, tool.run(arguments, run))
    except ToolError as error:
        status, said = Status.FAILED, {"message": words(error), **error.result}
    except Unconfirmed as error:
        status, said = Status.UNKNOWN, {"message": words(error), **error.result}
    except Exception as error:  # noqa: BLE001 (nobody confirmed anything: the humble answer)
        status, said = Status.UNKNOWN, {"message": f"{type(error).__name__}: {words(error)}"}
    return status, named(status, run.execution_id, said)


def read_once(tool: Tool, arguments: JSON, run: Run) -> JSON:
    """Run a read-only tool. It changes nothing, so whatever stops it is a certain failure."""
    try:
        return {"status": "completed", **plain(tool.run(arguments, run))}
    except ToolError as error:
        return {"status": str(Status.FAILED), "message": words(error), **plain(error.result)}
    except Exception as error:  # noqa: BLE001 (a read that fails has changed nothing)
        return {"status": str(Status.FAILED), "message": f"{type(error).__name__}: {words(error)}"}


def look_up_once(tool: Tool, arguments: JSON, key: str) -> Answer:
    """Ask the authority. No answer is an answer too: inconclusive."""
    if tool.lookup is None:
        return Answer(Finding.INCONCLUSIVE, "this tool has no look-up")
    try:
        answer = tool.lookup(arguments, key)
        finding, evidence = Finding(answer.finding), writable(str(answer.evidence))
        return replace(answer, finding=finding, evidence=evidence)
    except Exception as error:  # noqa: BLE001 (no answer, whatever the reason)
        return Answer(Finding.INCONCLUSIVE, f"{type(error).__name__}: {words(error)}")


def seen_now(tool: Tool | None, arguments: JSON, execution_id: str) -> JSON:
    """What a tool can show of the world at this moment; often all the evidence there is."""
    try:
        seen = tool.check(arguments) if tool and tool.version else {}
        return plain({**seen, **(tool.watch(execution_id) if tool and tool.watch else {})})
    except Exception as error:  # noqa: BLE001 (whatever it is, the question remains)
        return {"now": words(error)}


def not_over(tool: Tool | None, execution_id: str) -> JSON:
    """The processes of an attempt that may still run; empty if none are seen."""
    seen = seen_now(replace(tool, version=None, wanted=None), {}, execution_id) if tool else {}
    return {"may_still_run": seen["may_still_run"]} if seen.get("may_still_run") else {}


def bases(
    tool: Tool, arguments: JSON, recorded: Execution, *, retry: bool
) -> frozenset[str | None]:
    """The versions of the target that this attempt may replace; empty if none was recorded."""
    if tool.wanted is None or "base_sha256" not in recorded.details:
        return frozenset()
    base = recorded.details["base_sha256"]
    return frozenset({base, tool.wanted(arguments)} if retry else {base})


def obstacle(tool: Tool, arguments: JSON, origin: Execution, now: float) -> JSON:
    """Why the attempt ``origin`` must not simply be repeated; empty if it may be.

    ``now`` is in seconds since the epoch, like the ``key_issued_at`` it is compared with.
    """
    if tool.effect is Effect.KEYED:
        issued = origin.details.get("key_issued_at")
        if issued is None or not 0 <= now - issued <= (tool.key_retention or 0):
            return {"key": "expired"}
    if tool.version is None or tool.wanted is None:
        return {}
    accepted = bases(tool, arguments, origin, retry=True) or {None, tool.wanted(arguments)}
    try:
        return {} if tool.version(arguments) in accepted else {"target": "moved"}
    except Exception as error:  # noqa: BLE001 (what cannot be looked at may have moved)
        return {"target": "moved", "evidence": words(error)}


def named(status: Status, execution_id: str, result: Any) -> JSON:
    """A tool's result under the name of the attempt that made it."""
    head = {"status": str(status), "execution_id": execution_id}
    return {**head, **plain(result), **head}


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
DEEPEST = 100  # levels of a result; the reader of a file gives up at about 900


def plain(value: Any) -> JSON:
    """``value`` as it will stand on disk; what JSON cannot hold is told, never lost silently."""
    try:
        text = _ENCODER.encode(value)
        found = json.loads(writable(text))
    except (TypeError, ValueError, RecursionError) as error:
        return {"message": f"the tool's result has no JSON form: {error}"}
    if deeper(found, DEEPEST):
        return {"message": f"the tool's result is nested more than {DEEPEST} levels deep"}
    return found if isinstance(found, dict) else {"value": found}


def deeper(value: Any, levels: int) -> bool:
    """Whether a value is nested deeper. Whoever reads it may have less of the stack left."""
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(deeper(part, levels - 1) for part in parts)


def words(error: BaseException) -> str:
    """What an error says, in characters that can be written; its type if it says nothing."""
    try:
        return writable(str(error)) or type(error).__name__
    except Exception:  # noqa: BLE001 (an error that cannot even say what it is)
        return type(error).__name__


def writable(text: str) -> str:
    """``text`` with a replacement for what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
