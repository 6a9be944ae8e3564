"""What models and servers send that is not right, the public reports K7 among it."""

import json
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from cases import CASES, case, session
from toolkit import (
    JSON,
    agent,
    answers,
    assistant,
    idempotent,
    kinds,
    lines,
    log,
    opaque,
    read_only,
    receipts,
    statuses,
    user,
    write_log,
)

from lai import (
    Agent,
    LaiError,
    ModelError,
    RecordError,
    Reply,
    Session,
    TurnTooLong,
    build_prompt_view,
    scripted,
    workspace_tools,
)
from lai.models import openai_model


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A workspace."""
    (tmp_path / "notes.txt").write_text("笔记 \u2028\x85😀", "utf-8")
    return tmp_path


@pytest.mark.parametrize("text", case("K7-01")["arguments"])
def test_k7_01_broken_arguments(ws: Path, text: str) -> None:
    """K7-01: nine forms of bad arguments run nothing and ask nobody; the session goes on."""
    path = ws / ".agent_state" / "session-t.jsonl"
    good = [("write_file", {"path": "a.txt", "content": "好"})]
    replies = [[("write_file", text)], good, "完"]
    with agent(path, replies, workspace_tools(ws), answers(["y"])) as made:
        assert made.run("写 a.txt") == "完"
    assert [(c, r["status"]) for c, r in receipts(path)] == [
        *(("call_1", "failed"), ("call_2", "succeeded"))
    ]
    assert [s for _, s in statuses(path)] == ["approved", "running", "succeeded"]
    stored = log(path)[1]["message"]["tool_calls"][0]["function"]["arguments"]
    assert stored == text
    sent = build_prompt_view(log(path))[1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


def test_k7_01_stored(ws: Path) -> None:
    """K7-01: a broken call in an old file heals when it is loaded."""
    path = session(ws, "K7-01")
    with agent(path, ["-", "完"], workspace_tools(ws), answers([])) as made:
        assert made.continue_turn() == "完"
    assert kinds(path) == ["user", "assistant", "tool", "assistant"]
    assert not (ws / "a.txt").exists()


def answering(*bodies: JSON) -> Any:
    """The real client, with these answers in the place of a network."""
    left = list(bodies)
    requests: list[JSON] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        requests.append(json.loads(request.content))
        return httpx2.Response(200, json=left.pop(0))

    http = httpx2.Client(transport=httpx2.MockTransport(handle), trust_env=False)
    client = openai.OpenAI(
        base_url="http://model.invalid/v1", api_key="k", max_retries=0, http_client=http
    )
    return openai_model(client, "fake"), requests


FINAL = {"choices": [{"index": 0, "finish_reason": "stop",
                      "message": {"role": "assistant", "content": "完"}}]}  # fmt: skip


@pytest.mark.parametrize("stored", [True, False])
def test_k7_03_no_such_tool(ws: Path, stored: bool) -> None:
    """K7-03: a tool that does not exist is one failed result that names the tools there are."""
    (ws / "a.txt").write_text("甲", "utf-8")
    path = session(ws, "K7-03") if stored else ws / ".agent_state" / "session-t.jsonl"
    body = json.loads((CASES / "K7-03.response.json").read_text("utf-8"))
    model, requests = answering(*([FINAL] if stored else [body, FINAL]))
    with Session.open(path) as opened:
        made = Agent(opened, model, workspace_tools(ws), answers([]))
        assert (made.continue_turn() if stored else made.run("删除再读取")) == "完"
    (first, refused), (second, read) = receipts(path)
    assert (first, refused["status"]) == ("call_1", "failed")
    assert all(tool.name in refused["message"] for tool in workspace_tools(ws))
    assert (second, read["content"]) == ("call_2", "甲")
    assert statuses(path) == []
    assert [m["role"] for m in requests[-1]["messages"]][-2:] == ["tool", "tool"]


def test_k7_05_arguments_as_an_object(ws: Path) -> None:
    """K7-05: arguments sent as an object are stored as text, with the same hash and key."""
    path = ws / ".agent_state" / "session-t.jsonl"
    body = json.loads((CASES / "K7-05.response.json").read_text("utf-8"))
    model, requests = answering(body, FINAL)
    with Session.open(path) as opened:
        assert Agent(opened, model, workspace_tools(ws), answers(["y"])).run("写") == "完"
    expected = case("K7-05")["expect"]
    assert {r["arguments_sha256"] for r in log(path)[2:5]} == {expected["arguments_sha256"]}
    assert {r["idempotency_key"] for r in log(path)[2:5]} == {expected["idempotency_key"]}
    for message in (log(path)[1]["message"], requests[1]["messages"][-2]):
        [raw] = message["tool_calls"]
        assert raw["type"] == "function"
        assert json.loads(raw["function"]["arguments"]) == {"path": "a.txt", "content": "hi"}
    assert (ws / "a.txt").read_bytes() == b"hi"


def test_k7_07_null_content(ws: Path) -> None:
    """K7-07: null, missing and empty content load, and go out in one fixed form."""
    path = session(ws, "K7-07")
    model, requests = answering(FINAL)
    with Session.open(path) as opened:
        made = Agent(opened, model, workspace_tools(ws), answers([]))
        assert made.turn_open  # a message with neither text nor calls ends no turn
        assert made.continue_turn() == "完"
    sent = [m for m in requests[0]["messages"] if m["role"] == "assistant"]
    assert [m["content"] for m in sent] == ["", ""]
    assert len({tuple(sorted(m)) for m in sent}) == 1


def test_cut_at_length(ws: Path) -> None:
    """Calls of a reply that ended at its length limit run nothing, also after a restart."""
    path = ws / ".agent_state" / "session-t.jsonl"
    reply = scripted([[("run_bash", {"command": "echo sent >> audit.log"})]])([], [])
    cut = Reply(reply.message, "length", None)
    with Session.open(path) as opened:
        made = Agent(opened, lambda *_: cut, workspace_tools(ws), answers([]))
        made.journal.append({"type": "message", "message": {"role": "user", "content": "做"}})
        made.advance()
    with agent(path, ["-", "完"], workspace_tools(ws), answers([])) as again:
        assert again.continue_turn() == "完"
    assert receipts(path)[0][1]["status"] == "failed"
    assert statuses(path) == []
    assert not (ws / "audit.log").exists()


def _tools(folder: Path) -> list[Any]:
    return [idempotent(folder), opaque(folder / "sent"), read_only(folder / "reads")]


# --- what a model can do wrong ------------------------------------------------------------


def broken(*_: Any) -> Reply:
    """A provider that is down."""
    raise ModelError("down")


def silent(*_: Any) -> Reply:
    """A model that says nothing."""
    return Reply({"role": "assistant", "content": ""}, "stop", None)


@pytest.mark.parametrize("model", [broken, silent])
def test_no_answer(tmp_path: Path, model: Any) -> None:
    """A model error or an empty reply records nothing of it, and the turn goes on later."""
    path = tmp_path / "session-t.jsonl"
    with Session.open(path) as session:
        made = Agent(session, model, _tools(tmp_path), None)
        for enter in (lambda: made.run("问 😀"), made.continue_turn):
            with pytest.raises(LaiError):
                enter()
            assert kinds(path) == ["user"]
    with agent(path, ["答"], []) as made:
        assert made.continue_turn() == "答"
    assert kinds(path) == ["user", "assistant"]


def test_text_without_a_form(tmp_path: Path) -> None:
    """A user text that UTF-8 cannot hold is refused before anything is finished or written."""
    path = write_log(
        tmp_path / "session-t.jsonl", user(), assistant(("call_1", "send", {"text": "书"}))
    )
    before = path.read_bytes()
    made = agent(path, ["-", "完"], _tools(tmp_path), answers([]))
    with pytest.raises(RecordError), made as opened:
        opened.run("\ud800")
    assert path.read_bytes() == before


def test_calls_for_ever(tmp_path: Path) -> None:
    """A model that never stops calling is stopped, and going on is allowed."""
    path = tmp_path / "session-t.jsonl"
    looks = [[("look", {"text": f"{n}"})] for n in range(50)]
    with agent(path, looks, _tools(tmp_path), max_model_calls=3) as made:
        for count in (3, 6):
            with pytest.raises(TurnTooLong, match="continue_turn"):
                made.run("看") if count == 3 else made.continue_turn()
            assert kinds(path).count("assistant") == count
    with agent(path, [*looks[:6], "完"], _tools(tmp_path), max_model_calls=3) as made:
        assert made.continue_turn() == "完"
    assert len(lines(tmp_path / "reads")) == 6
    assert kinds(path).count("user") == 1


@pytest.mark.parametrize("sent", ["", None, "call_1", "same"])
def test_ids_of_a_provider(tmp_path: Path, sent: str | None) -> None:
    """An id that is empty or was used before is replaced; its result is its own."""
    path = tmp_path / "session-t.jsonl"
    made_calls = assistant(("x", "look", {"text": "二"}), ("x", "look", {"text": "三"}))["message"]
    for raw in made_calls["tool_calls"]:
        raw["id"] = sent
    with agent(path, [[("look", {"text": "一"})], made_calls, "完"], _tools(tmp_path)) as made:
        assert made.run("看") == "完"
    ids = [c["id"] for r in log(path) for c in r["message"].get("tool_calls", ())]
    assert len(set(ids)) == 3
    assert all(ids)
    assert ids[0] == "call_1"
    assert (ids[1] == "same") is (sent == "same")
    assert [c for c, _ in receipts(path)] == ids
    assert [r["seen"] for _, r in receipts(path)] == ["一", "二", "三"]


@pytest.mark.parametrize("apart", [True, False], ids=["two messages", "one message"])
@pytest.mark.parametrize("name", ["send", "store", "look"])
@pytest.mark.parametrize("said", ["y", "n"])
def test_one_id_twice_in_an_old_file(tmp_path: Path, apart: bool, name: str, said: str) -> None:
    """Two open calls under one id are both answered, and no yes is used twice."""
    more = {"name": "a"} if name == "store" else {}
    calls = [("x", name, {"text": text, **more}) for text in ("一", "二")]
    messages = [assistant(calls[0]), assistant(calls[1])] if apart else [assistant(*calls)]
    path = write_log(tmp_path / "session-t.jsonl", user(), *messages)
    person = answers([said] * 4)
    with agent(path, ["-"] * len(messages) + ["完"], _tools(tmp_path), person) as made:
        assert made.continue_turn() == "完"
    assert len(receipts(path)) == 2
    done = [*lines(tmp_path / "sent"), *lines(tmp_path / "writes")]
    assert len(done) == len(set(done)) <= (len(person.questions) if said == "y" else 0)
