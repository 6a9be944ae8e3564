"""Conversations of the real library that a list of words directs, and what a history tells."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sums import without
from toolkit import JSON, Text

from lai import (
    Agent,
    Budget,
    CompactionRefused,
    ContextFull,
    Effect,
    History,
    Question,
    Reply,
    Session,
    Tool,
    ToolError,
    decide,
)
from lai.compaction import plan
from lai.journal import history_of

LONG = "账本第七行写着什么？\u2028请逐字念出来 🧾\u0085 "
WINDOW = 1300
CALLS = {  # what the model does when a user says this first; any other word gets words
    "look": ["look"],
    "both": ["look", "act"],
    "act": ["act"],
    "refuse": ["act"],
    "wait": ["act"],
    "lose": ["act"],
    "fail": ["act"],
    "again": ["store"],
}
# They end in a compaction that looks back to an attempt of unknown outcome, or need not.
DOUBTFUL = ["talk", "lose", "look", "talk", "look", "compact"]
PLAIN = ["talk", "act", "look", "talk", "look", "compact"]
WORDS = [*CALLS, "talk", "long", "verdict", "denial", "compact"]


def model(messages: list[JSON], _tools: list[JSON]) -> Reply:
    """Answer by the last user message alone; what the provider counts is not what we think."""
    if len(messages) == 2 and "summarise" in messages[0]["content"][:20]:
        return Reply({"role": "assistant", "content": "总结 📒"}, "stop", None)
    last = messages[-1]
    word = last["content"].split("\n")[-1].split()[0] if last["role"] == "user" else ""
    calls = [called(name, f"{word} {LONG}") for name in CALLS.get(word, ())]
    if calls:
        message = {"role": "assistant", "content": "", "tool_calls": calls}
        return Reply(message, "tool_calls", None)
    usage = {"prompt_tokens": len(json.dumps(messages)) // 3, "completion_tokens": 7}
    return Reply({"role": "assistant", "content": "好 🙂"}, "stop", usage)


def called(name: str, text: str) -> JSON:
    """A call to which the provider gave no id."""
    function = {"name": name, "arguments": json.dumps({"text": text}, ensure_ascii=False)}
    return {"id": "", "type": "function", "function": function}


class Talk:
    """A session and what its tools did. ``full``: it is read from its first line at each step."""

    def __init__(
        self, path: Path, *, full: bool = False, first_id: int = 0, window: int = WINDOW
    ) -> None:
        self.path, self.full, self.window = path, full, window
        self.deeds: list[str] = []
        self.waited = False
        self.ids = itertools.count(first_id)
        act = {"name": "act", "description": "", "arguments": Text, "run": self.act}
        look = {**act, "name": "look", "run": lambda *_: {"seen": LONG * 8}}
        store = Tool(**{**act, "name": "store"}, effect=Effect.IDEMPOTENT)
        self.tools = [Tool(**act), Tool(**look, effect=Effect.READ_ONLY), store]

    def act(self, arguments: JSON, _run: Any) -> JSON:
        """Do it; how that ends is in the text."""
        word = arguments["text"].split()[0]
        self.deeds.append(word)
        if word == "fail":
            raise ToolError("不行")
        if word == "lose" or (word == "again" and self.deeds.count("again") % 2):
            raise TimeoutError("没有回音")
        return {"done": word}

    def person(self, question: Question) -> str | None:
        """Refuse, wait once, or agree; of a verdict this person knows nothing."""
        word = str(question.arguments["text"]).split()[0]
        if word == "wait" and not self.waited:
            self.waited = True
            return None
        self.waited = False
        return "" if question.kind == "verdict" else "n" if word == "refuse" else "y"

    @contextmanager
    def agent(self) -> Iterator[Agent]:
        """An agent on the session, opened anew; nobody waits for the disk."""
        with Session.open(self.path, fsync=lambda _: None) as session:
            if self.full:
                session.read_all()
            name = lambda prefix: f"{prefix}_{next(self.ids):032x}"  # noqa: E731
            budget = Budget(self.window)
            yield Agent(session, model, self.tools, self.person, budget, new_id=name)

    def go(self, words: Sequence[str]) -> "Talk":
        """One step for each word, each in a session opened anew."""
        for word in words:
            with self.agent() as agent, suppress(ContextFull, CompactionRefused):
                self.step(agent, word)
        return self

    def step(self, agent: Agent, word: str) -> None:
        """A turn, a verdict or a compaction by hand."""
        doubtful = agent.history.ledger.unresolved()
        if word == "compact":
            agent.compact()
        elif word in ("verdict", "denial"):
            for execution in doubtful[:1]:
                outcome = "happened" if word == "verdict" else "not_happened"
                agent.resolve(execution.id, outcome, "看过了 👀")
        else:
            agent.run(f"{word} {LONG * (12 if word == 'long' else 1)}")


def told(history: History, tools: Sequence[Tool]) -> dict[str, Any]:
    """All that a history says to those who go on with it."""
    ledger, view = history.ledger, history.view
    budgets = [Budget(window) for window in (40, WINDOW, 3000, 90_000)]
    return {
        "view": view.messages(),
        "final": view.final,
        "tokens": view.tokens(9),
        "open": [(c, c.id, c.name, c.text) for c in ledger.open],
        "unresolved": ledger.unresolved(),
        "in doubt": ledger.in_doubt(),
        "news": list(ledger.news),
        "tried": history.compaction_tried,
        "last line": history.opened_at,
        "next": [decide(history, tools, budget) for budget in (None, *budgets)],
        "plans": [plan(history, budget) for budget in budgets],
    }


def whole(path: Path) -> History:
    """The history that a full reading gives."""
    read = Session.read(path)
    return History.of(read.records, read.lines, read.lost_lines)


def same_either_way(path: Path, tools: Sequence[Tool]) -> bool:
    """Assert that opening gives what a full reading gives; whether a part was left unread."""
    with Session.open(path, fsync=lambda _: None) as session:
        history = history_of(session)
        fast, partial = told(history, tools), session.recent.start > 1
    assert fast == told(whole(path), tools)
    assert history.partial is partial
    return partial


def prefixes(data: bytes) -> Iterator[bytes]:
    """What a session file held after each line from its first compaction on."""
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    first = data.find(b'"compaction"')
    return (data[:end] for end in ends if end > first >= 0)


def last_compaction(data: bytes) -> tuple[int, JSON]:
    """Where its line begins, and the record."""
    start = data.rindex(b"\n", 0, data.rindex(b'"type":"compaction"')) + 1
    return start, without(json.loads(data[start:].split(b"\n")[0]))


def command_line(*arguments: str | Path) -> tuple[int, str]:
    """A command in a process of its own: its exit code, and what it printed."""
    command = [sys.executable, "-m", "lai", *map(str, arguments)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr
