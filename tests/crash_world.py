"""Small worlds to crash in: tools whose effects are counted outside, people, and the driver.

A life is one process: it opens the session, comes back to the turn, and ends well or at a
fault. A world outlives its lives, as disks and services do.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from story import Deed, Said, Story

from lai import (
    Agent,
    Answer,
    Arguments,
    Budget,
    Effect,
    Finding,
    Question,
    Run,
    SessionFailed,
    Tool,
    ToolError,
    scripted,
    workspace_tools,
)
from lai.faults import Crash, Fault, FaultySession

JSON = dict[str, Any]
ASKED = "请把 “书\u2028\u0085🖋” 送出去"
LATER = "接着做 🙂"
FINAL = "做完了。\u2028"
MANY = 300  # records; no story here comes near it


class Text(Arguments):
    """What the small tools take."""

    text: str


class QuickSession(FaultySession):
    """Without fsync: a process that dies loses nothing that it wrote, only a machine does.

    An append that is torn leaves ``torn(length)`` bytes.
    """

    torn: Callable[[int], int] = staticmethod(lambda length: length // 2)

    def __init__(self, path: Path, fsync: Callable[[int], None] = lambda _: None) -> None:
        super().__init__(path, fsync)

    def _write(self, mend: bytes, line: bytes) -> int:
        assert len(self.records) < MANY, "it writes for ever"
        return super()._write(mend, line)

    def _write_half(self, data: bytes) -> None:
        assert self._fd is not None
        os.write(self._fd, data[: self.torn(len(data))])

    @classmethod
    def tearing(cls, torn: Callable[[int], int]) -> type["QuickSession"]:
        """The same with another place to tear."""
        return type("TearingSession", (cls,), {"torn": staticmethod(torn)})


@dataclass(frozen=True)
class Scenario:
    """What happens in a world: the tools, what the model says, and how the story began."""

    name: str
    tools: tuple[str, ...]
    replies: tuple[Any, ...]
    refused: frozenset[str] = frozenset()
    start: bytes = b""
    before: tuple[Said, ...] = ()
    asked: str = ASKED
    window: int | None = None


class State(NamedTuple):
    """Everything of a world that a crash leaves behind."""

    data: bytes
    files: Mapping[str, bytes]
    lists: tuple[tuple[Any, ...], ...]


@dataclass
class World:
    """A session file, a workspace, a service that counts, and a person."""

    folder: Path
    scenario: Scenario
    policy: str = "declines"
    deeds: list[Deed] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    sent: list[tuple[int, list[JSON]]] = field(default_factory=list)
    earlier: list[bytes] = field(default_factory=list)
    final: object = None

    def __post_init__(self) -> None:
        self.path = self.folder / "state" / "session-world.jsonl"
        self.root = self.folder / "work"
        self.lists = (self.deeds, self.said, self.sent, self.earlier)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(exist_ok=True)
        self.said.extend(self.scenario.before)
        if self.scenario.start and not self.path.exists():
            self.path.write_bytes(self.scenario.start)

    @property
    def data(self) -> bytes:
        """The session file as it is now."""
        return self.path.read_bytes() if self.path.exists() else b""

    def save(self) -> State:
        """Remember everything."""
        files = {p.name: p.read_bytes() for p in self.root.iterdir() if p.is_file()}
        return State(self.data, files, tuple(map(tuple, self.lists)))

    def restore(self, state: State) -> None:
        """Go back to what was remembered. What commands printed stays: nobody reads it."""
        self.path.write_bytes(state.data)
        for left in self.root.iterdir():
            if left.is_file():
                left.unlink()
        for name, data in state.files.items():
            (self.root / name).write_bytes(data)
        for kept, saved in zip(self.lists, state.lists, strict=True):
            kept[:] = saved  # type: ignore[index]

    def story(self) -> Story:
        """The evidence so far."""
        promises = {tool.name: str(tool.effect) for tool in self.tools()}
        return Story(
            self.data,
            promises,
            earlier=tuple(self.earlier),
            deeds=tuple(self.deeds),
            said=tuple(self.said),
            sent=tuple(self.sent),
            final=self.final,
        )

    def tools(self) -> list[Tool]:
        """The scenario's tools."""
        return [TOOLS[name](self) for name in self.scenario.tools]

    def did(self, tool: str, about: str, run: Run) -> JSON:
        """An effect happens: the world takes note."""
        self.deeds.append(Deed(tool, about, run.execution_id, run.key, len(self.data)))
        return {"done": about}

    def model(self, messages: list[JSON], schemas: list[JSON]) -> Any:
        """The script, and FINAL for every request after it."""
        self.sent.append((len(self.data), list(messages)))
        return scripted((*self.scenario.replies, *[FINAL] * 9))(messages, schemas)

    def ask(self, question: Question) -> str | None:
        """The person. Verdicts are declined, given by the outside count, or plainly wrong."""
        happened = any(deed.execution_id == question.execution_id for deed in self.deeds)
        if question.kind == "approval":
            answer = "n" if question.tool_name in self.scenario.refused else "y"
        elif self.policy == "declines":
            answer = "y"  # which is no verdict
        elif self.policy == "truthful" and happened:
            answer = "happened: 数过了 📒"
        else:
            answer = "not happened: 没看到"
        about = question.tool_name, question.call_id, question.execution_id
        self.said.append(Said(str(question.kind), *about, answer))
        return answer


def small(
    name: str, effect: Effect, act: Callable[[World, str, JSON, Run], JSON], **promise: Any
) -> Callable[[World], Tool]:
    """A tool that takes a text and acts on the world."""

    def make(world: World) -> Tool:
        lookup = promise.get("lookup")
        return Tool(
            name=name,
            description=name,
            arguments=Text,
            run=lambda arguments, run: act(world, name, arguments, run),
            effect=effect,
            **promise | ({"lookup": lambda _, key: lookup(world, key)} if lookup else {}),
        )

    return make


def _find(world: World, key: str) -> Answer:
    found = [deed for deed in world.deeds if deed.key == key]
    if not found:
        return Answer(Finding.ABSENT, "没有这个编号")
    return Answer(Finding.FOUND, f"job of {key}", {"done": found[0].about})


def _pay(world: World, name: str, arguments: JSON, run: Run) -> JSON:
    if not any(deed.key == run.key for deed in world.deeds):  # the service deduplicates
        world.did(name, arguments["text"], run)
    return {"done": arguments["text"]}


def _pay_and_stop(world: World, name: str, arguments: JSON, run: Run) -> JSON:
    _pay(world, name, arguments, run)
    raise KeyboardInterrupt


def _do(world: World, name: str, arguments: JSON, run: Run) -> JSON:
    return world.did(name, arguments["text"], run)


def _do_and(error: BaseException) -> Callable[[World, str, JSON, Run], JSON]:
    def act(world: World, name: str, arguments: JSON, run: Run) -> JSON:
        world.did(name, arguments["text"], run)
        raise error

    return act


def _from_workspace(name: str) -> Callable[[World], Tool]:
    def make(world: World) -> Tool:
        tools = workspace_tools(world.root, sandbox="none")
        tool = next(tool for tool in tools if tool.name == name)

        def run(arguments: JSON, attempt: Run) -> JSON:
            result = tool.run(arguments, attempt)
            world.did(name, json.dumps(arguments), attempt)
            return result

        return tool if tool.effect is Effect.READ_ONLY else replace(tool, run=run)

    return make


KEPT: dict[str, Any] = {"key_scope": "test", "key_retention": 3600.0}
TOOLS: dict[str, Callable[[World], Tool]] = {
    "send": small("send", Effect.OPAQUE, _do),
    "late": small("late", Effect.OPAQUE, _do_and(TimeoutError("没有回音"))),
    "broken": small("broken", Effect.OPAQUE, _do_and(ToolError("半途而废", done="half"))),
    "stopped": small("stopped", Effect.OPAQUE, _do_and(KeyboardInterrupt())),
    "submit": small("submit", Effect.QUERYABLE, _do, lookup=_find, absent_is_final=True),
    "ask_me": small("ask_me", Effect.QUERYABLE, _do, lookup=_find),
    "pay": small("pay", Effect.KEYED, _pay, **KEPT),
    "halted": small("halted", Effect.KEYED, _pay_and_stop, **KEPT),
    **{name: _from_workspace(name) for name in ("read_file", "write_file", "run_bash")},
}


def live(
    world: World, way: str, fault: Fault | None = None, kind: type[QuickSession] = QuickSession
) -> list[str]:
    """One process, which may die at a fault; returns the points it reached."""
    fault, world.final = fault or Fault(), None
    try:
        with kind.under(world.path, fault) as session:
            agent = Agent(
                session,
                fault.model(world.model),
                fault.tools(world.tools()),
                fault.around("question", world.ask),
                world.scenario.window and Budget(world.scenario.window),
            )
            world.final = come_back(world, agent, way)
    except (Crash, SessionFailed):
        pass
    world.earlier.append(world.data)
    return fault.points


def come_back(world: World, agent: Agent, way: str) -> object:
    """The three ways to go on; a request that never reached the file is made again."""
    try:
        if not any(record["type"] == "message" for record in agent.journal.session.records):
            return agent.run(world.scenario.asked)
        if way == "run":
            return agent.run(LATER)
        if way == "recover":
            agent.recover()
        return agent.continue_turn()
    except KeyboardInterrupt:  # a person pressed Stop, and then comes back
        return agent.continue_turn()
