"""A world of puppets: its person, its model and its tools do what they were told last."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from crash_world import TOOLS, Scenario, World, small
from story import Said

from lai import (
    Answer,
    Effect,
    Finding,
    ModelError,
    Question,
    Reply,
    Run,
    Tool,
    ToolError,
    Unconfirmed,
)

ERRORS: dict[str, BaseException] = {
    "fails": ToolError("没有开始"),
    "fails half-way": ToolError("半途而废", done="half"),
    "cannot tell": Unconfirmed("说不清"),
    "breaks": ValueError("\ud800"),
    "times out": TimeoutError(),
    "is stopped": KeyboardInterrupt(),
}
UNSEEN = ("cannot tell", "breaks", "times out", "is stopped")


class Stage(World):
    """A world whose person, model and tools do what they were told last."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Scenario("stage", tuple(PUPPETS), ()))
        self.replies: deque[Reply] = deque()
        self.words: deque[str] = deque()
        self.fates: deque[str] = deque()
        self.silent = False
        self.time = 0.0
        self.target: str | None = None  # what a.txt holds, as the world knows it
        self.shown: dict[str, set[str | None]] = {}  # versions a person agreed to replace, by call
        self.lost: list[str | None] = []  # what was replaced and nobody had agreed to
        self.unseen: set[str] = set()  # attempts of which nobody saw how they ended

    def tools(self) -> list[Tool]:
        """Every tool there is."""
        return [make(self) for make in PUPPETS.values()]

    def model(self, messages: list[Any], schemas: list[Any]) -> Reply:
        """The next reply, or a provider that cannot be reached."""
        del schemas
        self.sent.append((len(self.data), list(messages)))
        if not self.replies:
            raise ModelError("没有网络")
        return self.replies.popleft()

    def ask(self, question: Question) -> str | None:
        """What the next word means for this question; without a word, not now."""
        word = self.words.popleft() if self.words else "waits"
        if word == "agrees too late":  # to what is there no more
            word = "agrees"
            self.edit(f"{self.target}!"[-9:])
        answers: dict[str, str | None] = {
            "waits": None,
            "refuses": "n",
            "agrees": "y",
            "denies": "y",
        }
        if question.kind == "verdict":
            seen = self.happened(question.execution_id)
            denial = "not happened: 没看到 📒"
            answers |= {"agrees": "happened: 数过" if seen else denial, "denies": denial}
        if answers[word] == "y" and question.kind == "approval":
            self.shown.setdefault(question.call_id, set()).add(question.base_sha256)
        about = question.tool_name, question.call_id, question.execution_id
        self.said.append(Said(str(question.kind), *about, answers[word]))
        return answers[word]

    def did(self, tool: str, about: str, run: Run) -> dict[str, Any]:
        """An effect happens; a write is compared with what was there and what was shown."""
        if tool == "write_file":
            before, self.target = self.target, json.loads(about)["content"]
            base = None if before is None else sha256(before.encode()).hexdigest()
            agreed = self.shown.get(run.key.removeprefix("world:write_file:"), set())
            if base not in agreed and before != self.target:
                self.lost.append(before)
        return super().did(tool, about, run)

    def edit(self, text: str) -> None:
        """Somebody else writes the target."""
        self.target = text
        (self.root / "a.txt").write_text(text, "utf-8")

    def check(self) -> None:
        """What only the puppets know: no version is lost, and what nobody saw is unknown."""
        assert not self.lost, "a version was replaced that nobody had agreed to replace"
        story = self.story()
        for execution_id in self.unseen:
            told = [record["status"] for _, record in story.ledger(execution_id=execution_id)]
            assert told[:3] in (["approved", "running"], ["approved", "running", "unknown"]), told

    def happened(self, execution_id: str | None) -> bool:
        """What the world knows of an attempt."""
        return any(deed.execution_id == execution_id for deed in self.deeds)

    def direct(
        self,
        replies: Sequence[Reply] = (),
        words: Sequence[str] = (),
        fates: Sequence[str] = (),
    ) -> None:
        """Tell the puppets what to do next."""
        self.replies, self.words, self.fates = deque(replies), deque(words), deque(fates)


def act(world: World, name: str, arguments: Any, run: Run) -> Any:
    """What the small tools do: as the next fate says."""
    assert isinstance(world, Stage)
    fate = world.fates.popleft() if world.fates else "ok"
    known = name == "pay" and any(deed.key == run.key for deed in world.deeds)
    if fate not in ("fails", "times out") and not known:
        world.did(name, arguments["text"], run)
    if fate in UNSEEN:
        world.unseen.add(run.execution_id)
    if fate in ERRORS:
        raise ERRORS[fate]
    return {"done": arguments["text"]}


def find(world: World, key: str) -> Answer:
    """The authority, which knows or is silent."""
    assert isinstance(world, Stage)
    if world.silent:
        raise ConnectionError
    found = any(deed.key == key for deed in world.deeds)
    return Answer(Finding.FOUND if found else Finding.ABSENT, key, {"key": key})


PUPPETS: dict[str, Callable[[World], Tool]] = {
    "send": small("send", Effect.OPAQUE, act),
    "submit": small("submit", Effect.QUERYABLE, act, lookup=find, absent_is_final=True),
    "pay": small("pay", Effect.KEYED, act, key_scope="test", key_retention=3600.0),
    "write_file": TOOLS["write_file"],
    "read_file": TOOLS["read_file"],
}
