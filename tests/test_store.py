"""The store keeps intents and hands out claims, the same on both databases."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from far_side import Clock
from postgres import dump, query
from store_child import RECEIPT, intent

from lai.operations.records import IllegalChange, OperationError, State
from lai.operations.store import KeyConflict, Store

pytest_plugins = ["postgres"]

OPEN = {"planned", "pending", "unknown"}  # in which a scheduler has something to do
# Another intent than the stored one, for something that the stored one has taken.
OTHERS: dict[str, dict[str, Any]] = {
    "another input": {"input_sha256": "2" * 64},
    "another tool": {"tool_name": "delete_report"},
    "another key": {"idempotency_key": "key-2"},
    "another scope": {"scope": "test-account"},
    "another id under the key": {"operation_id": "op-3"},
    "the id of one and the key of another": {"idempotency_key": "op-2"},
}
T = 1_800_000_000.125


@pytest.fixture
def clock() -> Clock:
    return Clock(T)


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with Store(url, now=clock) as opened:
        yield opened


def test_an_intent_is_stored_once(store: Store, url: str) -> None:
    """Planned again, an operation is found: the same row, one event, no message."""
    first = store.plan(intent(run_id="运行\u2028 🙂", tool_version="v\u0085"))
    before = dump(url)
    again = store.plan(replace(first, resume_action=None, run_id="later", deadline_at=1.0))
    assert again == first == store.get("op-书")
    assert dump(url) == before
    assert [len(before[name]) for name in ("operations", "events", "outbox")] == [1, 1, 0]
    assert (first.state, first.resume_action, first.fence) == ("planned", "send", 0)


def test_another_intent_is_a_conflict(store: Store, url: str) -> None:
    """An identity or a key that is taken by something else raises, and nothing is stored."""
    store.plan(intent("op-1", idempotency_key="op-1"))
    store.plan(intent("op-2"))
    before = dump(url)
    for why, changed in OTHERS.items():
        with pytest.raises(KeyConflict):
            store.plan(intent(**{"operation_id": "op-1", "idempotency_key": "op-1"} | changed))
        assert dump(url) == before, why


def test_a_key_is_one_action_within_its_scope(store: Store) -> None:
    """The same key in another scope is another operation."""
    for scope in ("account-1", "account-2", "ACCOUNT-1"):
        store.plan(intent(f"op-{scope}", scope=scope, idempotency_key="key"))
    assert len(store.all()) == 3


def test_an_operation_begins_as_planned(store: Store, url: str) -> None:
    """An intent in any other state raises and stores nothing."""
    before = dump(url)
    for state in set(State) - {State.PLANNED}:
        with pytest.raises(IllegalChange):
            store.plan(intent(state=state, sent_at=1.0, **RECEIPT))
    assert dump(url) == before


def test_the_longest_due_is_claimed_first(store: Store, clock: Clock) -> None:
    """What was never asked about comes first, then by its time; what is not due never."""
    due = {"op-d": T + 0.25, "op-c": T - 1, "op-a": T, "op-b": T - 2, "op-e": None}
    for name, at in due.items():
        store.plan(intent(name, next_query_at=at))
    claimed = [store.claim(f"worker-{number}", 100.0) for number in range(5)]
    assert [c and c.operation_id for c in claimed] == ["op-e", "op-b", "op-c", "op-a", None]
    clock.at += 0.25
    last = store.claim("worker-5", 100.0)
    assert last is not None
    assert last.operation_id == "op-d"


def test_a_claim_ends_with_its_lease(store: Store, clock: Clock) -> None:
    """Nobody gets what is leased; from its end on the next one does, with fence + 1."""
    store.plan(intent())
    found = []
    for number in range(1, 6):
        held = store.claim(f"worker-{number}", 10.0)
        assert held == store.get("op-书")
        assert (held.owner, held.lease_until) == (f"worker-{number}", clock.at + 10.0)
        found.append((held.fence, held.version))
        for waited in (0.0, 9.875):
            clock.at += waited
            assert store.claim("other", 10.0) is None
            assert store.claim("other", 10.0, "op-书") is None
        clock.at += 0.125
    assert found == [(number, 1 + number) for number in range(1, 6)]


def test_an_owner_takes_its_own_claim_again_by_name(store: Store, clock: Clock) -> None:
    """Named, a leased operation is its owner's again, under a new fence; unnamed it is not."""
    store.plan(intent(next_query_at=T + 1000))
    assert store.claim("worker", 10.0) is None
    first = store.claim("worker", 10.0, "op-书")
    clock.at += 5
    assert store.claim("worker", 10.0) is None
    again = store.claim("worker", 10.0, "op-书")
    assert first is not None
    assert again is not None
    assert (again.fence, again.lease_until) == (first.fence + 1, T + 15)
    assert store.claim("worker", 10.0, "op-other") is None


def test_a_claim_touches_one_row_and_logs_nothing(store: Store, url: str) -> None:
    """All other rows of all tables are as before, and of the claimed one only the claim is new."""
    for name in ("op-1", "op-2", "op-3"):
        store.plan(intent(name))
    before, others = dump(url, "events", "outbox"), store.all()
    held = store.claim("worker", 10.0, "op-2")
    assert dump(url, "events", "outbox") == before
    one, two, three = others
    claim = {"owner": "worker", "fence": 1, "version": 2, "lease_until": T + 10}
    assert [store.get(name) for name in ("op-1", "op-2", "op-3")] == [
        one,
        replace(two, **claim),
        three,
    ]
    assert held == store.get("op-2")


def test_a_claim_is_for_what_a_scheduler_may_do(store: Store, url: str) -> None:
    """Planned, pending and unknown can be claimed; what waits for a person or has ended cannot."""
    for state in State:
        store.plan(intent(f"op-{state}"))
        sent = "NULL" if state in {"planned", "cancelled"} else "1, result_ref = 'r'"
        row = f"state = '{state}', result_sha256 = 's', sent_at = {sent}"
        query(url, f"UPDATE operations SET {row} WHERE operation_id = 'op-{state}'")  # noqa: S608
    before = dump(url)
    assert {s for s in State if store.claim("worker", 0.0, f"op-{s}")} == OPEN
    query(url, "UPDATE operations SET owner = NULL, lease_until = NULL")
    claims = [store.claim("worker", 10.0) for _ in range(4)]
    assert [c and c.state for c in claims] == [*sorted(OPEN), None]
    touched = [row for row in before["operations"] if row not in dump(url)["operations"]]
    assert len(touched) == len(OPEN)


def test_the_clock_is_the_one_that_all_share(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite takes the time of its host; PostgreSQL its own, whatever this host believes."""
    real = time.time()
    with Store(url) as store:
        monkeypatch.setattr(time, "time", lambda: 1000.0)
        store.plan(intent())
        held = store.claim("worker", 60.0)
        assert held is not None
        assert held.lease_until is not None
        if url.startswith("sqlite"):
            assert (store.now(), held.lease_until) == (1000.0, 1060.0)
        else:
            assert store.now() >= real
            assert held.lease_until >= real + 60
            assert store.events("op-书")[0]["at"] >= real


def test_all_is_there_after_opening_again(store: Store, url: str) -> None:
    """Another store on the same database finds every field and every event as they were."""
    store.plan(intent("op-1", remote_job_id="作业 🙂", deadline_at=T + 1e-6))
    held = store.claim("worker \u2028", 0.1)
    assert held is not None
    sent = store.change(held, State.PENDING, "evidence \u0085 书", sent_at=T + 2e-6, attempt=2)
    events, known = store.events("op-1"), store.all()
    store.database.close()
    with Store(url) as again:
        assert (again.all(), again.get("op-1"), again.events("op-1")) == (known, sent, events)
        assert again.all([State.PLANNED]) == []
        with pytest.raises(OperationError, match="no operation 'op-2'"):
            again.get("op-2")
