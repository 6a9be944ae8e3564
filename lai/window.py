"""The context window in words: what the model sees, where the tokens go, what a summary saved.

It says and changes nothing but by ``Agent.compact``. The chat prints these texts.
"""

from dataclasses import asdict

from lai.actions import Compact
from lai.agent import Agent
from lai.approval import visible
from lai.records import Message
from lai.report import fit
from lai.spending import spending
from lai.summary import CompactionRefused
from lai.voice import width
from lai.wire import text_of


def listed(agent: Agent) -> str:
    """Every message of the prompt view on a line, and the tokens part by part."""
    messages = agent.history.view.messages()
    lines = [
        fit(visible(f"{m['role']:<10}{' '.join(_words(m).split())}"), width()) for m in messages
    ]
    lines.append(f"{len(messages)} messages; the ledger is not among them")
    if agent.budget:
        parts = asdict(spending(agent.history.view, agent.budget))
        lines.append("tokens: " + " · ".join(f"{name} {size:,}" for name, size in parts.items()))
    return "\n".join(lines)


def compacted(agent: Agent) -> str:
    """Make a summary now, and say what became of it."""
    before = _tokens(agent)
    try:
        made = agent.compact()
    except CompactionRefused as refusal:
        return f"[context] {refusal}; nothing was changed"
    return _saved(agent, before) if made else "[context] there is nothing to summarise yet"


def outcome(agent: Agent, action: Compact) -> str:
    """What became of a compaction that the loop has tried."""
    if agent.history.view.entries[0].line == action.first_kept:
        return _saved(agent, action.tokens)
    return f"[context] {agent.history.refusals[-1]}; the conversation goes on without a summary"


def _saved(agent: Agent, before: int) -> str:
    return (
        f"[context] a summary was made: about {before:,} tokens before, {_tokens(agent):,} now; "
        "every message stays in the file"
    )


def _tokens(agent: Agent) -> int:
    return agent.history.view.tokens(agent.budget.fixed) if agent.budget else 0


def _words(message: Message) -> str:
    calls = [call["function"].get("name") for call in message.get("tool_calls") or []]
    return " ".join(filter(None, [text_of(message), *(f"asks for {name}" for name in calls)]))
