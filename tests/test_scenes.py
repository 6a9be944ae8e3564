"""The scenes: what each says is what the library decides, and real deaths leave the same files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sums import without
from toolkit import log

from lai import (
    Ask,
    AskVerdict,
    Attempt,
    CallModel,
    Done,
    Effect,
    LookUp,
    Publish,
    Session,
    Settle,
    session_path,
)
from lai.budget import Budget
from lai.compaction import plan
from lai.course import scenes
from lai.course.child import run_child
from lai.course.place import agent_at
from lai.course.scenes import SCENES, scene_table, scene_tools, stage
from lai.history import History
from lai.recovery import POLICY, Standing, standing
from lai.report import describe, flaws
from lai.tools import find

Row = tuple[Standing, Effect]
S, E = Standing, Effect
# Scene: the first action, a word of it in a sentence, and the row it comes from (None: no row).
EXPECTED: dict[str, tuple[type, str, Row | None]] = {
    "unanswered-read": (Attempt, "runs", (S.NEW, E.READ_ONLY)),
    "approved-never-started": (Ask, "approval", (S.LEFT_APPROVED, E.OPAQUE)),
    "torn-tail": (Ask, "approval", (S.LEFT_APPROVED, E.IDEMPOTENT)),
    "rejected-untold": (Publish, "result rejected", (S.REJECTED, E.OPAQUE)),
    "interrupted-write": (Settle, "interrupted", (S.RUNNING, E.IDEMPOTENT)),
    "interrupted-command": (Settle, "interrupted", (S.RUNNING, E.OPAQUE)),
    "interrupted-job": (Settle, "interrupted", (S.RUNNING, E.QUERYABLE)),
    "lost-line": (Settle, "unknown", (S.LEFT_IN_DOUBT, E.OPAQUE)),
    "unknown-write": (Attempt, "runs again", (S.UNKNOWN, E.IDEMPOTENT)),
    "unknown-payment": (Attempt, "runs again", (S.UNKNOWN, E.KEYED)),
    "unknown-job": (LookUp, "what became of", (S.UNKNOWN, E.QUERYABLE)),
    "unknown-command": (AskVerdict, "verdict", (S.UNKNOWN, E.OPAQUE)),
    "absent-job": (Attempt, "runs again", (S.ABSENT, E.QUERYABLE)),
    "said-not-happened": (Ask, "approval", (S.NOT_HAPPENED, E.OPAQUE)),
    "retry-left-over": (Attempt, "runs", (S.LEFT_RETRY, E.IDEMPOTENT)),
    "attempts-spent": (AskVerdict, "verdict", (S.UNDECIDED, E.IDEMPOTENT)),
    "terminal-without-receipt": (Publish, "result succeeded", (S.CONCLUDED, E.IDEMPOTENT)),
    "parallel-calls": (Publish, "result succeeded", (S.CONCLUDED, E.IDEMPOTENT)),
    "other-arguments": (Publish, "result conflict", None),
    "damaged-middle": (Ask, "approval", (S.NEW, E.OPAQUE)),
    "unknown-published": (Done, "over", None),
    "compacted-unknown": (CallModel, "model", None),
}
WORD = {
    Attempt: "attempt",
    Ask: "ask",
    Settle: "settle",
    LookUp: "look up",
    AskVerdict: "verdict",
    Publish: "publish",
    CallModel: "model",
    Done: "done",
}
SETTLING = {"at": ("after append", 1)}  # the next process dies right after its first record


def world_of(path: Path) -> dict[str, bytes]:
    """The files of a workspace, without the agent's own."""
    return {p.name: p.read_bytes() for p in path.parent.parent.iterdir() if p.is_file()}


def kinds(path: Path) -> list[str]:
    """Each line of a file in its shape: its keys, its status or role, which ids are the same."""
    seen: dict[str, int] = {}
    shapes = []
    for line in path.read_text("utf-8").split("\n")[:-1]:
        record = without(json.loads(line))
        message = record.get("message", {})
        calls = [c["function"]["name"] for c in message.get("tool_calls", [])]
        ids = re.findall(r'"((?:call|exec)_\w+)"', line)
        named = [(name[:4], seen.setdefault(name, len(seen))) for name in ids]
        known = record.get("status") or message.get("role"), record.get("cause"), calls
        shapes.append(f"{known} {list(record)} {list(record.get('result', ''))} {named}")
    return shapes


# What a scene says


def test_every_scene_has_its_expectation_and_its_file() -> None:
    """The table of this test, the scenes and data/scenes/ name the same ones."""
    assert set(EXPECTED) == set(SCENES)
    assert {p.name for p in scenes.FOLDER.iterdir()} == {f"{name}.jsonl" for name in EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_scene_file_is_made_the_same_every_time(name: str) -> None:
    """A committed scene holds the bytes that the module makes, twice."""
    assert SCENES[name].file.read_bytes() == scenes.content(name) == scenes.content(name)


@pytest.mark.parametrize(("name", "expected"), EXPECTED.items())
def test_the_decision_is_the_one_that_was_announced(
    name: str, expected: tuple[type, str, Row | None], tmp_path: Path
) -> None:
    """A process that opens the scene decides what the scene says, in kind, words and row."""
    kind, word, row = expected
    path, tools = stage(name, tmp_path), scene_tools(tmp_path)
    with agent_at(path, tools=tools) as agent:
        action, history = agent.next_action(), agent.history
    assert type(action) is kind is SCENES[name].action
    assert word in describe(action)
    assert SCENES[name].next.partition(": ")[0] == WORD[kind]
    call = history.ledger.first_open()
    tool = find(tools, call.name) if call else None
    if row and call and tool:
        assert (standing(call, tool, history)[0], tool.effect) == row
    assert (row is None) == (call is None or name == "other-arguments")


def test_every_row_that_a_file_can_show_has_a_scene() -> None:
    """All rows of the policy but one: an approval by this process is in no file that is found."""
    shown = {row[0] for _, _, row in EXPECTED.values() if row}
    assert set(POLICY) - shown == {Standing.APPROVED}
    assert {row[1] for _, _, row in EXPECTED.values() if row} == set(Effect)
    assert {kind for kind, _, _ in EXPECTED.values()} == set(WORD)


def test_the_table_has_a_row_for_every_scene() -> None:
    """Name, what it shows, and the announced decision, none of them empty or told twice."""
    table = scene_table()
    assert list(table.columns) == ["scene", "what it shows", "what happens next"]
    assert list(table["scene"]) == list(SCENES)
    for column in table.columns:
        assert all(table[column])
        assert table[column].is_unique
    assert repr(table) == repr(scene_table())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_scene_breaks_no_rule_but_its_own(name: str) -> None:
    """``verify`` finds in a scene what it is about, and no illegal or stray record."""
    found = {flaw.kind for flaw in flaws(Session.read(SCENES[name].file))}
    own = {"open", "unknown", *{"other-arguments": ["conflict"]}.get(name, [])}
    assert found <= own | ({"damage"} if name in ("damaged-middle", "torn-tail") else set())


def test_the_summary_pins_what_the_library_would_pin() -> None:
    """The compaction of its scene says what a planned one says, and where its lines begin."""
    records = Session.read(SCENES["compacted-unknown"].file).records
    (made,) = [record for record in records if record["type"] == "compaction"]
    planned = plan(History.of(records[:9]), Budget(window=400))
    assert planned is not None
    assert made["pinned"] == list(planned.pinned)
    assert (made["first_kept"], made["resume_line"]) == (planned.first_kept, planned.resume)
    lines = SCENES["compacted-unknown"].file.read_bytes().split(b"\n")
    for line, offset in (("first_kept", "first_kept_offset"), ("resume_line", "resume_offset")):
        assert made[offset] == sum(len(raw) + 1 for raw in lines[: made[line] - 1])


# Going on


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recovery_goes_on_from_every_scene(name: str, tmp_path: Path) -> None:
    """The next process answers every call once, whoever is there, and no command runs unasked."""
    path = stage(name, tmp_path)
    before = world_of(path)
    if name == "damaged-middle":
        with Session.open(path) as session:
            session.acknowledge(4)
    with agent_at(path, lambda _: "n", tools=scene_tools(tmp_path)) as agent:
        agent.recover()
        assert not agent.history.ledger.open
    grown = {"submit": "jobs.jsonl", "pay": "payments.db", "write_file": "recovery-demo.txt"}
    acted = {name for name in world_of(path) if name not in before}
    assert acted <= set(grown.values())
    assert world_of(path).get("audit.log") == before.get("audit.log")


# Real deaths


@pytest.mark.parametrize(
    ("first", "death", "then"),
    [
        ("interrupted-write", SETTLING, "unknown-write"),
        ("interrupted-command", SETTLING, "unknown-command"),
        ("interrupted-job", SETTLING | {"world": "submit"}, "unknown-job"),
        ("unknown-job", SETTLING | {"world": "submit"}, "absent-job"),
    ],
)
def test_a_killed_recovery_leaves_the_next_scene(
    first: str, death: dict[str, Any], then: str, tmp_path: Path
) -> None:
    """A process that recovers one scene and is killed leaves the records of another."""
    path = stage(first, tmp_path)
    assert run_child(path, **death).returncode == -9
    assert path.read_bytes().startswith(SCENES[first].file.read_bytes())
    assert log(path) == log(SCENES[then].file)


SENDING = {"text": scenes.APPEND_LINE}
RETRY_DIES = {"at": "before effect of write_file"}
DEATHS: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("", "approved-never-started", [SENDING | {"at": ("after append", 3)}]),
    ("", "interrupted-command", [SENDING | {"at": "after effect of run_bash"}]),
    ("", "rejected-untold", [SENDING | {"answer": "n", "at": ("after append", 3)}]),
    ("", "unanswered-read", [{"world": "read_file", "at": "before effect of read_file"}]),
    ("", "interrupted-job", [{"world": "submit", "at": "during effect of submit"}]),
    ("", "unknown-payment", [{"world": "pay", "at": "before effect of pay"}, SETTLING]),
    ("unknown-write", "retry-left-over", [SETTLING]),
    ("unknown-write", "attempts-spent", [RETRY_DIES, RETRY_DIES, SETTLING]),
]


@pytest.mark.parametrize(("start", "name", "deaths"), DEATHS, ids=[d[1] for d in DEATHS])
def test_a_killed_process_leaves_the_same_kind_of_file(
    start: str, name: str, deaths: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Processes that are really killed leave the records of the scene, ids and texts aside."""
    path = stage(start, tmp_path) if start else session_path(tmp_path)
    for death in deaths:
        world = {"world": deaths[0]["world"]} if "world" in deaths[0] else {}
        assert run_child(path, **death | world).returncode == -9
    assert kinds(path) == kinds(SCENES[name].file)
    with agent_at(path, tools=scene_tools(tmp_path)) as agent:
        assert type(agent.next_action()) is EXPECTED[name][0]
