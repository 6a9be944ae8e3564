"""The executor's reading of a log: transitions, attempts of calls, open calls, oddities."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolkit import JSON, assistant, attempt, log, opaque, resolution, user, write_log

from lai import (
    LEGAL,
    Agent,
    Ask,
    History,
    IllegalTransition,
    Session,
    decide,
    latest_execution_by_tool_call,
    latest_execution_states,
    pending_tool_calls,
    scripted,
)
from lai.ledger import Ledger

CASES = Path(__file__).parent / "data" / "cases"
STATUSES = ["approved", "rejected", "running", "succeeded", "failed", "unknown"]
# How an attempt comes to each status, and the table itself, written out again by hand.
WAYS: dict[str | None, list[str]] = {
    None: [],
    "approved": ["approved"],
    "rejected": ["rejected"],
    "running": ["approved", "running"],
    "succeeded": ["approved", "running", "succeeded"],
    "failed": ["approved", "running", "failed"],
    "unknown": ["approved", "running", "unknown"],
}
ALLOWED = {
    (None, "approved"), (None, "rejected"),
    ("approved", "running"), ("approved", "rejected"),
    ("running", "succeeded"), ("running", "failed"), ("running", "unknown"),
    ("unknown", "succeeded"), ("unknown", "failed"), ("unknown", "unknown"),
}  # fmt: skip
PAIRS = list(product(WAYS, STATUSES))
CALL = ("call_1", "send", {"text": "书\u2028\u0085"})
OTHER = ("call_2", "send", {"text": "🚀"})


def result(call_id: str, content: str = "{}") -> JSON:
    """A tool result."""
    message = {"role": "tool", "tool_call_id": call_id, "content": content}
    return {"type": "message", "message": message}


def snapshot(history: History) -> str:
    """All that a history knows, in words: nothing may hide."""
    parts = [history.ledger, history.ledger._pairing, history.view, history.view._pairing]
    return repr([vars(part) for part in parts])


def statuses(ledger: Ledger) -> dict[str, str]:
    """What is known of each attempt."""
    return {name: str(execution.status) for name, execution in ledger.executions.items()}


def test_the_table_is_the_written_one() -> None:
    """LEGAL allows these ten steps and no other."""
    assert {(a and str(a), str(b)) for a, found in LEGAL.items() for b in found} == ALLOWED


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_pair_of_statuses(before: str | None, after: str) -> None:
    """A legal step is known afterwards; an illegal one raises and leaves everything as it was."""
    history = History.of([user(), assistant(CALL, OTHER), *attempt(CALL, *WAYS[before])])
    (step,), known = attempt(CALL, after), snapshot(history)
    if (before, after) in ALLOWED:
        history.feed(step, 9)
        assert statuses(history.ledger) == {"exec_1": after}
        assert history.ledger.executions["exec_1"].result == step.get("result")
        return
    for way in (history.ledger.check, lambda record: history.feed(record, 9)):
        with pytest.raises(IllegalTransition, match=f"exec_1 cannot become {after}"):
            way(step)
    assert snapshot(history) == known


@pytest.mark.parametrize(("before", "after"), sorted(set(PAIRS) - ALLOWED, key=str))
def test_an_illegal_step_is_never_written(tmp_path: Path, before: str | None, after: str) -> None:
    """The journal raises before a byte is written, and goes on with what is legal."""
    records = [user(), assistant(CALL), *attempt(CALL, *WAYS[before])]
    path = write_log(tmp_path / "session-x.jsonl", *records)
    with Session.open(path) as session:
        journal = Agent(session, scripted([]), []).journal
        with pytest.raises(IllegalTransition):
            journal.append(*attempt(CALL, after))
        assert (log(path), session.records) == (records, records)
        journal.append(result("call_1"))
    assert log(path) == [*records, result("call_1")]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_across_a_lost_line_nothing_is_checked(before: str | None, after: str) -> None:
    """The lost line may have been the missing step; it excuses no step after the next record."""
    history = History.of([user(), assistant(CALL), *attempt(CALL, *WAYS[before])])
    history.ledger.lose(8)
    history.feed(*attempt(CALL, after), 9)
    assert statuses(history.ledger) == {"exec_1": after}
    known, (again,) = snapshot(history), attempt(CALL, "approved")
    with pytest.raises(IllegalTransition):
        history.feed(again, 10)
    assert snapshot(history) == known


def test_a_file_with_a_forbidden_record_still_opens() -> None:
    """A violation in a file is reported with its line, changes nothing, and all else is read."""
    bad = attempt(CALL, "succeeded")
    history = History.of([user(), assistant(CALL), *bad, *attempt(CALL, "approved")])
    assert [line for line, _ in history.violations] == [3]
    assert statuses(history.ledger) == {"exec_1": "approved"}


@pytest.mark.parametrize("lost", [False, True])
def test_an_execution_belongs_to_one_call(lost: bool) -> None:
    """An execution id used for another call raises, lost line or not, and changes nothing."""
    history = History.of([user(), assistant(CALL, OTHER), *attempt(CALL, "approved")])
    if lost:
        history.ledger.lose(4)
    known = snapshot(history)
    for status in STATUSES:
        with pytest.raises(IllegalTransition, match="belongs to call call_1, not to call_2"):
            history.feed(*attempt(OTHER, status), 9)
    assert snapshot(history) == known


@pytest.mark.parametrize("outcome", ["happened", "not_happened"])
@pytest.mark.parametrize("before", WAYS)
def test_a_verdict_is_for_an_unknown_and_given_once(before: str | None, outcome: str) -> None:
    """Only an unresolved unknown takes a verdict; any other, and a second one, changes nothing."""
    history = History.of([user(), assistant(CALL), *attempt(CALL, *WAYS[before])])
    if before == "unknown":
        assert [e.id for e in history.ledger.unresolved()] == ["exec_1"]
        history.feed(resolution(outcome), 9)
        expected = "succeeded" if outcome == "happened" else "unknown"
        assert statuses(history.ledger) == {"exec_1": expected}
        assert history.ledger.unresolved() == []
    known = snapshot(history)
    for verdict in ("happened", "not_happened"):
        with pytest.raises(IllegalTransition, match="exec_1"):
            history.feed(resolution(verdict), 10)
    assert snapshot(history) == known


def test_happened_keeps_what_was_known() -> None:
    """The result of a resolved attempt has the old fields, the verdict and its evidence."""
    unknown = attempt(CALL, "approved", "running", "unknown")
    known = {"execution_id": "exec_1", "output": "书\u2028", "exit_code": None}
    unknown[-1]["result"] |= known
    records = [user(), assistant(CALL), *unknown, resolution("happened", evidence="看过 📖")]
    found = History.of(records).ledger.executions["exec_1"].result
    verdict = {"status": "succeeded", "verdict": "happened", "evidence": "看过 📖"}
    assert found == found | known | verdict


def test_a_second_use_of_an_id_starts_from_nothing(tmp_path: Path) -> None:
    """A call that repeats an answered id finds no earlier attempt and is asked about anew."""
    done = attempt(CALL, "approved", "running", "succeeded")
    records = [user(), assistant(CALL), *done, result("call_1"), assistant(CALL)]
    history = History.of(records)
    (call,) = history.ledger.open
    assert (call.line, history.ledger.attempts(call)) == (7, [])
    assert latest_execution_by_tool_call(records) == {}
    assert decide(history, [opaque(tmp_path / "effects")]) == Ask(call)
    history.feed(*attempt(CALL, "approved", execution_id="exec_2"), 8)
    assert [e.id for e in history.ledger.attempts(call)] == ["exec_2"]


def test_orphans_are_reported_and_change_nothing_else() -> None:
    """A result without a call and an attempt without a call are oddities with their lines."""
    ledger = History.of(
        [user(), result("call_9"), *attempt(CALL, "approved", "running"), assistant(OTHER)]
    ).ledger
    assert [line for line, _ in ledger.oddities] == [2, 3, 4]
    assert [call.id for call in ledger.open] == ["call_2"]
    assert [ledger.attempts(call) for call in ledger.open] == [[]]
    ledger.feed(assistant(CALL), 6)  # a later call does not adopt what came before it
    assert [ledger.attempts(call) for call in ledger.open] == [[], []]


def test_k2_03_the_pure_functions_read_what_is_left() -> None:
    """K2-03: with `running` lost, no call is open and the attempt's last record is found."""
    records = Session.read(CASES / "K2-03.jsonl").records
    assert pending_tool_calls(records) == []
    assert latest_execution_states(records)["exec_1"]["status"] == "succeeded"
    assert latest_execution_by_tool_call(records)["call_w"]["status"] == "succeeded"


# --- against plain searches ------------------------------------------------------------------

IDS = st.sampled_from(["call_1", "call_2", ""])
NAMES = st.sampled_from(["exec_1", "exec_2", "exec_3"])
STEP = st.one_of(
    st.lists(IDS, min_size=1, max_size=2),
    st.tuples(st.just("result"), IDS),
    st.tuples(NAMES, IDS, st.sampled_from([*WAYS.values(), ["running"], ["unknown"]])),
    st.tuples(NAMES, st.sampled_from(["happened", "not_happened"])),
)


def legal_log(steps: list[Any]) -> list[JSON]:
    """The records of those steps that the table above allows, in order."""
    made: list[JSON] = []
    state: dict[str, tuple[str, str]] = {}
    resolved: set[str] = set()
    for step in steps:
        match step:
            case list():
                calls = [(i, "send", {"at": [len(made), n]}) for n, i in enumerate(step)]
                made.append(assistant(*calls))
            case ("result", call_id):
                made.append(result(call_id))
            case (name, call_id, way):
                for status in way:
                    earlier, owner = state.get(name, (None, call_id))
                    if (earlier, status) in ALLOWED and owner == call_id:
                        state[name] = (status, call_id)
                        made += attempt((call_id, "send", {}), status, execution_id=name)
            case (name, outcome) if name not in resolved and state.get(name, "-")[0] == "unknown":
                resolved.add(name)
                made.append(resolution(outcome, name))
                if outcome == "happened":
                    state[name] = ("succeeded", state[name][1])
    return made


def calls_of(record: JSON) -> list[JSON]:
    """The calls that a record makes."""
    return record.get("message", {}).get("tool_calls") or []


def plain_reading(records: list[JSON]) -> tuple[list[JSON], dict[str, str]]:
    """The oracle: the open calls in order, and the newest attempt at the latest call of an id."""
    still_open: list[JSON] = []  # the nearest message first
    latest: dict[str, JSON] = {}
    last: dict[str, str] = {}
    begun = set()
    for record in records:
        made, name = calls_of(record), record.get("execution_id")
        still_open = made + still_open
        for call in made:
            latest[call["id"]] = call
            last.pop(call["id"], None)
        call_id = record.get("message", record).get("tool_call_id")
        next_one = next((c for c in still_open if c["id"] == call_id), latest.get(call_id))
        if record["type"] == "message" and next_one in still_open:
            still_open.remove(next_one)
        if record["type"] == "tool_execution" and name not in begun:
            begun.add(name)
            if next_one and next_one == latest[call_id]:
                last[call_id] = name
    return [c for record in records for c in calls_of(record) if c in still_open], last


def last_states(records: list[JSON]) -> dict[str, str]:
    """The oracle: the last word on each attempt, a `happened` being one."""
    found = {}
    for record in records:
        if record["type"] == "tool_execution":
            found[record["execution_id"]] = record["status"]
        if record["type"] == "resolution" and record["outcome"] == "happened":
            found[record["execution_id"]] = "succeeded"
    return found


FIRST, SECOND = ("exec_1", "call_1", WAYS["unknown"]), ("exec_2", "call_1", ["approved"])
RETRIED = [["call_1"], FIRST, ("exec_1", "happened"), SECOND]
REUSED = [["call_1"], ["call_1"], ("result", "call_1"), SECOND]


@given(st.lists(STEP, max_size=25).map(legal_log))
@example(legal_log(RETRIED))
@example(legal_log(REUSED))
def test_the_pure_functions_agree_with_plain_searches(records: list[JSON]) -> None:
    """Open calls, states and last attempts of any legal log are what a plain search finds."""
    before = json.dumps(records)
    still_open, last = plain_reading(records)
    assert pending_tool_calls(records) == still_open
    states = latest_execution_states(records)
    assert {name: record["status"] for name, record in states.items()} == last_states(records)
    found = latest_execution_by_tool_call(records)
    assert {call_id: record["execution_id"] for call_id, record in found.items()} == last
    assert all(found[call_id] == states[name] for call_id, name in last.items())
    assert json.dumps(records) == before
