"""What the notebooks show: scenes, tables, live source. Compared with literals written here."""

import inspect
from pathlib import Path

import pandas as pd
import pytest

from lai import (
    POLICY,
    Agent,
    Ask,
    Done,
    Publish,
    Session,
    SessionDamaged,
    Settle,
    Status,
    decide,
    session_path,
    workspace_tools,
)
from lai.approval import Kind
from lai.course import look, naive, scenes, tables
from lai.course.place import agent_at, agent_on, fresh, ids, workspace_of
from lai.history import History
from lai.records import message_record

# The scene of the reliability article, section 7.2, as published.
HASH = "8889280b9146b06f667dd62a1bdb2f6bcb763b656a18214926a39dba97dc18fe"
IDENTITY = (
    '"execution_id":"exec_interrupted_demo","tool_call_id":"call_recovery_demo","status":"%s",'
    f'"tool_name":"write_file","idempotency_key":"write_file:{HASH}","arguments_sha256":"{HASH}"'
)
PUBLISHED = [
    (
        '{"type":"message","message":{"role":"user",'
        '"content":"请把 recovery-demo.txt 的完整内容设置为 recovered"}}'
    ),
    (
        '{"type":"message","message":{"role":"assistant","content":"","tool_calls":[{"id":'
        '"call_recovery_demo","type":"function","function":{"name":"write_file","arguments":'
        r'"{\"path\":\"recovery-demo.txt\",\"content\":\"recovered\"}"}}]}}'
    ),
    '{"type":"tool_execution",' + IDENTITY % "approved" + "}",
    '{"type":"tool_execution",' + IDENTITY % "running" + "}",
]
NEXT = {  # scene: the first action, and the lines that are no record
    "interrupted-write": (Settle, []),
    "interrupted-command": (Settle, []),
    "approved-never-started": (Ask, []),
    "terminal-without-receipt": (Publish, []),
    "parallel-calls": (Publish, []),
    "torn-tail": (Ask, [4]),
    "damaged-middle": (Ask, [4]),
    "unknown-published": (Done, []),
}


def session_of(path: Path, *texts: str) -> Path:
    with Session.open(path) as session:
        for text in texts:
            session.append(message_record({"role": "user", "content": text}))
    return path


def statuses(path: Path) -> list[str]:
    return [r["status"] for r in Session.read(path).records if r["type"] == "tool_execution"]


def sent(path: Path) -> int:
    """Lines in the audit log, counted outside of the agent."""
    log = workspace_of(path) / "audit.log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


# Scenes


@pytest.mark.parametrize("name", scenes.SCENES)
def test_scene_file_is_what_the_module_makes(name: str) -> None:
    """A committed scene holds the module's bytes, and making them twice makes the same."""
    assert scenes.SCENES[name].file.read_bytes() == scenes.content(name) == scenes.content(name)


def test_every_scene_file_has_a_scene() -> None:
    """data/scenes/ holds the scenes and nothing else."""
    assert {p.name for p in scenes.FOLDER.iterdir()} == {f"{n}.jsonl" for n in scenes.SCENES}


def test_writing_the_scenes_again_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module's main writes every file, byte for byte."""
    committed = {p.name: p.read_bytes() for p in scenes.FOLDER.iterdir()}
    monkeypatch.setattr(scenes, "FOLDER", tmp_path / "new")
    scenes.main()
    assert {p.name: p.read_bytes() for p in (tmp_path / "new").iterdir()} == committed


def test_the_published_scene_is_published_exactly() -> None:
    """The interrupted write is the article's four lines."""
    assert scenes.content("interrupted-write").decode().splitlines() == PUBLISHED


@pytest.mark.parametrize(("name", "expected"), NEXT.items())
def test_scene_says_what_decide_says(
    name: str, expected: tuple[type, list[int]], tmp_path: Path
) -> None:
    """The action a scene announces is the one the library decides on."""
    action, no_records = expected
    path = scenes.stage(name, tmp_path)
    assert [d.line for d in Session.read(path).damage] == no_records
    with agent_at(path) as agent:
        assert type(agent.next_action()) is action
    assert scenes.SCENES[name].next.startswith(action.__name__.lower() + ":")


def test_no_tool_runs_in_the_damaged_scene(tmp_path: Path) -> None:
    """The damaged scene stops at the damage, whatever is answered, until it is acknowledged."""
    path = scenes.stage("damaged-middle", tmp_path)
    with agent_at(path, ask=lambda _: "y") as agent, pytest.raises(SessionDamaged):
        agent.continue_turn()
    assert sent(path) == 0
    with Session.open(path) as session:
        session.acknowledge(4)
        agent_on(session, ask=lambda _: "y").continue_turn()
    assert sent(path) == 1


def test_three_calls_get_three_fates(tmp_path: Path) -> None:
    """One message, three receipts in order: replayed, unknown, refused; no command runs."""
    path = scenes.stage("parallel-calls", tmp_path)
    with agent_at(path, ask=lambda q: "n" if q.kind is Kind.APPROVAL else "") as agent:
        answered = agent.recover()
    assert answered == ["call_report_demo", "call_audit_demo", "call_closing_demo"]
    told = [r["message"]["content"] for r in Session.read(path).records[-1:]]
    assert sent(path) == 0
    assert '"rejected"' in told[0]
    assert statuses(path)[-2:] == ["unknown", "rejected"]


def test_staging_makes_a_private_copy_with_its_world(tmp_path: Path) -> None:
    """A staged scene is a copy, for its owner alone, with the workspace as it stood."""
    path = scenes.stage("unknown-published", tmp_path)
    assert path == session_path(tmp_path, "unknown-published")
    assert path.read_bytes() == scenes.content("unknown-published")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert (tmp_path / "audit.log").read_bytes() == b"sent\n"


def test_staging_over_a_session_is_refused(tmp_path: Path) -> None:
    """A second staging raises and changes neither the session nor the world."""
    path = scenes.stage("unknown-published", tmp_path)
    path.write_bytes(b"mine\n")
    (tmp_path / "audit.log").write_bytes(b"mine\n")
    with pytest.raises(FileExistsError):
        scenes.stage("unknown-published", tmp_path)
    assert path.read_bytes() == (tmp_path / "audit.log").read_bytes() == b"mine\n"
    with pytest.raises(KeyError, match="interrupted-write"):
        scenes.stage("no such scene", tmp_path)


# Tables


def test_records_table_has_a_row_for_every_line() -> None:
    """All lines appear in order, the unreadable one too, with signed statuses."""
    table = tables.records_table(scenes.SCENES["damaged-middle"].file)
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["line", "type", "who", "what", "call", "execution"]
    assert list(table["line"]) == list(range(1, 10))
    assert list(table["who"])[2:5] == ["○ approved", "", "✓ succeeded"]
    assert table["type"][3] == "damage"
    assert "cannot be read" in table["what"][3]


def test_every_status_has_a_sign_of_its_own() -> None:
    """Statuses can be told apart without colour and without reading."""
    signs = {tables.signed(str(status)).split()[0] for status in Status}
    assert len(signs) == len(Status) == len(set(tables.COLOUR.values()))
    assert tables.signed("assistant") == "assistant"


def test_ids_are_short_and_stay_apart(tmp_path: Path) -> None:
    """Ids that differ only at their end differ in the table, and digits stay text."""
    path = session_path(tmp_path)
    calls = [
        {"id": f"00000000000000000000{n}", "function": {"name": "f", "arguments": "{}"}}
        for n in (1, 2)
    ]
    with Session.open(path) as session:
        session.append(message_record({"role": "assistant", "tool_calls": calls}))
    shown = str(tables.records_table(path)["call"][0]).split()
    assert shown == ["000000000000000000001", "000000000000000000002"]


def test_table_shows_no_character_that_acts(tmp_path: Path) -> None:
    """Line separators, control characters and HTML are shown, never obeyed."""
    text = "书\u2028\u0085\x1b[2J<script>🙂"
    table = tables.records_table(session_of(session_path(tmp_path), text))
    assert table["what"][0] == "书⟦U+2028⟧⟦U+0085⟧⟦ESC⟧[2J<script>🙂"
    assert "<script>" not in table._repr_html_()
    assert "&lt;script&gt;" in table._repr_html_()


def test_table_is_the_same_bytes_every_time() -> None:
    """Text and HTML of a table depend on the session alone, and a slice is a table still."""
    file = scenes.SCENES["parallel-calls"].file
    one, two = tables.records_table(file), tables.records_table(file)
    assert (repr(one), one._repr_html_()) == (repr(two), two._repr_html_())
    assert repr(one.tail(1)).splitlines()[1].startswith("7     tool_execution  ● running")
    assert "border-left:6px solid #E69F00" in one._repr_html_()


def test_chinese_text_keeps_the_columns_aligned() -> None:
    """A Chinese character counts as two columns, so what follows it stays in line."""
    table = tables.Table([{"a": "书书", "b": "x"}, {"a": "abcd", "b": "y"}])
    assert repr(table).splitlines() == ["a     b", "书书  x", "abcd  y"]


def test_decision_table_is_decide_on_every_prefix(tmp_path: Path) -> None:
    """Each row says what decide answers to the log up to that line."""
    records = Session.read(scenes.SCENES["interrupted-command"].file).records
    tools = workspace_tools(tmp_path)
    table = tables.decision_table(records, tools)
    kinds = [type(decide(History.of(records[:n]), tools)).__name__ for n in (1, 2, 3, 4)]
    assert kinds == ["CallModel", "Ask", "Ask", "Settle"]
    words = ["the model is asked", "approval", "approval", "interrupted"]
    assert all(word in said for word, said in zip(words, table["next"], strict=True))
    assert list(table["killed after line"]) == [1, 2, 3, 4]


def test_policy_table_is_the_policy() -> None:
    """Every cell of the table is the library's own, none is missing."""
    table = tables.policy_table().set_index("where the call stands")
    for where, row in POLICY.items():
        assert {effect: str(move) for effect, move in row.items()} == dict(table.loc[where])
    assert len(table) == len(POLICY)


# Places and sources


def test_ids_repeat_and_never_collide(tmp_path: Path) -> None:
    """The same place in the log gives the same id; another line or prefix gives another."""
    with Session.open(session_path(tmp_path)) as session:
        seen = [ids(session)("exec"), ids(session)("call")]
        assert seen == [ids(session)("exec"), ids(session)("call")]
        session.append(message_record({"role": "user", "content": "书"}))
        assert len({*seen, ids(session)("exec")}) == 3


def test_fresh_places_are_empty_and_different() -> None:
    """Every demonstration gets an empty folder of its own."""
    one, two = fresh(), fresh()
    assert one != two
    assert not list(one.iterdir())
    assert not list(two.iterdir())


def test_source_is_the_library_s_own() -> None:
    """What is shown is the text of the file, whether named or handed over."""
    shown = look.source("lai.agent:Agent.advance")
    assert repr(shown) == repr(look.source(Agent.advance))
    text = Path(str(inspect.getsourcefile(Agent))).read_text(encoding="utf-8")
    assert all(line.strip() in text for line in repr(shown).splitlines())
    assert shown._repr_markdown_().startswith("```python\n")


def test_changed_takes_away_and_adds() -> None:
    """Taking the minus lines from the old and adding the plus lines gives the new."""
    lines = repr(look.changed(naive.act, "lai.executor:Executor._act")).splitlines()[2:]
    assert "+        running = self.journal.proceed(approved, Status.RUNNING, **kept)" in lines
    new = [line[1:] for line in lines if line[0] in "+ "]
    assert new == repr(look.source("lai.executor:Executor._act")).splitlines()
