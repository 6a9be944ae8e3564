"""The two databases: how they are opened, where they differ, and a commit without an answer.

SQLite: WAL, so that readers do not wait; ``synchronous=FULL``, so that a commit is on the
disk; a writing transaction begins as one (``BEGIN IMMEDIATE``), so that none finds out at
its end that it cannot write. It must stay on one host: its locks and its clock are the
host's. PostgreSQL: READ COMMITTED, where a condition is checked again on the newest row.

A connection that breaks in COMMIT leaves the outcome open, as a timeout does anywhere. The
work is then done again, and finds its own traces if it was done before.

It does not know what is stored.
"""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    ClauseElement,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    extract,
    func,
    make_url,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    OperationalError,
)

from lai.operations.records import OperationError
from lai.outcome import writable

T = TypeVar("T")
S = TypeVar("S")
BUSY = 30.0  # seconds that a writer waits for another one
RECONNECT, PAUSE = 10.0, 0.05  # seconds in which a database may come back, between two tries
# The URL is not repeated: it may hold a password, and not only where one expects it.
_UNFIT = "no database URL. Write sqlite:///FILE or postgresql://USER@HOST/NAME"
# SQLSTATEs of a server that ends or begins; a connection that never came about has none.
_AWAY = {None, "57P01", "57P02", "57P03"}
# Not now(): that one stands still from the beginning of a transaction.
CLOCK = extract("epoch", func.clock_timestamp())


class Unreachable(OperationError):
    """The database cannot be opened; nothing was written."""


class Busy(OperationError):
    """Somebody else has locked the database for too long; trying later is harmless."""


class CommitUnknown(OperationError):
    """The connection broke, and the database has not come back to say what it committed."""


class Database:
    """One database by URL; raises :class:`OperationError` for a URL that is none."""

    def __init__(self, url: str) -> None:
        try:
            where = make_url(url)
            self.is_sqlite = where.drivername == "sqlite" and not where.query
        except (ArgumentError, ValueError):  # a port that is none
            raise OperationError(_UNFIT) from None
        named = where.database if self.is_sqlite else None
        self._file = Path(named) if named and named != ":memory:" else None
        self._inode = 0
        if self.is_sqlite and not str(named).startswith("file:"):
            self._engine = _sqlite(where)
        elif where.drivername in {"postgresql", "postgresql+psycopg"} and "@" not in str(
            where.host
        ):
            self._engine = _postgres(where)
        else:
            raise OperationError(_UNFIT)

    def prepare(self, work: Callable[[Connection], object]) -> None:
        """The first use: do ``work`` in a transaction, or raise :class:`Unreachable`."""
        try:
            with self._engine.begin() as connection:
                work(connection)
            self._inode = self._file.stat().st_ino if self._file else 0
        except DBAPIError as error:
            self.close()
            raise Unreachable(f"the database cannot be opened: {error.orig}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def now(self) -> float:
        """The time by the clock that all who share the database share."""
        if self.is_sqlite:
            return time.time()
        return self.read(lambda connection: float(connection.execute(select(CLOCK)).scalar_one()))

    def read(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` finds; again, if the connection breaks."""

        def reading() -> T:
            with self._engine.connect().execution_options(reading=True) as connection:
                return work(connection)

        return self._while_it_is_there(reading)

    def _require_its_file(self) -> None:
        """Work in a file that nobody can see any more is lost; say so instead."""
        if self._file and (not self._file.exists() or self._file.stat().st_ino != self._inode):
            raise Unreachable(f"{self._file} was removed or replaced; start again")

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do ``work`` in one transaction.

        It is done again if the connection breaks, so it must find out by itself that it was
        done before: the broken connection may have committed it, or may be about to.
        """
        self._require_its_file()

        def writing() -> T:
            with self._engine.begin() as connection:
                return work(connection)

        return self._while_it_is_there(writing)

    def _while_it_is_there(self, action: Callable[[], S]) -> S:
        end = time.monotonic() + RECONNECT
        while True:
            try:
                return action()
            except IntegrityError:  # a constraint: whoever breaks one should see which
                raise
            except DBAPIError as error:
                if not _connection_broke(error):
                    raise _refused(error) from None  # a statement's text may hold evidence
                if time.monotonic() > end:
                    raise CommitUnknown(
                        f"the database is away since {RECONNECT:.0f} s; whether the last change is "
                        "in it is unknown. Start it, then read the operation before anything else."
                    ) from error
                time.sleep(PAUSE)


def _connection_broke(error: DBAPIError) -> bool:
    """Whether the server is gone; a statement that it refused is no such thing."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", "-") in _AWAY


def _refused(error: DBAPIError) -> OperationError:
    locked = isinstance(error.orig, sqlite3.OperationalError) and "locked" in str(error.orig)
    return (Busy if locked else OperationError)(f"the database refuses: {error.orig}")


def storable(text: str) -> str:
    """Text as every database can hold it; what was heard is kept, whatever is in it."""
    return writable(text).replace("\0", "\ufffd")


def _sqlite(where: URL) -> Engine:
    if where.database and where.database != ":memory:":
        # Evidence is its owner's; the log beside the file takes over the mode. An existing
        # file is not touched: closing it here would drop the locks that SQLite holds on it.
        with suppress(OSError):
            os.close(os.open(where.database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    engine = create_engine(where, connect_args={"timeout": BUSY})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgres(where: URL) -> Engine:
    try:
        return create_engine(where.set(drivername="postgresql+psycopg"))
    except ModuleNotFoundError as error:
        raise OperationError("PostgreSQL needs its driver: pip install 'lai[postgres]'") from error


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # BEGIN is ours, not the driver's
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """While somebody writes to a new file, SQLite refuses this at once; it is waited for here."""
    end = time.monotonic() + BUSY
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(PAUSE)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading")
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def insert_new(connection: Connection, table: Table, **values: Any) -> bool:
    """Insert a row unless one of its unique values is taken; whether it was inserted."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    spoken = {name: value for name, value in values.items() if isinstance(value, ClauseElement)}
    statement = dialect.insert(table).values(**spoken) if spoken else dialect.insert(table)
    statement = statement.on_conflict_do_nothing().returning(*table.primary_key)
    plain = {name: value for name, value in values.items() if name not in spoken}
    return connection.execute(statement, plain).first() is not None
