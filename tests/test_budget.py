"""The size of the next request: what a provider counted, what is estimated, what takes the room."""

import json
from typing import Any

import pytest
from toolkit import JSON, assistant, user

from lai import Budget, LaiError
from lai.context import View
from lai.models import budget_from_environment
from lai.spending import largest, spending
from lai.tokens import estimate_message
from lai.usage import counted

LONG = "把账本读一遍，然后说说哪里不对。\u2028🧾 " * 20


def result(call_id: str, content: str) -> JSON:
    """A tool result."""
    return {
        "type": "message",
        "message": {"role": "tool", "tool_call_id": call_id, "content": content},
    }


def viewed(*records: JSON) -> View:
    """The view after these records."""
    view = View()
    for line, record in enumerate(records, start=1):
        view.feed(record, line)
    return view


def estimated(*records: JSON) -> int:
    """What these messages are estimated to take."""
    return sum(estimate_message(record["message"]) for record in records)


def usage(sent: int, said: int = 0, **more: Any) -> JSON:
    """What a provider says about a request."""
    return {"prompt_tokens": sent, "completion_tokens": said, **more}


@pytest.mark.parametrize(
    ("window", "shares"),
    [(0, {}), (-1, {}), (100, {"keep": 0.7}), (100, {"compact_at": 1.1}), (100, {"keep": 0})],
)
def test_a_budget_that_cannot_be_is_refused(window: int, shares: dict[str, float]) -> None:
    """A window without room, and shares that are none, are refused with what they should be."""
    with pytest.raises(LaiError):
        Budget(window, **shares)


def test_without_a_count_everything_is_estimated() -> None:
    """The system message, the tool schemas and every message add to the size."""
    records = [user(LONG), assistant(text="好\u0085"), user("再来")]
    assert viewed(*records).tokens(fixed=0) == estimated(*records)
    budget = Budget(1000).carrying("你是助手。", [{"type": "function", "function": {"name": "寄"}}])
    assert budget.fixed > 10
    assert viewed(*records).tokens(budget.fixed) == estimated(*records) + budget.fixed


def test_what_the_provider_counted_is_the_truth() -> None:
    """Up to the counted answer the count stands alone; what came after is estimated on top."""
    said = assistant(text="一", usage=usage(500, 40))
    assert viewed(user(LONG), said).tokens(fixed=70) == 540
    later = user("二 🚀")
    assert viewed(user(LONG), said, later).tokens(fixed=70) == 540 + estimated(later)


def test_a_count_covers_the_call_and_not_its_result() -> None:
    """The result of a counted call is estimated: the provider has not seen it yet."""
    call = assistant(("c1", "look", {"text": "书"}), usage=usage(500, 40))
    answer = result("c1", LONG)
    assert viewed(user("一"), call, answer).tokens(fixed=0) == 540 + estimated(answer)


@pytest.mark.parametrize(("factor", "scale"), [(1.5, 1.5), (0.8, 0.8), (9, 2.0), (1, 1.0)])
def test_a_count_calibrates_what_comes_after(factor: float, scale: float) -> None:
    """A request that took more or less than its estimate scales what is estimated next."""
    first, said = user(LONG * 9), assistant(text="好")
    thought = estimated(first)
    sent = round(factor * thought)
    said["usage"] = usage(sent, 0, estimated_tokens=thought)
    view = viewed(first, said)
    before = view.tokens(fixed=0)
    later = user(LONG)
    view.feed(later, 3)
    assert before == sent
    assert view.tokens(fixed=0) - before == pytest.approx(scale * estimated(later), abs=1)


@pytest.mark.parametrize("sent", [1, 20, 400])
def test_a_count_of_next_to_nothing_is_not_believed(sent: int) -> None:
    """A provider that leaves out what it had in a cache does not make a request small."""
    first, said = user(LONG * 9), assistant(text="好")
    said["usage"] = usage(sent, 0, estimated_tokens=estimated(first))
    view = viewed(first, said)
    assert view.tokens(fixed=0) == estimated(first, said)
    assert view.scale == 1.0


def test_other_tools_are_other_tokens() -> None:
    """What every request carries may change between two runs; the count is corrected by it."""
    first, said = user(LONG * 9), assistant(text="好")
    said["usage"] = usage(4000, 5, estimated_tokens=estimated(first) + 100)
    view = viewed(first, said)
    assert view.tokens(fixed=100) == 4005
    assert view.tokens(fixed=1100) == pytest.approx(4005 + 1000 * view.scale, abs=1)


def test_thoughts_are_not_sent_back() -> None:
    """Tokens that the model spent on thinking are not part of the next request."""
    details = {"completion_tokens_details": {"reasoning_tokens": 300}}
    found = counted(usage(100, 320, **details))
    assert found is not None
    assert found.tokens == 120


@pytest.mark.parametrize(
    "broken",
    [
        None,
        7,
        [],
        {},
        usage(0, 5),
        {"prompt_tokens": "九"},
        {"prompt_tokens": True},
        usage(-5),
        usage(10**400),
    ],
)
def test_a_usage_that_says_nothing_is_left_out(broken: object) -> None:
    """Whatever a provider puts in the place of a count, the estimate goes on."""
    records = [user(LONG), assistant(text="好", usage=broken)]
    assert viewed(*records).tokens(fixed=0) == estimated(*records)


def test_a_compaction_ends_what_was_counted() -> None:
    """The count was for messages that are gone; the scale that it taught is handed on."""
    records = [user(LONG), assistant(text="好", usage=usage(3000, 9, estimated_tokens=2000))]
    compaction = {"type": "compaction", "summary": "总结\u2028", "first_kept": 3, "scale": 1.5}
    view = viewed(*records, user("二"), compaction)
    estimate = sum(map(estimate_message, view.messages()))
    assert view.tokens(fixed=100) == pytest.approx(1.5 * (estimate + 100), abs=1)


def test_the_parts_add_up_to_the_window() -> None:
    """System, tools, summary, messages, results and what is left are the whole window."""
    compaction = {"type": "compaction", "summary": LONG, "first_kept": 1}
    call = assistant(("c1", "look", {"text": "书"}), usage=usage(700, 10))
    view = viewed(user("一"), compaction, call, result("c1", LONG * 3), user("二"))
    budget = Budget(5000).carrying("系统" * 30, [{"name": "look"}])
    found = spending(view, budget)
    parts = found.system, found.tools, found.summary, found.messages, found.results, found.left
    assert sum(parts) == 5000
    assert min(parts) > 0
    assert 5000 - found.left == pytest.approx(view.tokens(budget.fixed), abs=5)
    assert found.results > found.summary > found.messages


def test_the_largest_part_is_named() -> None:
    """A person is told which message takes most, or that no message would have room."""
    records = [user("一"), assistant(("c1", "look", {"text": "书"})), result("c1", LONG)]
    view = viewed(*records, user(LONG * 2))
    assert "user message at line 4" in largest(view, Budget(9999).carrying(LONG * 9, []))
    assert "result of look" in largest(viewed(*records), Budget(9999))
    compaction = {"type": "compaction", "summary": LONG * 9, "first_kept": 1}
    assert "summary" in largest(viewed(*records, compaction), Budget(9999))
    assert "system message" in largest(view, Budget(999).carrying(LONG * 9, []))
    assert "tool schemas" in largest(view, Budget(999).carrying("书", [{"name": LONG * 9}]))


def test_the_environment_sets_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """AGENT_CONTEXT_WINDOW is the window in tokens, and a wrong one is refused by name."""
    monkeypatch.setenv("AGENT_CONTEXT_WINDOW", " 32_000 ")
    assert budget_from_environment() == Budget(32_000)
    monkeypatch.delenv("AGENT_CONTEXT_WINDOW")
    assert budget_from_environment() == Budget(128_000)
    for wrong in ("很大", "0", "-3", "1e5"):
        monkeypatch.setenv("AGENT_CONTEXT_WINDOW", wrong)
        with pytest.raises(LaiError, match="AGENT_CONTEXT_WINDOW"):
            budget_from_environment()


def test_a_size_costs_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the size again estimates no message a second time."""
    seen: list[str] = []

    def estimate(message: JSON) -> int:
        seen.append(json.dumps(message))
        return 5

    monkeypatch.setattr("lai.context.estimate_message", estimate)
    view = viewed(user("一"), assistant(text="二"))
    assert (view.tokens(0), view.tokens(0), len(seen)) == (10, 10, 2)
    view.feed(user("三"), 3)
    assert (view.tokens(0), len(seen)) == (15, 3)
