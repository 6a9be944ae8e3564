"""What the model is told about a call: one receipt for each fate.

The words differ because the facts differ. "Not started", "may have happened" and
"refused" lead a model to three different next steps; one sentence for all of them is
how an action is done twice.

A receipt is a pure function of what the ledger says, so a crash between the outcome and
its publication costs nothing: the same receipt is made again.
"""

from collections.abc import Iterable

from lai.calls import Call
from lai.executions import Execution
from lai.records import JSON, Status

DO_NOT_REPEAT = (
    "Nobody can confirm whether this happened. It may have. Do not repeat it before "
    "checking; tell the user what to check."
)


def receipt(execution: Execution, doubt: str = "") -> JSON:
    """The receipt of an attempt that ended, however it ended.

    ``doubt`` says why the call may have acted all the same, before this attempt.
    """
    head = {"status": str(execution.status), "execution_id": execution.id}
    whole = {**head, **(execution.result or {}), **head}  # what the ledger says goes before
    match execution.status:
        case Status.REJECTED:
            said = {"message": "The user refused this call. It did not run."}
            if doubt:
                said = {"message": "The user refused this call now.", **_in_doubt(doubt)}
            return {**head, **said}
        case Status.UNKNOWN:
            return {**whole, "advice": DO_NOT_REPEAT}
        case Status.FAILED if doubt:
            return {**whole, **_in_doubt(doubt)}
        case _:
            return whole


def unplaced(doubt: str) -> JSON:
    """No attempt is on record, and yet one may have been made."""
    return {"status": str(Status.UNKNOWN), **_in_doubt(doubt)}


def _in_doubt(doubt: str) -> JSON:
    return {"advice": f"{doubt[:1].upper()}{doubt[1:]}. {DO_NOT_REPEAT}"}


def refused(message: str) -> JSON:
    """Nothing ran, nobody was asked: the call itself cannot be carried out."""
    return {"status": str(Status.FAILED), "message": f"{message.rstrip('.')}. Nothing ran."}


def declined(message: str) -> JSON:
    """Nothing ran because a person closed the turn before anything was approved."""
    return {"status": str(Status.REJECTED), "message": message}


def conflicting(call: Call, problem: str, attempts: Iterable[Execution]) -> JSON:
    """The ledger contradicts the call: nothing is run and no earlier result is reused."""
    acted = [execution.id for execution in attempts if execution.started]
    message = f"The record of this call and the call differ: {problem}. Nothing was run now."
    if acted:
        message += f" An earlier attempt may have acted: {', '.join(acted)}."
    return {"status": "conflict", "tool": call.name, "message": message}


def interrupted(execution_id: str, cause: str) -> JSON:
    """The result recorded for an attempt whose outcome nobody saw."""
    words = {
        "crash": "The process died while this was running.",
        "lost_line": "A line of the session that could not be read may have started this.",
        "interrupt": "It was stopped while it was running.",
    }
    head = {"status": str(Status.UNKNOWN), "execution_id": execution_id}
    return {**head, "message": words[cause]}


def verdict_note(execution: Execution) -> str:
    """A verdict that came after its call was answered, as the model will read it."""
    happened = execution.status is Status.SUCCEEDED
    return (
        f"[Verdict on {execution.tool_name or 'a tool call'}, call {execution.call_id}, attempt "
        f"{execution.id}: it {'happened' if happened else 'did not happen'}. "
        f"Evidence: {execution.details.get('evidence', '')}]"
    )
