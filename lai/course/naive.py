"""The agent before it was made reliable: act, then write down what came of it.

It reads well and works on every day on which nothing dies. Between the effect and the
record there is a gap, and what happens in the gap leaves no trace: a process that comes
back cannot tell "done, but not noted" from "never begun". Compare ``act`` with
``executor.Executor``: the difference is the ledger.

``new_id`` names each run. It may not look at the session alone: a run that died left no
record, so its name would be given again.

Only the notebooks use this module.
"""

from collections.abc import Callable, Iterator, Sequence

from lai.actions import Action, Attempt, CallModel
from lai.calls import Call, Pairing, parse_arguments
from lai.context import build_prompt_view
from lai.history import History
from lai.journal import fresh_id
from lai.models import Model
from lai.outcome import run_once
from lai.receipts import declined
from lai.records import JSON, message_record, result_message
from lai.session import Session
from lai.tools import Effect, Run, Tool, find
from lai.wire import text_of

NewId = Callable[[str], str]


def act(session: Session, call: Call, tool: Tool, new_id: NewId = fresh_id) -> None:
    """Run the tool, then record its result for the model."""
    arguments = parse_arguments(call.text)
    run = Run(execution_id=new_id("run"), key="")
    _, result = run_once(tool, arguments, run)
    _publish(session, call, result)


def turn(
    session: Session,
    model: Model,
    tools: Sequence[Tool],
    text: str,
    ask: Callable[[str], str | None],
    *,
    new_id: NewId = fresh_id,
) -> str:
    """One turn, from the user's text to the final answer."""
    session.append(message_record({"role": "user", "content": text}))
    while True:
        line = _call_model(session, model, tools)
        calls = Pairing().calls(session.records[-1], line)
        if not calls:
            return text_of(session.records[-1]["message"])
        for call in calls:
            tool = find(tools, call.name)
            if tool is not None and (tool.effect is Effect.READ_ONLY or ask(call.name) == "y"):
                act(session, call, tool, new_id)
            else:
                _publish(session, call, declined("The user refused this call. It did not run."))


def carry_on(
    session: Session, model: Model, tool: Tool, new_id: NewId = fresh_id
) -> Iterator[Action]:
    """The naive way back: an order without a receipt is carried out, then the turn goes on.

    Yields each action once it is done. Nobody is asked.
    """
    while True:
        for call in History.of(session.records).ledger.open:
            act(session, call, tool, new_id)
            yield Attempt(call)
        if build_prompt_view(session.records)[-1]["role"] == "assistant":
            return
        _call_model(session, model, [tool])
        yield CallModel()


def _call_model(session: Session, model: Model, tools: Sequence[Tool]) -> int:
    """Ask the model and record what it said; the line of that."""
    reply = model(build_prompt_view(session.records), [tool.schema() for tool in tools])
    return session.append(message_record(reply.message))


def _publish(session: Session, call: Call, result: JSON) -> None:
    session.append(message_record(result_message(call.id, result)))
