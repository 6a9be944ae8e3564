"""The agent before it was made reliable: act, then write down what came of it.

It reads well and works on every day on which nothing dies. Between the effect and the
record there is a gap, and what happens in the gap leaves no trace: a process that comes
back cannot tell "done, but not noted" from "never begun". Compare ``act`` with
``executor.Executor``: the difference is the ledger.

Only the notebooks use this module.
"""

from collections.abc import Callable, Sequence

from lai.calls import Call, Pairing, parse_arguments
from lai.context import build_prompt_view
from lai.models import Model
from lai.outcome import run_once
from lai.receipts import declined
from lai.records import JSON, message_record, result_message
from lai.session import Session
from lai.tools import Effect, Run, Tool, find
from lai.wire import text_of


def act(session: Session, call: Call, tool: Tool) -> None:
    """Run the tool, then record its result for the model."""
    arguments = parse_arguments(call.text)
    run = Run(execution_id=call.id, key="")
    _, result = run_once(tool, arguments, run)
    _publish(session, call, result)


def turn(
    session: Session,
    model: Model,
    tools: Sequence[Tool],
    text: str,
    ask: Callable[[str], str | None],
) -> str:
    """One turn, from the user's text to the final answer."""
    session.append(message_record({"role": "user", "content": text}))
    while True:
        reply = model(build_prompt_view(session.records), [tool.schema() for tool in tools])
        line = session.append(message_record(reply.message))
        calls = Pairing().calls(session.records[-1], line)
        if not calls:
            return text_of(reply.message)
        for call in calls:
            tool = find(tools, call.name)
            if tool is not None and (tool.effect is Effect.READ_ONLY or ask(call.name) == "y"):
                act(session, call, tool)
            else:
                _publish(session, call, declined("The user refused this call. It did not run."))


def _publish(session: Session, call: Call, result: JSON) -> None:
    session.append(message_record(result_message(call.id, result)))
