"""What is odd in a long conversation: providers that miscount, old files, batches, bad timing."""

from pathlib import Path
from typing import Any

import pytest
from test_compaction import LONG, compacted, plan, result, turns
from test_context import faults, viewed
from test_outgrowing import Recorder, compactions, look, pages, size
from toolkit import JSON, agent, assistant, attempt, receipts, user, write_log

from lai import Agent, Budget, ContextFull, History, ModelError, Reply, Session, scripted
from lai.context import build_prompt_view
from lai.summary import read_request, request
from lai.tokens import estimate_message
from lai.window import listed


def counting(counts: Any, window: int) -> Any:
    """A model that refuses what is larger than its window and counts as ``counts`` says."""

    def model(messages: list[JSON], tools: list[JSON]) -> Reply:
        taken = size((messages, tools))
        if taken > window:
            raise ModelError("400 context_length_exceeded")
        answer = {"role": "assistant", "content": "好的 🙂" * 9}
        if read_request(messages) is not None:
            return Reply({**answer, "content": "总结"}, "stop", None)
        return Reply(answer, "stop", {"prompt_tokens": counts(taken), "completion_tokens": 20})

    return model


LIES = {
    "only what is new": lambda taken: taken % 90 + 1,
    "always five": lambda _: 5,
    "a million": lambda _: 10**6,
    "absurd": lambda _: 10**400,
    "half": lambda taken: taken // 2,
    "three times": lambda taken: taken * 3,
}


@pytest.mark.parametrize("lie", LIES)
def test_a_provider_that_miscounts_stops_nothing(tmp_path: Path, lie: str) -> None:
    """Whatever it counts, forty turns go through, and none is larger than the window."""
    with Session.open(tmp_path / "session.jsonl") as session:
        one = Agent(session, counting(LIES[lie], 3000), [], None, Budget(3000))
        for _ in range(40):
            assert one.run("念一念 🧾" * 9) == "好的 🙂" * 9


def test_another_system_message_counts_at_once(tmp_path: Path) -> None:
    """A run with longer instructions is compacted or refused, never sent too large."""
    path, model = tmp_path / "session.jsonl", Recorder(counting(lambda taken: taken, 10**9))
    for system in ("", LONG * 60):
        with Session.open(path) as session:
            one = Agent(session, model, [], None, Budget(3000), system=system)
            try:
                for _ in range(12):
                    one.run("念一念 🧾" * 9)
            except ContextFull:
                pass
    assert max(map(size, model.requests)) <= 3000


@pytest.mark.parametrize(("share", "most"), [(0.3, 12), (0.5, 16)])
def test_a_long_request_is_not_summarised_at_every_answer(
    tmp_path: Path, share: float, most: int
) -> None:
    """What stays word for word leaves less room for the rest, and summaries stay apart."""
    path, window = tmp_path / "session.jsonl", 4000
    asked = "念 "
    while estimate_message({"content": asked}) < share * window:
        asked += LONG
    with Session.open(path) as session:
        tools = [look("短" * 40)]
        Agent(session, scripted(pages(40)), tools, None, Budget(window)).run(asked)
    assert len(compactions(path)) <= most


def test_null_calls_are_no_calls(tmp_path: Path) -> None:
    """A file in which every message has all fields, some of them null, is compacted too."""
    records = [r for n in range(9) for r in (user(LONG * 5), assistant(text=f"第 {n}"))]
    for record in records:
        record["message"]["tool_calls"] = None
    path = write_log(tmp_path / "session.jsonl", *records)
    with agent(path, ["好"] * 20, [], budget=Budget(1200)) as one:
        one.run("?")
        assert "summary" in listed(one)
    assert len(compactions(path)) == 1


def test_a_summary_that_looks_like_a_pin_is_handed_on() -> None:
    """Only pinned texts are made anew; a summary is told on whatever it begins with."""
    records = [*turns(9), user("?")]
    action = plan(History.of(records), Budget(2000))
    assert action is not None
    records = [*compacted(records, action, "[Outcome unknown] 但要记住 4711"), *turns(9), user("?")]
    assert "4711" in History.of(records).view.summary


def test_the_earlier_summary_has_room_first() -> None:
    """Of very many messages the oldest give way, but never the summary of those before them."""
    records = [*turns(2), user("?")]
    action = plan(History.of(records), Budget(300))
    assert action is not None
    records = compacted(records, action, "记住 4711")
    records += [record for n in range(400) for record in (assistant(text="好"), user(f"{n}"))]
    view = History.of(records).view
    action = plan(History.of(records), Budget(1500))
    assert action is not None
    (task,) = filter(None, [read_request(request(view, action, Budget(1500)))])
    assert task.said[0] == {"role": "earlier summary", "content": "记住 4711"}
    assert task.said[1]["role"] == "left out"


def test_a_running_attempt_behind_a_conflict_is_pinned() -> None:
    """A call that was answered as a conflict while its attempt ran is not forgotten."""
    call = ("call_u", "send", {"text": "汇款"})
    begun = attempt(call, "approved", "running")
    begun = [{**record, "arguments_sha256": "0" * 64} for record in begun]
    records = [user("汇款"), assistant(call), *begun, result("call_u", '{"status":"conflict"}')]
    records += [assistant(text="有冲突"), *turns(9), user("?")]
    action = plan(History.of(records), Budget(2000))
    assert action is not None
    assert "exec_1" in str(action.pinned)
    assert action.resume == 2


def test_the_results_of_one_batch_fit_together(tmp_path: Path) -> None:
    """Results cannot be parted from their message, so many of them get less room each."""
    path = tmp_path / "session.jsonl"
    calls = [("look", {"text": f"{n}"}) for n in range(8)]
    with agent(path, [calls, "好 👍"], [look(LONG * 400)], budget=Budget(8000)) as one:
        assert one.run("八页一起念") == "好 👍"
    assert all(told["truncated"] for _, told in receipts(path))


def test_a_new_message_may_be_compacted_after_one_by_hand(tmp_path: Path) -> None:
    """/compact and then a large message: there is a try for the next answer."""
    records = turns(9, 4)
    path = write_log(tmp_path / "session.jsonl", *records)
    with agent(path, ["好"] * 99, [look()], budget=Budget(2500)) as one:
        assert one.compact()
        one.run(LONG * 45)
    assert len(compactions(path)) == 2


def test_old_files_that_were_compacted_at_a_bad_moment() -> None:
    """Calls that a foreign compaction cut off, or left unanswered inside it, break no view."""
    call = ("c", "look", {"text": "书"})
    cut = {"type": "compaction", "summary": "s", "first_kept": 99}
    view = build_prompt_view([user("a"), assistant(call), cut, result("c"), assistant(text="x")])
    assert faults(view) == []
    tail = [user("旧")["message"], assistant(call)["message"]]
    old = {"type": "compaction", "summary": "s", "retained_tail": tail}
    records = [old, *turns(9), user("?")]
    assert plan(History.of(records), Budget(2000)) is not None
    lone = [result("c")["message"], assistant(call)["message"], user("好")["message"]]
    pinned = {"type": "compaction", "summary": "s", "first_kept": 1, "pinned": lone}
    assert faults(build_prompt_view([pinned, user("?")])) == []


@pytest.mark.parametrize("name", ["functions.read file", "读", "", None, 7, "a" * 99])
def test_a_made_up_name_is_sent_as_providers_take_it(name: object) -> None:
    """A name that no provider accepts back is sent in the characters that names may have."""
    function = {"name": name, "arguments": "{}"}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
    records = [user("?"), {"type": "message", "message": message}, result("c")]
    sent = viewed(records).messages()[1]["tool_calls"][0]["function"]["name"]
    assert sent.replace("_", "a").replace("-", "a").isalnum()
    assert sent.isascii()
    assert len(sent) <= 64


@pytest.mark.parametrize("content", [None, 5, [], {}])
def test_content_of_no_kind_is_sent_as_no_text(content: object) -> None:
    """What stands in an old file as content and is none leaves the request valid."""
    record = {"type": "message", "message": {"role": "user", "content": content}}
    assert build_prompt_view([record]) == [{"role": "user", "content": ""}]
