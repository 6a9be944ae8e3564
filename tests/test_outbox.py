"""A message is there if the change is; it is handed on at least once, and acted on once."""

from collections.abc import Callable, Iterator
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from far_side import Clock
from postgres import Server, dump, query
from sqlalchemy import Connection, text
from store_child import LIMIT, RECEIPT, intent

from lai.operations.outbox import Message, consume, relay
from lai.operations.records import Operation, State
from lai.operations.store import Store

pytest_plugins = ["postgres"]


class Died(BaseException):
    """A process ends here."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    query(url, "CREATE TABLE done (message_id VARCHAR)")  # the consumer's own, outside the library
    with Store(url, now=clock) as opened:
        yield opened


def pending(store: Store, name: str) -> Operation:
    """A claimed operation that is about to be sent."""
    store.plan(intent(name))
    held = store.claim(f"worker of {name}", 1e6, name)
    assert held is not None
    return store.change(held, State.PENDING, "about to send", sent_at=1.0)


def succeed(store: Store, name: str, effect: Callable[[Connection], object] | None = None) -> None:
    """An operation that reaches its end, and so a message."""
    store.change(pending(store, name), State.SUCCEEDED, "receipt", effect, **RECEIPT)


def act(message: Message, *, fails: bool = False) -> Callable[[Connection], object]:
    """What a consumer does in its database: one row."""

    def write(connection: Connection) -> None:
        connection.execute(text("INSERT INTO done VALUES (:id)"), {"id": message.message_id})
        if fails:
            raise RuntimeError("after it had acted")

    return write


def done(url: str) -> list[str]:
    """What was really done, by message."""
    return sorted(row[0] for row in query(url, "SELECT message_id FROM done"))


def test_a_message_is_handed_on_and_marked(store: Store, url: str, clock: Clock) -> None:
    """Each message goes once, with what it is about; the mark is its only change."""
    succeed(store, "op-书")
    before, got = dump(url), list[Message]()
    clock.at += 60
    assert relay(store, got.append) == 1
    assert [(m.operation_id, m.state) for m in got] == [("op-书", "succeeded")]
    assert relay(store, got.append) == 0
    assert len(got) == 1
    after, row = dump(url), before["outbox"][0]
    assert after["outbox"] == [(*row[:-1], clock.at)]
    assert {k: v for k, v in after.items() if k != "outbox"} == {
        k: v for k, v in before.items() if k != "outbox"
    }


def test_a_relay_that_dies_hands_on_again_and_it_is_done_once(store: Store, url: str) -> None:
    """Died after handing on and before the mark: the same message comes again, and does nothing."""
    for name in ("op-1", "op-2"):
        succeed(store, name)
    got: list[Message] = []

    def publish(message: Message) -> None:
        got.append(message)
        new = consume(store.database, "mail", message, act(message))
        assert new is (got.count(message) == 1)
        if len(got) in {1, 3}:
            raise Died

    for _ in range(2):
        with pytest.raises(Died):
            relay(store, publish)
    assert relay(store, publish) == 1
    assert [m.operation_id for m in got] == ["op-1", "op-1", "op-2", "op-2"]
    assert done(url) == sorted({m.message_id for m in got})


def test_a_message_that_was_not_handed_on_stays(store: Store, url: str) -> None:
    """Died before anything left, or refused by whoever takes it: nothing is marked."""
    succeed(store, "op-1")
    before = dump(url)
    for problem in (Died, OSError):

        def publish(_: Message, problem: type[BaseException] = problem) -> None:
            raise problem

        with pytest.raises(problem):
            relay(store, publish)
        assert dump(url) == before
    got: list[Message] = []
    assert relay(store, got.append) == len(got) == 1


def test_a_consumer_that_fails_keeps_nothing(store: Store, url: str) -> None:
    """Its act and the number of the message are one; after a failure the message is still new."""
    succeed(store, "op-1")
    (message,) = messages(url)
    before = dump(url)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            consume(store.database, "mail", message, act(message, fails=True))
        assert (dump(url), done(url)) == (before, [])
    assert consume(store.database, "mail", message, act(message)) is True
    assert consume(store.database, "mail", message, act(message)) is False
    assert done(url) == [message.message_id]


def messages(url: str) -> list[Message]:
    """All that were ever made, as another program sees them."""
    return [
        Message(*row) for row in query(url, "SELECT message_id, operation_id, state FROM outbox")
    ]


def test_each_consumer_has_its_own_list(store: Store, url: str) -> None:
    """What one consumer has done is new to another."""
    succeed(store, "op-1")
    (message,) = messages(url)
    for consumer in ("mail", "邮件", "mail"):
        consume(store.database, consumer, message, act(message))
    assert done(url) == [message.message_id] * 2


def test_two_relays_hand_on_twice_and_it_is_done_once(store: Store, url: str) -> None:
    """A relay that runs in the middle of another one sends all of it; each act is done once."""
    names = [f"op-{number}" for number in range(5)]
    for name in names:
        succeed(store, name)
    got: list[str] = []

    def second(message: Message) -> None:
        got.append(message.operation_id)
        consume(store.database, "mail", message, act(message))

    def first(message: Message) -> None:
        if not got:
            relay(store, second)
        second(message)

    assert relay(store, first) == 5
    assert sorted(got) == sorted(names * 2)
    assert done(url) == sorted({m.message_id for m in messages(url)})
    assert relay(store, second) == 0


def test_many_consumers_of_one_message_act_once(store: Store, url: str) -> None:
    """Eight threads get the same message at once: one acts, and all others are told so."""
    succeed(store, "op-1")
    (message,) = messages(url)
    gate, new = Barrier(8), list[bool]()

    def run() -> None:
        gate.wait(LIMIT)
        new.append(consume(store.database, "mail", message, act(message)))

    threads = [Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(new) == [False] * 7 + [True]
    assert done(url) == [message.message_id]


def test_the_oldest_goes_first(store: Store, clock: Clock) -> None:
    """Messages go in the order in which they were made, at most so many at a time."""
    names = ["op-c", "op-a", "op-d", "op-b"]
    for name in names:
        succeed(store, name)
        clock.at += 0.001
    got: list[Message] = []
    assert [relay(store, got.append, most=3) for _ in range(3)] == [3, 1, 0]
    assert [m.operation_id for m in got] == names


def test_the_news_of_one_operation_keep_their_order(store: Store) -> None:
    """Even while the clock stands, its later state is told later."""
    held, told = pending(store, "op-1"), list[str]()
    for to in ("review_required", "planned") * 3 + ("review_required", "abandoned"):
        if held.state == "review_required":
            held = store.decide(held, State(to), "seen", "person")
        else:
            claimed = store.claim("worker of op-1", 1e6, "op-1")
            assert claimed is not None
            held = store.change(claimed, State(to), "too long")
        told += [to] * (to != "planned")
    assert held.version >= 10
    got: list[Message] = []
    relay(store, got.append)
    assert [m.state for m in got] == told


@pytest.mark.parametrize("fails", [False, True])
def test_there_is_a_message_if_and_only_if_there_is_the_change(
    store: Store, url: str, fails: bool
) -> None:
    """A change that is rolled back at its last moment tells nobody; one that holds tells once."""
    held, got = pending(store, "op-1"), list[Message]()

    def effect(_: Connection) -> None:
        assert messages(url) == []  # to others it is not there yet
        if fails:
            raise RuntimeError("at the last moment")

    try:
        store.change(held, State.SUCCEEDED, "receipt", effect, **RECEIPT)
    except RuntimeError:
        assert fails
    relay(store, got.append)
    changed = store.get("op-1").state == "succeeded"
    assert (changed, len(got)) == (not fails, 0 if fails else 1)


def test_what_commits_late_is_not_skipped(postgres: Server) -> None:
    """Made first and committed last, a message goes too: what was sent since does not hide it."""
    with Store(postgres.create()) as store:
        made, go, got = Event(), Event(), list[Message]()

        def wait(_: Connection) -> Any:
            made.set()
            assert go.wait(LIMIT)

        slow = Thread(target=succeed, args=(store, "op-slow", wait))
        slow.start()
        assert made.wait(LIMIT)
        succeed(store, "op-fast")
        assert relay(store, got.append) == 1
        go.set()
        slow.join()
        assert relay(store, got.append) == 1
        assert [m.operation_id for m in got] == ["op-fast", "op-slow"]
