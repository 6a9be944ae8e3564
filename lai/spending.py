"""Where the tokens of the next request go, for people to see.

The parts are estimates, scaled so that together they are what the provider counted, where
it counted. It decides nothing.
"""

from dataclasses import dataclass

from lai.budget import Budget
from lai.context import View
from lai.records import Message


@dataclass(frozen=True, slots=True)
class Spending:
    """Tokens of the next request, part by part, and what is ``left`` of the window.

    ``messages`` are what user and assistant said and asked for, ``results`` what tools
    answered. ``left`` is below 0 where the request does not fit.
    """

    system: int
    tools: int
    summary: int
    messages: int
    results: int
    left: int


def spending(view: View, budget: Budget) -> Spending:
    """The breakdown of the next request."""
    said = told = 0
    for _, tokens in view.newest_first():
        said, told = said + tokens[0], told + sum(tokens[1:])
    parts = [budget.system, budget.tools, view.head_tokens, said, told]
    scale = view.tokens(budget.fixed) / (sum(parts) or 1)
    shares = [round(part * scale) for part in parts]
    system, tools, summary, messages, results = shares
    return Spending(system, tools, summary, messages, results, budget.window - sum(shares))


def largest(view: View, budget: Budget) -> str:
    """What takes most of the next request, in words by which a person finds it.

    It is a message or the summary, unless what every request carries leaves no room for any.
    """
    fixed = [(budget.system, "the system message"), (budget.tools, "the set of tool schemas")]
    found = [(view.head_tokens, "the summary with what is pinned beside it")]
    for entry, tokens in view.newest_first():
        calls = {call.id: call.name for call in entry.calls}
        place = f"line {entry.line}" if entry.line > 0 else "an older compaction"
        found += [
            (size, f"{_name(message, calls)} at {place}")
            for message, size in zip(entry.messages(), tokens, strict=True)
        ]
    size, name = max(fixed if budget.fixed > budget.limit else found)
    return f"{name} takes about {round(size * view.scale):,}"


def _name(message: Message, calls: dict[str, str]) -> str:
    if message["role"] == "tool":
        return f"the result of {calls.get(message['tool_call_id'], 'a tool')} for the call"
    return f"the {message['role']} message"
