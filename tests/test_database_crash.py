"""A database that dies, and commits whose answer is lost: nothing acknowledged is lost with it."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from postgres import Server, dump, query
from sqlalchemy import Connection, event, text
from store_child import RECEIPT, Child, children, intent, lines, until

from lai.operations import databases
from lai.operations.databases import CommitUnknown
from lai.operations.outbox import Message, consume
from lai.operations.records import Operation, OperationError, State
from lai.operations.store import Said, Store

pytest_plugins = ["postgres"]

WRITERS, CRASHES, MORE = 3, 3, 8
LIFE = ["planned", "pending", "succeeded"]


@pytest.fixture
def url_of_server(postgres: Server) -> Iterator[str]:
    """A database of a server that is up again afterwards."""
    yield postgres.create()
    if not postgres.running():
        postgres.start()


def writing(born: list[Child], url: str, folder: Path) -> list[Path]:
    """Have the children write without end; the files in which they note what was committed."""
    files = [folder / f"acknowledged-{number}" for number in range(len(born))]
    for child, file in zip(born, files, strict=True):
        child.do("open", url)
        child.tell("write", str(file))
    return files


def wait_for_more(files: list[Path]) -> None:
    """Until each writer has committed some more."""
    before = {file: len(lines(file)) for file in files}
    until(lambda: all(len(lines(file)) >= before[file] + MORE for file in files))


def judge(url: str, acknowledged: list[str]) -> None:
    """All that was acknowledged is there; all that is there is whole."""
    assert [line for line in acknowledged if not line.endswith(" done")] == []
    with Store(url) as store:
        stored = {op.operation_id: op for op in store.all()}
        assert {line.split()[0] for line in acknowledged} <= set(stored)
        for line in acknowledged:
            assert stored[line.split()[0]].state == "succeeded"
        for name, op in stored.items():
            kinds = [said["kind"] for said in store.events(name)]
            assert (kinds, op.state) == (LIFE[: len(kinds)], kinds[-1])
    told = Counter(query(url, "SELECT operation_id FROM outbox"))
    assert told == Counter((n,) for n, op in stored.items() if op.state == "succeeded")
    assert len(stored) - len(acknowledged) <= WRITERS


def test_a_server_that_crashes_loses_nothing(
    postgres: Server, url_of_server: str, tmp_path: Path
) -> None:
    """Stopped at once, again and again, under writers that go on: 0 acknowledged are lost."""
    with children(WRITERS) as born:
        files = writing(born, url_of_server, tmp_path)
        for _ in range(CRASHES):
            wait_for_more(files)
            postgres.crash()
            postgres.start()
        wait_for_more(files)
    judge(url_of_server, [line for file in files for line in lines(file)])


def test_a_writer_that_is_killed_loses_nothing(url: str, tmp_path: Path) -> None:
    """SIGKILL at any moment, one after the other: what each had acknowledged is there, whole."""
    with children(WRITERS) as born:
        files = writing(born, url, tmp_path)
        for number, child in enumerate(born):
            wait_for_more(files[number:])
            assert child.end() == -9
    judge(url, [line for file in files for line in lines(file)])


def held_by(store: Store) -> Operation:
    """A claimed operation that is about to be sent."""
    store.plan(intent())
    held = store.claim("worker", 1e6)
    assert held is not None
    return store.change(held, State.PENDING, "about to send", sent_at=1.0)


def lose(store: Store, moment: str, harm: Callable[[Any], object]) -> list[str]:
    """Do harm to the connection before or after the next commit; says what was done."""
    dialect, did = store.database._engine.dialect, list[str]()
    commit = dialect.do_commit

    def committing(connection: Any) -> None:
        dialect.do_commit = commit  # type: ignore[method-assign]
        did.append(moment)
        if moment == "after":
            commit(connection)
        harm(connection)
        connection.execute("SELECT 1")  # and so the client finds out
        commit(connection)

    dialect.do_commit = committing  # type: ignore[method-assign]
    return did


def cut(postgres: Server) -> Callable[[Any], object]:
    """End the server's side of a connection."""

    def harm(connection: Any) -> None:
        pid = connection.dbapi_connection.info.backend_pid
        assert query(postgres.url, f"SELECT pg_terminate_backend({pid}, 60000)") == [(True,)]

    return harm


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_change_whose_answer_is_lost_is_made_once(
    postgres: Server, url_of_server: str, moment: str
) -> None:
    """Cut off before or after the commit: read back, and made again only if it is not there."""
    with Store(url_of_server) as store:
        query(url_of_server, "CREATE TABLE witness (word VARCHAR)")
        held, tried = held_by(store), list[str]()

        def effect(connection: Connection) -> None:
            tried.append("tried")
            connection.execute(text("INSERT INTO witness VALUES ('书')"))

        lost = lose(store, moment, cut(postgres))
        after = store.change(held, State.SUCCEEDED, "receipt", effect, **RECEIPT)
        assert (lost, len(tried)) == ([moment], 1 if moment == "after" else 2)
        assert after == store.get("op-书")
        assert [said["kind"] for said in store.events("op-书")] == LIFE
        found = dump(url_of_server, "witness", "outbox")
        assert [len(rows) for rows in found.values()] == [1, 1]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_consumer_whose_answer_is_lost_has_acted_once(
    postgres: Server, url_of_server: str, moment: str
) -> None:
    """Cut off in its commit, a consumer finds its own number, or acts again where there is none."""
    query(url_of_server, "CREATE TABLE witness (word VARCHAR)")
    with Store(url_of_server) as store:
        message = Message("m-1", "op-书", "succeeded")
        act = text("INSERT INTO witness VALUES ('书')")
        lost = lose(store, moment, cut(postgres))
        consume(store.database, "mail", message, lambda c: c.execute(act))
        assert consume(store.database, "mail", message, lambda c: c.execute(act)) is False
        assert lost == [moment]
    assert dump(url_of_server, "witness") == {"witness": [("书",)]}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_whatever_loses_its_answer_is_there_once(
    postgres: Server, url_of_server: str, moment: str
) -> None:
    """An intent, a claim, a note and a decision, each cut off: one row or one event of each."""
    with Store(url_of_server) as store:
        harm, lost = cut(postgres), list[str]()
        lost += lose(store, moment, harm)
        planned = store.plan(intent())
        assert planned == store.get("op-书")
        lost += lose(store, moment, harm)
        held = store.claim("worker", 1e6, "op-书")
        assert held == store.get("op-书")
        assert held is not None
        lose(store, moment, harm)
        store.note(held, Said("alarm", "警报", "worker"))
        lose(store, moment, harm)
        after = store.decide(held, State.CANCELLED, "not wanted", "person")
        assert after == store.get("op-书")
        kinds = [said["kind"] for said in store.events("op-书")]
        assert kinds == ["planned", "alarm", "cancelled"]
        assert len(dump(url_of_server, "outbox")["outbox"]) == 1


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_database_that_stays_away_leaves_it_open(
    postgres: Server, url_of_server: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not back in time, it is CommitUnknown, and both are possible; the row tells which it was."""
    monkeypatch.setattr(databases, "RECONNECT", 0.0)
    with Store(url_of_server) as store:
        held = held_by(store)
        lose(store, moment, lambda _: postgres.crash())
        with pytest.raises(CommitUnknown):
            store.change(held, State.SUCCEEDED, "receipt", **RECEIPT)
        postgres.start()
        now = until(lambda: read(store))
        if moment == "after":
            assert (now.state, now.version) == ("succeeded", held.version + 1)
        else:
            assert now == held
            store.change(held, State.SUCCEEDED, "receipt", **RECEIPT)
        assert [said["kind"] for said in store.events("op-书")] == LIFE


def read(store: Store) -> Operation | None:
    """The operation, as soon as the database is back."""
    try:
        return store.get("op-书")
    except OperationError:
        return None


# At the end of a transaction that adds an event: wait for a lock that the test holds.
SLOW_COMMIT = """
    CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON events DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION wait();
"""
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_commit_that_is_still_under_way_is_not_taken_for_lost(
    postgres: Server, url_of_server: str
) -> None:
    """The network breaks while the server commits slowly: the change is made, and by its owner."""
    psycopg = pytest.importorskip("psycopg")
    with Store(url_of_server) as store, psycopg.connect(postgres.url) as other:
        held, used, ended = held_by(store), list[Any](), list[Any]()
        query(url_of_server, SLOW_COMMIT)
        event.listen(store.database._engine, "checkout", lambda raw, *_: used.append(raw))
        other.execute("SELECT pg_advisory_lock(7)")

        def change() -> None:
            try:
                ended.append(store.change(held, State.SUCCEEDED, "receipt", **RECEIPT).state)
            except Exception as error:  # noqa: BLE001 (the test shows it)
                ended.append(repr(error))

        thread = Thread(target=change)
        thread.start()
        until(lambda: query(postgres.url, WAITING) == [(1,)])  # it is in its commit
        with socket.socket(fileno=os.dup(used[-1].fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
        until(lambda: ended or query(postgres.url, WAITING) == [(2,)])  # it tries again
        other.execute("SELECT pg_advisory_unlock(7)")
        thread.join()
        assert ended == ["succeeded"]
        assert [said["kind"] for said in store.events("op-书")] == LIFE
