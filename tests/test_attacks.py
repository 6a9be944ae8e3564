"""Every hostile call of the table gets the right response, through a real agent on a real folder.

What is judged is outside of the library: the disk before and after, who was asked, what stood
on the screen, and the one result that the model got.
"""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacks import ATTACKS, ELSEWHERE, Arguments, Attack, furnish
from screen import misfits, pieces
from toolkit import JSON, log

from lai import Agent, Question, Reply, Session, scripted, session_path, workspace_tools

Calls = tuple[tuple[str, Arguments], ...]
ASKED = [attack for attack in ATTACKS if attack.response != "deny"]
DENIED = [attack for attack in ATTACKS if attack.response == "deny"]


def name_of(attack: Attack) -> str:
    return f"{attack.number}-{attack.response}"


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below with its mode and bytes, or where it leads; the session is left out."""
    found = {}
    for here, folders, files in os.walk(folder):
        for path in (Path(here, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            link = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else b""
            data = path.read_bytes() if stat.S_ISREG(mode) else link
            if not path.name.startswith("session-t.jsonl"):
                found[os.fsdecode(bytes(path.relative_to(folder)))] = (mode, data)
    return found


class Scene:
    """A workspace with neighbours, a model that makes these calls, a person who says one word."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.out = folder, folder / "ws", folder / "outside"
        furnish(self.root, self.out)
        self.path = session_path(self.root, "t")
        (self.path.parent / "artifacts").mkdir(parents=True, mode=0o700)
        self.path.parent.chmod(0o700)
        (self.path.parent / "artifacts/exec_1.log").write_text("旧")
        self.questions: list[Question] = []
        self.before = tree(folder)

    def filled(self, arguments: Arguments) -> Arguments:
        """The arguments with the real folders in them."""
        if isinstance(arguments, str):
            return arguments
        named = {"@ROOT": str(self.root), "@OUT": str(self.out)}
        filled = dict(arguments)
        for mark, real in named.items():
            filled = {name: text.replace(mark, real) for name, text in filled.items()}
        return filled

    def run(self, calls: Calls, answer: str | Callable[[Question], str | None]) -> list[JSON]:
        """One message with all the calls; their results, one each and in order."""

        def ask(question: Question) -> str | None:
            self.questions.append(question)
            return answer if isinstance(answer, str) else answer(question)

        asked = [(name, self.filled(arguments)) for name, arguments in calls]
        made = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": _text(a)}}
            for n, (name, a) in enumerate(asked)
        ]
        message = {"role": "assistant", "content": "", "tool_calls": made}
        model = scripted([Reply(message, "tool_calls", None), "完"])
        with Session.open(self.path, fsync=lambda _: None) as session:
            tools = workspace_tools(self.root, sandbox="none")
            assert Agent(session, model, tools, ask).run("做吧") == "完"
        results = [
            r["message"] for r in log(self.path) if r.get("message", {}).get("role") == "tool"
        ]
        assert [m["tool_call_id"] for m in results] == [f"c{n}" for n in range(len(calls))]
        return [json.loads(m["content"]) for m in results]

    def bash(
        self, *commands: str, answer: str | Callable[[Question], str | None] = "y"
    ) -> list[JSON]:
        """What became of these commands, asked for in one message."""
        return self.run(tuple(("run_bash", {"command": c}) for c in commands), answer)


def _text(arguments: Arguments) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("attack", DENIED, ids=name_of)
def test_a_denied_call_asks_nobody_and_changes_nothing(scene: Scene, attack: Attack) -> None:
    """To a person who agrees to everything no question comes, and the result says why."""
    results = scene.run(attack.calls, "y")
    assert [question.arguments for question in scene.questions] == []
    assert tree(scene.folder) == scene.before
    for call, result in zip(attack.calls, results, strict=True):
        assert result["status"] == "failed", (call, result)
        assert len(result["message"]) > 15, (call, result)
        assert "MARKER" not in str(result), (call, result)


@pytest.mark.parametrize("attack", ASKED, ids=name_of)
def test_a_call_that_is_asked_about_is_shown_whole(scene: Scene, attack: Attack) -> None:
    """Each call gets its own question, whole and in visible characters; a no changes nothing."""
    results = scene.run(attack.calls, "n")
    assert tree(scene.folder) == scene.before
    assert {result["status"] for result in results} == {"rejected"}
    for (_, arguments), question in zip(attack.calls, scene.questions, strict=True):
        shown = str(question)
        assert not misfits(shown), arguments
        assert isinstance(arguments, dict)
        assert set(arguments.values()) <= {text for _, text in pieces(shown)}, arguments
        assert question.sha256[:16] in shown
        assert ("⟦" in shown) is (attack.response == "show"), shown
        assert ("executed_later" in shown) is (attack.response == "later"), shown
    digests = {question.sha256 for question in scene.questions}
    assert len({str(question) for question in scene.questions}) == len(digests)
    assert len(digests) == len({_text(arguments) for _, arguments in attack.calls})


WRITTEN = [a for a in ASKED if any(name == "write_file" for name, _ in a.calls)]


@pytest.mark.parametrize("attack", WRITTEN, ids=name_of)
def test_what_was_shown_is_what_is_written(scene: Scene, attack: Attack) -> None:
    """After a yes exactly the shown bytes stand under exactly the shown name, and nothing else."""
    calls = tuple(call for call in attack.calls if call[0] == "write_file")
    results = scene.run(calls, "y")
    assert {result["status"] for result in results} == {"succeeded"}
    after = tree(scene.folder)
    wanted: dict[str, Any] = {a["path"]: a["content"] for _, a in calls if isinstance(a, dict)}
    for path, content in wanted.items():
        assert after.pop(f"ws/{path}")[1] == content.encode()
        for parent in Path(path).parents:
            after.pop(f"ws/{parent}", None) if f"ws/{parent}" not in scene.before else None
    assert after == {name: there for name, there in scene.before.items() if name in after}
    assert {name for name in scene.before if name not in after} <= {f"ws/{p}" for p in wanted}


def test_every_input_of_the_list_has_its_test() -> None:
    """The numbers 1 to 50 are all there, in at least 500 variants, or have a test that exists."""
    assert sum(len(attack.calls) for attack in ATTACKS) >= 500
    assert {attack.number for attack in ATTACKS} | set(ELSEWHERE) == set(range(1, 51))
    folder = Path(__file__).parent
    tests = "".join(path.read_text("utf-8") for path in folder.glob("test_attacks*.py"))
    for where in ELSEWHERE.values():
        named = where.partition(";")[0]
        assert named.startswith("limit:") or f"def {named}(" in tests or (folder / named).exists()
