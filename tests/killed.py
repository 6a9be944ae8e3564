"""Real processes to kill: a warm helper forks one child per life; what it did is in files.

As a script this is the helper. It has imported the library, runs no thread, and for each
line on its input forks a child that lives one life and dies as told. As a module it is the
other end: :class:`Lives` starts the helper and judges by what the children left behind.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from crash_scenarios import SCENARIOS
from crash_world import Scenario, World, come_back
from story import Deed, Said

from lai import Agent, Question, Run
from lai.faults import Fault, FaultySession, kill
from lai.models import offline_model

PUBLISHED = "请把 recovery-demo.txt 的完整内容设置为 recovered"


def _command(name: str, command: str) -> Scenario:
    return Scenario(name, ("run_bash",), ([("run_bash", {"command": command})],))


# Never for a life in the process of the tests: these commands kill whoever runs them.
DEADLY = (
    _command("acts, then kills", "echo 书 >> audit.log; kill -9 $PPID"),
    _command("kills, then acts", "kill -9 $PPID; sleep 0.05; echo 书 >> audit.log"),
    _command("leaves a child", "sleep 60 & echo $! > child; echo 书 >> audit.log; kill -9 $PPID"),
)


def _replace_and_die(*names: Any, **folders: Any) -> NoReturn:
    RENAME(*names, **folders)
    kill()


RENAME = os.replace
# Points inside write_file: its new bytes are on disk under another name, or in their place.
REPLACE: dict[str, Any] = {
    "before os.replace": lambda *_, **__: kill(),
    "after os.replace": _replace_and_die,
}
FREE = Scenario("published", ("write_file", "read_file"), (), asked=PUBLISHED)
EVERY = {**SCENARIOS, **{scenario.name: scenario for scenario in (*DEADLY, FREE)}}


class Outside(World):
    """A world in files: what is noted survives the process that noted it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.notes = self.folder / "outside.jsonl"
        for line in self.notes.read_bytes().splitlines() if self.notes.exists() else ():
            note = json.loads(line)
            self.deeds += [Deed(*one) for one in note.get("deeds", ())]
            self.said += [Said(*one) for one in note.get("said", ())]
            self.sent += [(size, messages) for size, messages in note.get("sent", ())]
            self.earlier += [data.encode("latin-1") for data in note.get("earlier", ())]

    def note(self, **noted: Any) -> None:
        """Write it down; a pipe or a file of another program would do as well."""
        with self.notes.open("ab") as file:
            file.write(json.dumps(noted).encode() + b"\n")

    def did(self, tool: str, about: str, run: Run) -> dict[str, Any]:
        """An effect happened."""
        result = super().did(tool, about, run)
        self.note(deeds=self.deeds[-1:])
        return result

    def ask(self, question: Question) -> str | None:
        """The person, who remembers what was asked."""
        answer = super().ask(question)
        self.note(said=self.said[-1:])
        return answer

    def model(self, messages: list[Any], schemas: list[Any]) -> Any:
        """The script, or the offline model where the scenario leaves it to that."""
        if self.scenario.replies:
            reply = super().model(messages, schemas)
        else:
            self.sent.append((len(self.data), list(messages)))
            reply = offline_model()(messages, schemas)
        self.note(sent=self.sent[-1:])
        return reply


def _live(folder: str, name: str, policy: str, way: str, at: int | str | None) -> None:
    if isinstance(at, str):
        os.replace, at = REPLACE[at], None
    world, fault = Outside(Path(folder), EVERY[name], policy), Fault(at, kill)
    with FaultySession.under(world.path, fault) as session:
        tools, ask = fault.tools(world.tools()), fault.around("question", world.ask)
        final = come_back(world, Agent(session, fault.model(world.model), tools, ask), way)
    (world.folder / "end.json").write_text(json.dumps({"points": fault.points, "final": final}))


def _serve() -> NoReturn:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            ended = 1
            try:
                _live(*json.loads(line))
                ended = 0
            except Exception:  # noqa: BLE001  (a child must not go on as a second helper)
                traceback.print_exc()
            finally:
                os._exit(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)
    sys.exit(0)


class Left(NamedTuple):
    """How a process ended (-9: killed), the world after it, and the points of one that was not."""

    code: int
    world: Outside
    points: list[str]


class Lives:
    """The helper process, and the children it forks."""

    def __init__(self) -> None:
        paths = (Path(__file__).parents[1], Path(__file__).parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        self.helper = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(
        self,
        folder: Path,
        name: str,
        at: int | str | None = None,
        *,
        policy: str = "declines",
        way: str = "continue",
    ) -> Left:
        """One process, from its start to its end, and what it left."""
        assert self.helper.stdin is not None
        assert self.helper.stdout is not None
        self.helper.stdin.write(json.dumps([str(folder), name, policy, way, at]) + "\n")
        self.helper.stdin.flush()
        code = int(self.helper.stdout.readline())
        world = Outside(folder, EVERY[name], policy)
        world.note(earlier=[world.data.decode("latin-1")])
        end = folder / "end.json"
        if code:
            return Left(code, world, [])
        told = json.loads(end.read_text("utf-8"))
        world.final = told["final"]
        return Left(code, world, told["points"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.helper.stdin is not None
        self.helper.stdin.close()
        self.helper.wait(10)
        if self.helper.stdout is not None:
            self.helper.stdout.close()


if __name__ == "__main__":
    _serve()
