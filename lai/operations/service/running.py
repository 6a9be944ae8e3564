"""Start the report service for a test, a notebook cell or a script, and watch it.

    with running(folder, profile="standard", mishaps=[{"mishap": "R1", "call": 1}]) as service:
        client = Client(service.url)
        ...
        service.effects()

It is a real process with a database of its own in ``folder``. It can be stopped, killed
and started again at the same address with the same database. It ends with the ``with``,
and it ends when this process does, however that comes about.
"""

import json
import os
import re
import select
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx2

from lai.operations.records import OperationError
from lai.operations.service.profiles import Profile
from lai.records import JSON

STARTS_WITHIN, STOPS_WITHIN = 30.0, 10.0  # seconds
LOG, DATABASE = "service.log", "service.sqlite"


class Service:
    """The report service in a process of its own. ``url`` is its address.

    What is asked of it (``effects``, ``calls``) needs it to be up, and raises
    :class:`OperationError` where it is not.
    """

    def __init__(self, folder: Path, options: list[str]) -> None:
        self.url = ""
        self._folder, self._options = folder, options
        self._process: subprocess.Popen[bytes] | None = None

    def effects(self) -> JSON:
        """What was really done: ``{"reports": n, "by_key": {key: n}, "anew": n}``."""
        effects: JSON = self._control("GET", "/effects")
        return effects

    def calls(self) -> list[JSON]:
        """What arrived, in order: ``{"call", "method", "path", "key"}`` each."""
        calls: list[JSON] = self._control("GET", "/calls")
        return calls

    def plan_mishaps(self, plan: Iterable[Mapping[str, Any]]) -> None:
        """Replace what is to go wrong: ``{"mishap": "R1", "call": 1, "variant": ""}`` each."""
        self._control("PUT", "/mishaps", list(plan))

    def start(self) -> None:
        """Start it, at the address it had before if it had one."""
        if self._process is not None and self._process.poll() is None:
            raise OperationError("the service is running")
        self.stop()  # closes what is left of one that has ended by itself
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "lai.operations.service"]
        command += ["--with-parent", str(os.getpid()), "--port", port]
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / LOG).touch(mode=0o600)
        with (self._folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.PIPE,  # never written to; its end is the end of the service
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C, or Stop in a notebook, is not meant for it
            )
        self.url = self._address()

    def stop(self) -> None:
        """Ask it to stop, and wait until it has. Nothing to do if it has ended."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it with SIGKILL, in the middle of whatever it is doing."""
        self._end(kill=True)

    def restart(self) -> None:
        """Stop it and start it again: the same address, the same database."""
        self.stop()
        self.start()

    def _address(self) -> str:
        process = self._process
        assert process is not None  # it was just started
        assert process.stdout is not None  # it has a pipe
        ready, _, _ = select.select([process.stdout], [], [], STARTS_WITHIN)
        line = process.stdout.readline().decode() if ready else ""
        found = re.search(r"http://[^\s;]+", line)
        if not found:
            self.kill()
            said = (self._folder / LOG).read_text("utf-8", "replace").strip()
            raise OperationError(said or "the service does not start, and says nothing")
        return found[0]

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:  # closes its pipes and waits
            if kill:
                process.kill()
                return
            process.terminate()
            try:
                process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused; spares loading certificates
        try:
            with httpx2.Client(trust_env=False, timeout=STOPS_WITHIN, verify=plain) as http:
                response = http.request(method, self.url + path, content=content)
        except httpx2.HTTPError as error:
            raise OperationError(f"the service does not answer: {error}") from error
        if response.status_code != 200:
            raise OperationError(f"the service refuses: {response.text}")
        return response.json()


@contextmanager
def running(
    folder: Path,
    *,
    profile: str | Profile = "standard",
    mishaps: Iterable[Mapping[str, Any]] = (),
    work: float | None = None,
    late: float = 1.0,
) -> Iterator[Service]:
    """The service, until the ``with`` ends; its database and its log are in ``folder``.

    ``work`` is how long a job takes, ``late`` how late a late answer is, in seconds.
    Raises :class:`OperationError` if it does not start.
    """
    folder = folder.resolve()
    name = profile if isinstance(profile, str) else json.dumps(asdict(profile))
    options = ["--database", str(folder / DATABASE), "--profile", name, "--late", str(late)]
    service = Service(folder, options if work is None else [*options, "--work", str(work)])
    try:
        service.start()
        if planned := list(mishaps):
            service.plan_mishaps(planned)
        yield service
    finally:
        service.stop()
