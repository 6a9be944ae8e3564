"""What must hold after every crash, as named functions over a :class:`story.Story`.

Each invariant raises AssertionError in words. ``ALWAYS`` holds at any moment, ``AT_THE_END``
once a turn is over.

The witness rule, which all of this serves: an opaque effect happens at most once, plus once
for each approval that a person gave after saying that the earlier attempt did not happen.
"""

import json
from collections.abc import Callable

from invariants_file import (
    attempts_are_at_what_was_asked,
    attempts_are_bounded,
    bytes_only_grow,
    execution_ids_unique,
    key_stable_over_attempts,
    lines_follow_each_other,
    transitions_are_legal,
    verdicts_are_a_persons,
)
from story import JSON, Call, Story, prompt_problem

ENDED = ("succeeded", "failed", "unknown", "rejected")


def call_ids_are_unique(story: Story) -> None:
    """No two calls of a session share an id, and none is empty."""
    ids = [call.id for call in story.calls]
    assert len(set(ids)) == len(ids), f"call ids used twice: {ids}"
    assert all(ids), "a call has no id"


def write_ahead(story: Story) -> None:
    """When an effect happens, the ``running`` of its attempt is in the file already."""
    for deed in story.deeds:
        wanted = {"execution_id": deed.execution_id, "status": "running"}
        ends = [story.lines[at].end for at, _ in story.ledger(**wanted)]
        assert ends, f"no running for {deed}"
        assert ends[0] <= deed.size, f"acted before running was written: {deed}"


def no_effect_without_a_yes(story: Story) -> None:
    """Whatever acted had been approved by a person, who was asked about that call."""
    for call in story.calls:
        yes = [said for said in story.said if said[0] == "approval" and said.call_id == call.id]
        assert not story.deeds_of(call) or any(said.answer == "y" for said in yes), call


def an_approval_is_used_once(story: Story) -> None:
    """There are no more approvals in the file than a person gave; retries name theirs."""
    for call in story.calls:
        given = sum(
            said.kind == "approval" and said.call_id == call.id and said.answer == "y"
            for said in story.said
        )
        recorded = [r for _, r in story.ledger(tool_call_id=call.id, status="approved")]
        fresh = [record for record in recorded if "approval_of" not in record]
        assert len(fresh) <= given, f"{call.id}: {len(fresh)} approvals, {given} given"


def opaque_effect_at_most_once_without_a_fresh_approval(story: Story) -> None:
    """The witness rule, for every tool that promises nothing."""
    for call in story.promised("opaque"):
        times, allowed = len(story.deeds_of(call)), 1 + fresh_approvals(story, call)
        assert times <= allowed, f"{call.id}: {times} effects, {allowed} allowed"


def fresh_approvals(story: Story, call: Call) -> int:
    """The approvals a person gave after saying that the attempt before did not happen."""
    count, denied = 0, False
    for said in story.said:
        if said.call_id == call.id and said.kind == "verdict":
            denied = denied or (said.answer or "").startswith("not happened:")
        elif said.call_id == call.id and said.answer == "y" and denied:
            count, denied = count + 1, False
    return count


def a_stop_is_not_retried_unasked(story: Story) -> None:
    """What a person stopped does not start again before a person was asked."""
    for call in story.calls:
        mine = list(story.ledger(tool_call_id=call.id))
        stops = [at for at, record in mine if record.get("cause") == "interrupt"]
        later = [
            at
            for at, record in mine
            if record["status"] == "running" and at > min(stops, default=at)
        ]
        if stops:
            assert len(later) <= fresh_approvals(story, call), f"{call.id} started after a stop"


def queryable_effect_at_most_once(story: Story) -> None:
    """Who can be asked is asked: the same rule where the look-up is the authority."""
    for call in story.promised("queryable"):
        assert len(story.deeds_of(call)) <= 1 + fresh_approvals(story, call), call


def keyed_effect_at_most_once(story: Story) -> None:
    """The service sees one key however often it is called, so it acts once."""
    for call in story.promised("keyed"):
        assert len(story.deeds_of(call)) <= 1, call


def at_most_one_result_per_call(story: Story) -> None:
    """No call is answered twice, and nothing else is answered."""
    answered = [receipt.call_id for receipt in story.receipts]
    assert len(set(answered)) == len(answered), f"answered twice: {answered}"
    assert set(answered) <= {call.id for call in story.calls}, f"answers to nothing: {answered}"


def results_in_order(story: Story) -> None:
    """Results stand in the order of the calls, each after its call."""
    answered = [receipt.call_id for receipt in story.receipts]
    assert answered == [call.id for call in story.calls][: len(answered)], answered
    for receipt, call in zip(story.receipts, story.calls, strict=False):
        assert receipt.at > call.at, f"{call.id} was answered before it was asked"


def terminal_before_receipt(story: Story) -> None:
    """The outcome of an attempt is in the file before the receipt that tells of it."""
    for receipt in story.receipts:
        execution_id = receipt.result.get("execution_id")
        if execution_id:
            known = [
                (at, r) for at, r in story.ledger(execution_id=execution_id) if at < receipt.at
            ]
            assert known, f"a receipt for {execution_id}, which the ledger does not know"
            assert known[-1][1]["status"] in ENDED, f"published while {known[-1][1]['status']}"


def published_result_is_in_ledger(story: Story) -> None:
    """A receipt says what the ledger says: the same status, and no result of its own."""
    for receipt in story.receipts:
        result = dict(receipt.result)
        mine = [r for at, r in story.ledger(tool_call_id=receipt.call_id) if at < receipt.at]
        if not mine:
            continue
        last = [r for r in mine if r["execution_id"] == result.get("execution_id")][-1]
        status = _with_verdicts(story, last, receipt.at)
        assert result["status"] == status, f"published {result['status']}, ledger {status}"
        for name, value in (last.get("result") or {}).items():
            assert name in ("status", "message") or result.get(name) == value, (name, result)


def unknown_never_published_as_failed(story: Story) -> None:
    """``failed`` is told only where the tool itself confirmed it, or where nothing ever ran."""
    for receipt in story.receipts:
        if receipt.result["status"] == "failed":
            mine = [r for at, r in story.ledger(tool_call_id=receipt.call_id) if at < receipt.at]
            started = [r for r in mine if r["status"] == "running"]
            failed = [r for r in mine if r["status"] == "failed"]
            assert not started or failed, f"{receipt.call_id} may have acted, the model is told not"


def succeeded_implies_effect(story: Story) -> None:
    """Success is told only of what the world has seen."""
    for call in story.calls:
        if story.receipt_of(call).get("status") == "succeeded":
            assert story.deeds_of(call), f"{call.id} is said to have succeeded, nothing happened"


def rejected_implies_no_effect(story: Story) -> None:
    """A refused call has no effect, unless a person said of an earlier one that it had none."""
    for call in story.calls:
        denied = any(
            said.call_id == call.id and (said.answer or "").startswith("not happened:")
            for said in story.said
        )
        if story.receipt_of(call).get("status") == "rejected" and not denied:
            assert not story.deeds_of(call), f"{call.id} is said to be rejected, but it happened"


def view_valid(story: Story) -> None:
    """Every prompt that was sent is one that the chat API accepts."""
    for _, messages in story.sent:
        problem = prompt_problem(messages)
        assert problem is None, f"{problem}: {messages}"


def no_model_call_while_a_call_is_open(story: Story) -> None:
    """When the model was called, every call in the file had its result."""
    for size, _ in story.sent:
        asked = {call.id for call in story.calls if story.lines[call.at].end <= size}
        told = {r.call_id for r in story.receipts if story.lines[r.at].end <= size}
        assert asked == told, f"the model was called while {asked - told} were open"


def requests_keep_what_counts(story: Story) -> None:
    """The model sees the request it works on, and every call whose outcome nobody knows."""
    for size, messages in story.sent:
        if prompt_is_data(messages):
            continue
        said = json.dumps(messages, ensure_ascii=False)
        before = [line.record for line in story.lines if line.end <= size]
        messages_before = [r["message"] for r in before if r["type"] == "message"]
        asked = [m["content"] for m in messages_before if m["role"] == "user"][-1]
        assert json.dumps(asked, ensure_ascii=False) in said, f"{asked} is not in {said}"
        for execution_id in unknown_after(before):
            assert execution_id in said, f"{execution_id} is unknown, and not in {said}"


def prompt_is_data(messages: list[JSON]) -> bool:
    """Whether the model is asked for a summary: nothing but data goes with such a request."""
    return len(messages) == 2 and "summarise" in messages[0]["content"][:20]


def unknown_after(records: list[JSON]) -> set[str]:
    """The latest attempt of each call that nobody can vouch for, and that no success followed."""
    last: dict[str, JSON] = {}
    for record in records:
        if record["type"] in ("tool_execution", "resolution"):
            last[record["execution_id"]] = {**last.get(record["execution_id"], {}), **record}
    made = {r["tool_call_id"] for r in last.values() if "succeeded" in (r["status"], _said(r))}
    unknown = {r["tool_call_id"]: n for n, r in last.items() if (r["status"], _said(r)) == OPEN}
    return {name for call_id, name in unknown.items() if call_id not in made}


OPEN = ("unknown", None)


def _said(record: JSON) -> str | None:
    """What a person's verdict makes of an attempt."""
    outcome = record.get("outcome")
    return "succeeded" if outcome == "happened" else outcome


def no_user_message_while_a_call_is_open(story: Story) -> None:
    """A new request never stands between a call and its result."""
    for at, (record, _) in enumerate(story.lines):
        if record["type"] == "message" and record["message"]["role"] == "user":
            asked = {call.id for call in story.calls if call.at < at}
            told = {receipt.call_id for receipt in story.receipts if receipt.at < at}
            assert asked == told, f"a user message while {asked - told} were open"


def exactly_one_result_per_call(story: Story) -> None:
    """At the end of a turn every call has its one result."""
    at_most_one_result_per_call(story)
    assert len(story.receipts) == len(story.calls), "a call was never answered"


def turn_ends(story: Story) -> None:
    """The turn ends with an answer in words, and the file with that message."""
    assert isinstance(story.final, str), f"the turn stopped at {story.final!r}"
    assert story.data.endswith(b"\n")
    last = [line.record for line in story.lines if line.record["type"] == "message"][-1]
    assert last["message"]["role"] == "assistant", last
    assert not last["message"].get("tool_calls"), last


def _with_verdicts(story: Story, record: JSON, before: int) -> str:
    """The status of a ledger record, a person's ``happened`` included."""
    happened = any(
        line.record.get("outcome") == "happened"
        for line in story.lines[:before]
        if line.record["type"] == "resolution"
        and line.record["execution_id"] == record["execution_id"]
    )
    return "succeeded" if happened else str(record["status"])


Invariant = Callable[[Story], None]
ALWAYS: tuple[Invariant, ...] = (
    call_ids_are_unique,
    bytes_only_grow,
    lines_follow_each_other,
    write_ahead,
    attempts_are_at_what_was_asked,
    attempts_are_bounded,
    verdicts_are_a_persons,
    no_effect_without_a_yes,
    an_approval_is_used_once,
    opaque_effect_at_most_once_without_a_fresh_approval,
    a_stop_is_not_retried_unasked,
    queryable_effect_at_most_once,
    keyed_effect_at_most_once,
    execution_ids_unique,
    key_stable_over_attempts,
    transitions_are_legal,
    at_most_one_result_per_call,
    results_in_order,
    terminal_before_receipt,
    published_result_is_in_ledger,
    unknown_never_published_as_failed,
    succeeded_implies_effect,
    rejected_implies_no_effect,
    view_valid,
    no_model_call_while_a_call_is_open,
    requests_keep_what_counts,
    no_user_message_while_a_call_is_open,
)
AT_THE_END: tuple[Invariant, ...] = (exactly_one_result_per_call, turn_ends)


def check(story: Story, *, ended: bool = True) -> None:
    """All invariants; those of a finished turn only if it is ``ended``."""
    for invariant in (*ALWAYS, *(AT_THE_END if ended else ())):
        invariant(story)
