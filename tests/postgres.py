"""A PostgreSQL of the tests' own, and the fixtures that hand out its databases.

The server comes from a package, in a new folder, and listens on a socket in that folder
alone. Each test gets an empty database. Where no server can start, the tests that need one
are skipped and say why; with ``LAI_REQUIRE_POSTGRES=1`` they fail instead.

A test module takes the fixtures with ``pytest_plugins = ["postgres"]``. It may import from
here as well: PYTEST_DONT_REWRITE, there is no assertion in this file.
"""

import importlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lai.course.postgres import CANNOT, Server

REQUIRED = "LAI_REQUIRE_POSTGRES"
TABLES = ("about", "operations", "events", "outbox", "inbox")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server, running; one for each process of the tests."""
    try:
        server = Server()
    except CANNOT as error:
        why = f"no PostgreSQL can be started here: {error}"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(why)
        pytest.skip(why)
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/操作 💾.sqlite"
    server: Server = request.getfixturevalue("postgres")
    return server.create()


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement past the library, commit, and return its rows."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def dump(url: str, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of these tables (or all), as another program sees them."""
    chosen = tables or TABLES
    return {name: sorted(query(url, f"SELECT * FROM {name}"), key=repr) for name in chosen}  # noqa: S608
