"""What the database itself refuses, how it is opened, and what it must not be confused with."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from postgres import dump, query
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from store_child import intent

from lai.operations import databases
from lai.operations.records import Operation, OperationError, State
from lai.operations.store import Store

pytest_plugins = ["postgres"]

MESSAGE = "INSERT INTO outbox VALUES ('m', 'op-rejected', 'rejected', 1, NULL)"
# What the database itself refuses, each from a row in the state that is named first.
REFUSED = [
    ("planned", "UPDATE operations SET state = 'sent'"),
    ("pending", "UPDATE operations SET state = 'succeeded', result_ref = 'r'"),
    ("pending", "UPDATE operations SET state = 'succeeded', result_sha256 = 's'"),
    ("pending", "UPDATE operations SET sent_at = NULL"),
    ("unknown", "UPDATE operations SET sent_at = NULL"),
    ("planned", "UPDATE operations SET state = 'pending'"),
    ("planned", "UPDATE operations SET state = 'unknown'"),
    ("unknown", "UPDATE operations SET state = 'cancelled'"),
    ("planned", "UPDATE operations SET operation_id = 'op-rejected'"),
    ("planned", "UPDATE operations SET idempotency_key = 'op-rejected'"),
    ("planned", "UPDATE operations SET input_sha256 = NULL"),
    ("planned", "UPDATE operations SET idempotency_key = NULL"),
    ("planned", "UPDATE events SET change_id = 'same'"),
    ("planned", "UPDATE events SET operation_id = 'op-nobody'"),
    ("planned", "INSERT INTO outbox VALUES ('m', 'op-nobody', 'rejected', 1, NULL)"),
    ("planned", f"{MESSAGE}, {MESSAGE.partition('VALUES ')[2]}"),
    ("planned", "INSERT INTO inbox VALUES ('c', 'm'), ('c', 'm')"),
]

SECRET = "geheim-密"  # noqa: S105 (it opens nothing)
# What is no URL of a database here. None may be repeated with its password.
BAD_URLS = [
    f"mysql://lai:{SECRET}@host/lai",
    f"mysql://host/lai?user=lai&password={SECRET}",
    f"postgresql//lai:{SECRET}@host/lai",
    f"postgresql://lai:p@{SECRET}@host:port/lai",
    f"postgresql://lai@host:{SECRET}/lai",
    f"sqlite+mine://lai:{SECRET}@/file",
    "file.sqlite",
    "",
]
# What says that a commit is on the disk, and what it must say.
SETTINGS = {
    "sqlite": {"PRAGMA journal_mode": "wal", "PRAGMA synchronous": 2, "PRAGMA foreign_keys": 1},
    "postgresql": {
        "SHOW fsync": "on",
        "SHOW synchronous_commit": "on",
        "SHOW transaction_isolation": "read committed",
    },
}


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store(url) as opened:
        yield opened


def put(store: Store, url: str, state: str) -> Operation:
    """An operation in this state, claimed by the worker."""
    store.plan(intent(f"op-{state}"))
    sent = "NULL" if state == "planned" else "5"
    row = f"state = '{state}', owner = 'worker', fence = 3, sent_at = {sent}"
    query(url, f"UPDATE operations SET {row} WHERE operation_id = 'op-{state}'")  # noqa: S608
    return store.get(f"op-{state}")


def test_what_the_database_itself_refuses(store: Store, url: str) -> None:
    """Past the library's own rules, over its own connection, the row cannot be stored either."""
    for state in ("planned", "pending", "unknown", "rejected"):
        put(store, url, state)
    rows = dump(url)
    for state, statement in REFUSED:
        where = f" WHERE operation_id = 'op-{state}'" if "UPDATE operations" in statement else ""
        with pytest.raises(IntegrityError):
            store.database.write(lambda c, sql=statement + where: c.execute(text(sql)))
        assert dump(url) == rows, statement


def test_there_is_no_success_without_its_receipt(store: Store, url: str) -> None:
    """Neither a worker nor a person can say succeeded without reference and hash."""
    held, seen = put(store, url, "pending"), put(store, url, "review_required")
    rows = dump(url)
    for half in ({}, {"result_ref": "r"}, {"result_sha256": "s"}):
        with pytest.raises(IntegrityError):
            store.change(held, State.SUCCEEDED, "receipt", **half)
        with pytest.raises(IntegrityError):
            store.decide(seen, State.SUCCEEDED, "seen", "person", **half)
    assert dump(url) == rows


@pytest.mark.parametrize("bad", BAD_URLS)
def test_what_is_no_url_is_refused_without_its_password(bad: str) -> None:
    """The error says how a URL is written, and repeats no password, in its causes neither."""
    with pytest.raises(OperationError, match="sqlite:///FILE") as caught:
        Store(bad)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__


def test_a_database_that_is_not_there_is_no_unknown_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything was written, the error does not say that a change may have been made."""
    pytest.importorskip("psycopg")
    monkeypatch.setattr(databases, "RECONNECT", 0.0)
    for url in (f"sqlite:///{tmp_path}/none/file", f"postgresql://lai@/lai?host={tmp_path}"):
        with pytest.raises(OperationError) as caught:
            Store(url)
        assert not isinstance(caught.value, databases.CommitUnknown)


def test_another_version_is_left_alone(store: Store, url: str) -> None:
    """A schema, or a row, of another version raises and changes nothing, no table either."""
    store.plan(intent())
    query(url, "DROP TABLE inbox")
    query(url, "UPDATE about SET schema_version = 2")
    before = dump(url, "about", "operations", "events", "outbox")
    with pytest.raises(OperationError, match="schema version 2"):
        Store(url)
    assert dump(url, "about", "operations", "events", "outbox") == before
    with pytest.raises((sqlite3.OperationalError, pytest.importorskip("psycopg").Error)):
        dump(url, "inbox")
    query(url, "UPDATE operations SET schema_version = 2")
    with pytest.raises(OperationError, match="schema version 2"):
        store.get("op-书")


def test_a_new_database_that_somebody_writes_to_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait for another writer when it switches to WAL; the store does."""
    with closing(sqlite3.connect(tmp_path / "file", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened: list[object] = []
        thread = Thread(target=lambda: opened.append(try_to_open(f"sqlite:///{tmp_path}/file")))
        thread.start()
        thread.join(0.3)  # who does not wait has failed by then
        other.execute("COMMIT")
        thread.join()
    assert opened == ["opened"]


def try_to_open(url: str) -> str:
    """Open a store and close it; what came of it."""
    try:
        Store(url).database.close()
    except Exception as error:  # noqa: BLE001 (the test shows it)
        return repr(error)
    return "opened"


def test_a_store_that_refuses_closes_its_connections(tmp_path: Path) -> None:
    """After a refusal no file of the database is held open."""
    file = tmp_path / "store.sqlite"
    Store(f"sqlite:///{file}").database.close()
    query(f"sqlite:///{file}", "UPDATE about SET schema_version = 2")
    with pytest.raises(OperationError) as caught:
        Store(f"sqlite:///{file}")
    assert str(caught.value)  # it is still held, and what it holds with it
    held = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()]
    assert [name for name in held if name.startswith(str(file))] == []


def test_the_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Database and log of SQLite have mode 0600 under any umask: evidence is nobody's business."""
    before = os.umask(0)
    try:
        with Store(f"sqlite:///{tmp_path}/store.sqlite") as store:
            store.plan(intent())
            modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(modes, 0o600)
    assert {"store.sqlite", "store.sqlite-wal"} <= set(modes)


def test_a_commit_is_on_the_disk(url: str) -> None:
    """Each new connection waits for the disk, keeps references, and reads what is committed."""
    right = SETTINGS[url.partition(":")[0]]
    with Store(url) as store:
        for _ in range(2):
            found = store.database.read(lambda c: {q: c.scalar(text(q)) for q in right})
            assert found == right
            store.database.close()
