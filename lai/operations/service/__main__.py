"""The report service as a process of its own, on loopback: a real thing to call.

    python -m lai.operations.service [--port N] [--database FILE] [--profile NAME]
                                     [--work SECONDS] [--late SECONDS] [--mishap NAME]

It prints one line with its address when it accepts requests. ``running.running`` starts it
for a test or a notebook; what it answers is in ``application``.

Rules that live here and nowhere else:

1. It listens on 127.0.0.1 alone.
2. It ends at Ctrl-C, at SIGTERM, and, with ``--with-parent``, when standard input closes or
   its parent is another: a parent that is killed leaves no service behind.

Exit codes: 0 told to stop, 2 it could not start, told in one line on stderr.
"""

import argparse
import json
import logging
import os
import select
import signal
import socket
import sqlite3
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvicorn

from lai.operations.records import OperationError
from lai.operations.service.application import LOOPBACK, application
from lai.operations.service.profiles import PROFILES, Profile
from lai.operations.service.provider import Provider

GRACE = 5.0  # seconds that a stop may take


class _Server(uvicorn.Server):
    """A server that says when it accepts requests."""

    def __init__(self, config: uvicorn.Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._line, flush=True)


def serve(listening: socket.socket, provider: Provider, line: str, parent: int = 0) -> None:
    """Serve until told to stop; ``line`` is printed when requests are accepted."""
    server: _Server
    app = application(provider, lambda: server.should_exit)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=int(GRACE),
    )
    server = _Server(config, line)
    # A reply that is cut off on purpose is no error.
    logging.getLogger("uvicorn.error").addFilter(
        lambda entry: "without completing" not in entry.msg
    )
    if parent:
        threading.Thread(target=_watch_parent, args=(server, parent), daemon=True).start()
    server.run(sockets=[listening])


def _watch_parent(server: uvicorn.Server, parent: int) -> None:
    """Stop the server when the parent is gone."""
    while os.getppid() == parent:
        ready, _, _ = select.select([0], [], [], 0.5)
        if ready and not os.read(0, 1024):
            break
    server.should_exit = True
    time.sleep(GRACE + 1)
    os._exit(1)


def main(arguments: list[str] | None = None) -> int:
    """Run the service; 0 when it was told to stop, 2 with one line for what cannot be."""
    options = _parser().parse_args(arguments)
    os.umask(0o077)  # its database holds titles and keys
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        profile = _profile(options)
        listening = socket.create_server((LOOPBACK, options.port))
        provider = Provider(options.database, profile, time.time, late=options.late)
        if options.mishap:
            provider.plan_mishaps([{"mishap": options.mishap}])
    except (OperationError, OSError, OverflowError, sqlite3.Error) as error:
        print(f"the service cannot start: {error}", file=sys.stderr)
        return 2
    port = listening.getsockname()[1]
    line = f"report service at http://{LOOPBACK}:{port}; Ctrl-C or SIGTERM stops it"
    with listening, provider, suppress(SystemExit):
        serve(listening, provider, line, options.with_parent)
    return 0


def _leave(_: int, __: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _profile(options: argparse.Namespace) -> Profile:
    text = options.profile
    try:
        profile = Profile(**json.loads(text)) if text.startswith("{") else PROFILES[text]
    except (KeyError, TypeError, ValueError):
        names = ", ".join(sorted(PROFILES))
        raise OperationError(f"no such profile: {text}; there are {names}") from None
    return profile if options.work is None else replace(profile, work=options.work)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m lai.operations.service", description=_SUMMARY)
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free port")
    parser.add_argument("--database", default=":memory:", type=Path, help="a file; else in memory")
    parser.add_argument("--profile", default="standard", metavar="NAME", help=_PROFILES)
    parser.add_argument("--work", type=float, metavar="SECONDS", help="how long a job takes")
    parser.add_argument("--late", type=float, default=1.0, metavar="SECONDS", help="of an answer")
    parser.add_argument("--mishap", help=_MISHAPS, metavar="NAME", default="")
    parser.add_argument("--with-parent", type=int, default=0, metavar="PID", help=_PARENT)
    return parser


_SUMMARY = "A report service on loopback, to lose answers with."
_PARENT = "end when this process is no longer the parent, or stdin closes"
_MISHAPS = "what befalls the next request: R1 loses the answer, R2 … R18 (see mishaps.py)"
_PROFILES = f"one of {', '.join(PROFILES)}, or the fields of one as a JSON object"

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # all is closed; taking down what was imported would take longer than this
