"""A change is compared and set: by whoever may, of the row that was seen, whole or not at all."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from postgres import dump, query
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from store_child import BODY, RECEIPT, intent, stub_worker

from lai.operations import databases
from lai.operations.answers import Answer, Reply, read_reply
from lai.operations.records import IllegalChange, Operation, OperationError, State
from lai.operations.store import ClaimLost, Said, Store
from lai.records import JSON

pytest_plugins = ["postgres"]

# From, to, who: all edges there are. P owner (the process), H person (a human).
EDGES = """
    planned>planned:P planned>pending:P planned>cancelled:PH planned>review_required:P
    pending>planned:P pending>unknown:P pending>succeeded:P pending>rejected:P
    pending>review_required:P
    unknown>unknown:P unknown>succeeded:P unknown>rejected:P unknown>review_required:P
    review_required>planned:H review_required>unknown:H review_required>succeeded:H
    review_required>rejected:H review_required>abandoned:H review_required>cancelled:H
""".split()
EDGE = {tuple(edge.partition(":")[0].split(">")): edge.partition(":")[2] for edge in EDGES}
RESUME = {
    "planned": "send",
    "pending": "query_or_review",
    "unknown": "query_or_review",
    "review_required": "review",
    "succeeded": "reuse_result",
}
TOLD = {"succeeded", "rejected", "cancelled", "abandoned", "review_required"}
IDENTITY = """
    run_id operation_id tool_name tool_version input_ref input_sha256 scope idempotency_key
""".split()
NOW = 1_800_000_000.0


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(databases, "RECONNECT", 0.0)  # none is lost here
    with Store(url, now=lambda: NOW) as opened:
        yield opened


def put(
    store: Store, url: str, state: str, operation_id: str = "op-书", *, unsent: bool = False
) -> Operation:
    """An operation in any state, claimed by the worker under fence 3."""
    store.plan(intent(operation_id))
    sent = "NULL" if unsent or state in {"planned", "cancelled"} else "5"
    receipt = "result_ref = 'r', result_sha256 = 's'," if state == "succeeded" else ""
    query(
        url,
        f"UPDATE operations SET state = '{state}', sent_at = {sent}, {receipt} owner = 'worker', "  # noqa: S608
        f"fence = 3, version = 7, lease_until = 9e9 WHERE operation_id = '{operation_id}'",
    )
    return store.get(operation_id)


def needed(to: str) -> dict[str, Any]:
    """What a state needs beside its name."""
    return {"pending": {"sent_at": 5.0}, "succeeded": dict(RECEIPT)}.get(to, {})


def act(store: Store, seen: Operation, to: State, who: str) -> Operation:
    """Try an edge."""
    if who == "P":
        return store.change(seen, to, "证据 \u2028", **needed(to))
    return store.decide(seen, to, "证据 \u2028", "per 🙂", **needed(to))


def test_no_edge_but_the_tabled_ones(store: Store, url: str) -> None:
    """Whoever tries what is no edge, or not theirs, is refused; all rows are as they were."""
    seen = [put(store, url, state, f"op-{state}") for state in State]
    rows, refused = dump(url), 0
    for before, to, who in product(seen, State, "PH"):
        if who not in EDGE.get((before.state, to), ""):
            with pytest.raises(IllegalChange):
                act(store, before, to, who)
            refused += 1
    assert dump(url) == rows
    assert refused == 2 * 8 * 8 - 20  # all but the tabled ones


def test_an_edge_is_one_row_one_event_and_a_message_if_others_want_it(
    store: Store, url: str
) -> None:
    """State, mark and version change and the claim ends, except by pending; the rest stays."""
    for number, (before, to) in enumerate(EDGE):
        for who in EDGE[before, to]:
            name = f"op-{number}-{who}"
            seen = put(store, url, before, name, unsent=to == "cancelled")
            others = [op for op in store.all() if op != seen]
            after = act(store, seen, State(to), who)
            assert asdict(after) == asdict(store.get(name)) == expected(seen, to), (before, to)
            assert [op for op in store.all() if op.operation_id != name] == others
            *_, planned, new = store.events(name)
            said = (new["kind"], new["evidence"], new["by"], new["fence"], new["at"])
            assert said == (to, "证据 \u2028", "worker" if who == "P" else "per 🙂", 3, NOW)
            assert planned["kind"] == "planned"
            told = query(url, f"SELECT state FROM outbox WHERE operation_id = '{name}'")  # noqa: S608
            assert told == ([(to,)] if to in TOLD else [])


def expected(seen: Operation, to: str) -> dict[str, Any]:
    """The row after an edge."""
    claim = {} if to == "pending" else {"owner": None, "lease_until": None}
    new = {"state": to, "version": seen.version + 1, "resume_action": RESUME.get(to)}
    return asdict(seen) | new | needed(to) | claim


@pytest.mark.parametrize("stale", [{"owner": "other"}, {"fence": 2}, {"version": 6}], ids=str)
def test_a_stale_worker_changes_nothing_and_leaves_what_it_heard(
    store: Store, url: str, stale: dict[str, Any]
) -> None:
    """Owner, fence and version must all be the row's; else one late event, and no other row."""
    held = put(store, url, "pending")
    rows, events = dump(url, "operations", "outbox"), store.events("op-书")
    late = replace(held, **stale)
    with pytest.raises(ClaimLost):
        store.change(late, State.SUCCEEDED, "收据 🙂", **RECEIPT)
    assert dump(url, "operations", "outbox") == rows
    assert store.events("op-书")[:-1] == events
    last = store.events("op-书")[-1]
    assert (last["kind"], last["fence"], last["by"]) == ("late", late.fence, str(late.owner))
    assert "succeeded" in last["evidence"]
    assert "收据 🙂" in last["evidence"]


def test_a_lease_that_is_over_takes_nothing_away(store: Store) -> None:
    """An owner whose lease is over may still finish, as long as nobody has claimed since."""
    store.plan(intent())
    held = store.claim("worker", 0.0)
    assert held is not None
    held = store.change(held, State.PENDING, "about to send", sent_at=NOW)
    assert store.change(held, State.SUCCEEDED, "receipt", **RECEIPT).state == "succeeded"


def test_a_decision_needs_its_evidence(store: Store, url: str) -> None:
    """Without words there is no decision, and no row changes."""
    seen, rows = put(store, url, "review_required"), dump(url)
    for evidence in ("", " \n", "\u3000\u2028\u0085"):
        with pytest.raises(OperationError, match="evidence"):
            store.decide(seen, State.REJECTED, evidence, "person")
    assert dump(url) == rows


def test_a_decision_is_about_what_was_seen(store: Store, url: str) -> None:
    """A person who saw an older row decides nothing: not after a claim, not after a change."""
    seen = store.plan(intent())
    held = store.claim("worker", 10.0)
    assert held is not None
    rows = dump(url)
    with pytest.raises(ClaimLost):
        store.decide(seen, State.CANCELLED, "not wanted", "person")
    assert dump(url) == rows
    store.decide(held, State.CANCELLED, "not wanted", "person")  # now they saw the claim
    rows = dump(url, "operations")
    with pytest.raises(ClaimLost):
        store.change(held, State.PENDING, "about to send", sent_at=NOW)
    assert dump(url, "operations") == rows


def test_a_decision_answers_the_question(store: Store, url: str) -> None:
    """What was missing and who had claimed are gone from the row, and a worker may go on."""
    put(store, url, "review_required")
    query(url, "UPDATE operations SET review_reason = 'which answer is true'")
    after = store.decide(store.get("op-书"), State.UNKNOWN, "asked them", "person")
    assert (after.review_reason, after.owner, after.lease_until) == (None, None, None)
    assert store.claim("worker-2", 10.0) is not None


@pytest.mark.parametrize("fails", [False, True])
def test_an_effect_is_done_with_the_change_or_not_at_all(
    store: Store, url: str, fails: bool
) -> None:
    """State, event, message and an effect in the same database are one: all there, or none."""
    held = put(store, url, "pending")
    query(url, "CREATE TABLE witness (word VARCHAR)")
    tables = ("operations", "events", "outbox", "witness")
    before = dump(url, *tables)

    def effect(connection: Connection) -> None:
        connection.execute(text("INSERT INTO witness VALUES ('书')"))
        if fails:
            raise RuntimeError("the effect fails at its end")

    if fails:
        with pytest.raises(RuntimeError):
            store.change(held, State.SUCCEEDED, "done", effect, **RECEIPT)
        assert dump(url, *tables) == before
        assert store.change(held, State.UNKNOWN, "the claim is as it was").state == "unknown"
    else:
        store.change(held, State.SUCCEEDED, "done", effect, **RECEIPT)
        grown = {name: len(rows) - len(before[name]) for name, rows in dump(url, *tables).items()}
        assert grown == {"operations": 0, "events": 1, "outbox": 1, "witness": 1}


def test_an_effect_is_not_done_for_a_stale_worker(store: Store, url: str) -> None:
    """Who has lost the claim does not act in the database either."""
    stale = replace(put(store, url, "pending"), fence=2)
    query(url, "CREATE TABLE witness (word VARCHAR)")
    insert = text("INSERT INTO witness VALUES ('书')")
    with pytest.raises(ClaimLost):
        store.change(stale, State.SUCCEEDED, "done", lambda c: c.execute(insert), **RECEIPT)
    assert dump(url, "witness") == {"witness": []}


# A whole life, with a resend that a person permits: who goes where.
LIFE = "P:pending P:unknown P:unknown P:review_required H:planned P:pending P:succeeded".split()


def test_identity_key_and_input_are_the_same_for_life(store: Store) -> None:
    """No step of a long life changes what the operation is, and each claim has a higher fence."""
    seen = store.plan(intent(run_id="运行"))
    fixed = {name: getattr(seen, name) for name in IDENTITY}
    fences, kinds = [0], ["planned"]
    for step in LIFE:
        who, _, to = step.partition(":")
        if who == "P":
            seen = store.claim("worker", 10.0, "op-书") or pytest.fail(f"not claimed for {to}")
            fences.append(seen.fence)
        seen = act(store, seen, State(to), who)
        kinds.append(to)
        assert {name: getattr(store.get("op-书"), name) for name in IDENTITY} == fixed
    assert fences == sorted(set(fences))
    assert [event["kind"] for event in store.events("op-书")] == kinds


def test_no_change_touches_the_identity(store: Store, url: str) -> None:
    """A change that brings another identity, key, input, fence or version is refused."""
    held, seen = put(store, url, "pending", "op-1"), put(store, url, "review_required")
    rows = dump(url)
    for name in (*IDENTITY, "version", "fence", "schema_version"):
        other = {name: 99 if isinstance(getattr(seen, name), int) else "another"}
        with pytest.raises((OperationError, TypeError)):
            store.change(held, State.UNKNOWN, "timeout", **other)
        with pytest.raises((OperationError, TypeError)):
            store.decide(seen, State.UNKNOWN, "seen", "person", **other)
        assert dump(url) == rows, name


def test_what_was_heard_is_kept_whatever_is_in_it(store: Store, url: str) -> None:
    """A service may say anything: evidence is stored and readable, and nothing waits or breaks."""
    held = put(store, url, "pending")
    for odd in ("\u2028\u0085", "\x1b[31m", "🙂" * 10_000, "\x00", "\ud800"):
        store.note(held, Said("late", f"before{odd}after", "worker"))
        said = store.events("op-书")[-1]["evidence"]
        assert (said[:6], said[-5:]) == ("before", "after")
    store.change(held, State.UNKNOWN, "\x00\ud800")
    assert store.get("op-书").state == "unknown"


def test_what_the_driver_refuses_is_no_lost_connection(store: Store, url: str) -> None:
    """A value that cannot be stored raises at once and changes nothing; nothing is unknown."""
    held, before = put(store, url, "pending"), dump(url)
    with pytest.raises((OperationError, DBAPIError)) as caught:
        store.change(held, State.UNKNOWN, "timeout", last_said=object())
    assert (type(caught.value) is databases.CommitUnknown, dump(url)) == (False, before)


class Odd:
    """A service whose reply has ``odd`` in every text that is its own."""

    def __init__(self, status: str, odd: str) -> None:
        self.job = {"job_id": f"job-{odd}", "status": status, "error": odd, "executions": 1}
        self.odd = odd

    def send(self, operation: Operation, body: JSON) -> Answer:
        """Answer to the request."""
        del body
        about = {n: getattr(operation, n) for n in ("idempotency_key", "input_sha256")}
        receipt = {**about, "title": self.odd}
        data = json.dumps({**self.job, **about, "receipt": receipt}).encode()
        return read_reply(operation, Reply(200, {"content-type": "application/json"}, data))

    def ask(self, operation: Operation) -> Answer:
        """Answer to the question, the same."""
        return self.send(operation, {})


@pytest.mark.parametrize("odd", ["\x00", "\ud800"], ids=ascii)
def test_an_odd_reply_stops_nobody(store: Store, tmp_path: Path, odd: str) -> None:
    """Whatever a reply holds, the step ends, what was heard is logged, and the claim is over."""
    for status in ("running", "failed", "completed"):
        worker = stub_worker(store, tmp_path, "", 1e6, Odd(status, odd))
        worker.plan(f"op-{status}", BODY, run_id="run", tool_name="create_report")
        after = worker.work_on(f"op-{status}")
        assert after == store.get(f"op-{status}")
        assert (after.owner, after.state == "pending") == (None, False)
        assert store.events(f"op-{status}")[-1]["kind"] == after.state
