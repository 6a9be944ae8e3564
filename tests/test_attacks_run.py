"""Attacks beside the arguments: while a person reads, on the answer, on what is left behind."""

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from screen import pieces
from test_attacks import Scene, tree
from toolkit import agent, log

from lai import Question, workspace_tools

Ask = Callable[[Question], str | None]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# --- while a person reads the question (5, 6, 9, 38)


def to_link(scene: Scene) -> None:
    (scene.root / "new").symlink_to(scene.out)


def to_chain(scene: Scene) -> None:
    (scene.root / "new").symlink_to("hop1")


def to_target(scene: Scene) -> None:
    (scene.root / "new").mkdir()
    (scene.root / "new/x").symlink_to(scene.out / "secret.txt")


def to_fifo(scene: Scene) -> None:
    (scene.root / "new").mkdir()
    os.mkfifo(scene.root / "new/x")


def to_hard_link(scene: Scene) -> None:
    (scene.root / "new").mkdir()
    (scene.root / "new/x").hardlink_to(scene.out / "secret.txt")


def to_state(scene: Scene) -> None:
    (scene.root / "new").symlink_to(".agent_state")


SWAPS = [to_link, to_chain, to_target, to_fifo, to_hard_link, to_state]


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_what_is_put_there_while_a_person_reads_is_not_followed(
    scene: Scene, swap: Callable[[Scene], None]
) -> None:
    """A path that was nothing when it was shown and is a way out after the yes: nothing moves."""
    between = []

    def ask(_: Question) -> str:
        swap(scene)
        between.append(tree(scene.folder))
        return "y"

    [result] = scene.run((("write_file", {"path": "new/x", "content": "坏"}),), ask)
    assert result["status"] == "failed"
    assert tree(scene.folder) == between[0]


def test_another_name_of_a_file_is_counted_and_never_written_through(scene: Scene) -> None:
    """A hard link is shown as one of several names, and after a yes the other keeps its bytes."""
    (scene.root / "hard.txt").hardlink_to(scene.out / "secret.txt")
    [result] = scene.run((("write_file", {"path": "hard.txt", "content": "新"}),), "y")
    assert result["status"] == "succeeded"
    assert ("other_names_of_the_file", "1 more, which keep the old content") in pieces(
        str(scene.questions[0])
    )
    assert (scene.out / "secret.txt").read_text() == "MARKER 秘密"
    assert (scene.root / "hard.txt").read_text() == "新"


def test_arguments_cannot_be_swapped(scene: Scene) -> None:
    """Whoever changes the question's own objects after it was shown changes nothing that runs."""

    def ask(question: Question) -> str:
        for place in (question.arguments, question.shown):
            place.update(path="evil.txt", content="evil", command="touch evil")
        return "y"

    calls = (
        ("write_file", {"path": "good.txt", "content": "好"}),
        ("run_bash", {"command": "touch good2"}),
    )
    scene.run(calls, ask)
    new = {name for name in tree(scene.root) if name not in tree_names(scene.before)}
    assert {n for n in new if not n.startswith(".agent_state")} == {"good.txt", "good2"}


def tree_names(before: dict[str, tuple[int, bytes]]) -> set[str]:
    return {name.removeprefix("ws/") for name in before}


# --- the answer (36, 37, 44, 45)

NOT_YES = ["Y", "Y ", "y ", " y", "YES", "yes\x1b", "y\x1b[C", "ｙ", "ｙｅｓ", "у", "y\u200b", "yy"]
NOT_YES += [
    "",
    " ",
    "\n",
    "y\n",
    "y\r",
    "\x04",
    "yes!",
    "always",
    "a",
    "all",
    "!",
    "1",
    "true",
    "是",
]
NOT_YES += ["happened: x", "y; y", "yes to all", "yes\x00", "ye\u0301s", "𝐲"]


def test_only_two_words_approve(scene: Scene) -> None:
    """Each of these, said to a question of its own, is a no; nothing offers a yes for later."""
    said = iter([*NOT_YES, "y", "yes", "n"])
    commands = [f"echo {n} >> ran" for n in range(len(NOT_YES) + 3)]
    results = scene.bash(*commands, answer=lambda _: next(said))
    assert [r["status"] for r in results] == ["rejected"] * len(NOT_YES) + [
        *("succeeded", "succeeded", "rejected")
    ]
    ran = (scene.root / "ran").read_text().split()
    assert ran == [str(len(NOT_YES)), str(len(NOT_YES) + 1)]
    assert not any("lways" in str(question) for question in scene.questions)


def test_each_request_is_asked_for_alone(scene: Scene) -> None:
    """Fifty harmless requests open no door for the next: it is asked about, whole."""
    calls = [f"echo {n}" for n in range(50)]
    said = iter(["y"] * 50 + ["n"])
    results = scene.bash(*calls, f"{calls[0]}; touch evil", answer=lambda _: next(said))
    assert len(scene.questions) == 51
    assert ("command", "echo 0; touch evil") in pieces(str(scene.questions[-1]))
    assert results[-1]["status"] == "rejected"
    assert not (scene.root / "evil").exists()


def end_of_input(_: Question) -> str:
    raise EOFError


@pytest.mark.parametrize("ask", [None, lambda _: None, end_of_input], ids=["none", "later", "eof"])
def test_nobody_there_means_no(scene: Scene, ask: Ask | None) -> None:
    """Without an answer nothing runs, nothing is recorded, and the question stays open."""
    call = [("run_bash", {"command": "touch evil"})]
    with agent(scene.path, [call], workspace_tools(scene.root, sandbox="none"), ask) as made:
        assert isinstance(made.run("做"), Question)
    assert tree(scene.folder) == scene.before
    assert len(log(scene.path)) == 2


# --- the environment and what is left of a command (31, 34, 35)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[int]]]:
    """The living processes that were started from here; they are ended afterwards."""
    word = uuid.uuid4().hex
    monkeypatch.setenv("LAI_ATTACK_MARK", word)

    def living() -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                marked = word.encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
            if marked and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        return found

    yield living
    for process in living():
        os.kill(process, signal.SIGKILL)


def test_nothing_is_carried_over_and_nothing_lies_in_wait(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable, folder or function of one call is not there in the next, nor a start-up file."""
    (scene.root / "evil.sh").write_text("touch EVIL\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(scene.root / "evil.sh"))
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { touch EVIL; }")
    monkeypatch.setenv("PS4", "$(touch EVIL)")
    monkeypatch.setenv("SHELLOPTS", "xtrace")
    for name in (".bashrc", ".bash_profile", ".profile", ".envrc"):
        (scene.root / name).write_text("touch EVIL\n")
    results = scene.bash(
        "export PAGER=evil X=1; cd real; f() { :; }; umask 0; alias ls=evil",
        "echo ${X-none} $(pwd) $(type -t f) ${BASH_ENV-none}; ls f.txt; set -x; :",
    )
    assert results[1]["output"].split("\n")[0] == f"none {scene.root} none"
    assert not (scene.root / "EVIL").exists()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are counted there")
@pytest.mark.parametrize("command", ["sleep 41 &", "nohup sleep 41 >/dev/null 2>&1 &",
                                     "sleep 41 & disown", "setsid sleep 41 &",
                                     "(sleep 41 & sleep 42 &)"])  # fmt: skip
def test_what_outlives_a_command_is_reported(
    scene: Scene, mark: Callable[[], list[int]], command: str
) -> None:
    """Of a background process the result tells, or it is gone when the call ends."""
    [result] = scene.bash(command)
    assert result["status"] == "succeeded"
    assert bool(result["children_left"]) >= bool(mark())


@pytest.mark.parametrize("command", ["read x; echo got:$x:", "cat; echo got::", "cat </dev/tty",
                                     "printf y >/dev/tty", "python3 -c 'input()'"])  # fmt: skip
def test_a_command_gets_no_input(scene: Scene, command: str) -> None:
    """A command finds an empty input and no terminal, so it takes no answer and gives none."""
    [result] = scene.bash(command)
    assert result["status"] == "failed" or "got::" in result["output"]


@pytest.mark.parametrize(
    "command",
    ["yes 书 | head -c 9000000", "head -c 9000000 /dev/zero", "seq 2000000",
     "for i in $(seq 3000); do : > many$i; done; ls", "printf '\\x1b[2J%.0s' $(seq 60000)"],
)  # fmt: skip
def test_a_flood_is_bounded(scene: Scene, command: str) -> None:
    """Whatever is printed, the result stays small, and the artifact within its bound."""
    [result] = scene.bash(command)
    assert len(json.dumps(result, ensure_ascii=False).encode()) < 60_000
    assert scene.path.stat().st_size < 250_000
    artifacts = (scene.root / ".agent_state/artifacts").iterdir()
    assert sum(file.stat().st_size for file in artifacts) < 65 * 1024**2


def test_a_huge_file_is_read_in_pages(scene: Scene) -> None:
    """A file of 50 GB costs as much as a page of it."""
    with (scene.root / "huge.txt").open("wb") as file:
        file.write(b"line\n" * 20_000)
        os.truncate(file.fileno(), 50 * 1024**3)
    [result] = scene.run((("read_file", {"path": "huge.txt"}),), "n")
    (scene.root / "huge.txt").unlink()
    assert result["truncated"]
    assert len(result["content"]) <= 50 * 1024
