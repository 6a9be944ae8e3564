"""One key, four executors: which of them refuses a second action under it.

    with post_office(folder, deaf) as address:
        tool = answer_lost(by_service(address))

Every tool here is called ``send``, promises to be keyed, and is given the key in the way of
its kind: a variable, a column, a header. Whether the promise is true is another matter.

Rules that live here:

1. The promise is the tool's word, and the library takes it. Some of these tools lie, and
   nothing in the library finds out; only a count outside does (``letters``).
2. What was sent is counted where it arrived: lines, rows, the post office's own book. No
   counter reads a session.
3. The post office is real HTTP on this machine. It takes one request at a time, and it
   alone decides what the key in the header means.

``effects`` has the tools for crash runs; a child process cannot be handed one of these.
"""

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from socketserver import TCPServer

from lai.course import effects
from lai.records import JSON
from lai.tools import Effect, Run, Tool
from lai.view import environment

AUDIT, BOOK = "audit.log", "letters.jsonl"
HEADER, VARIABLE = "Idempotency-Key", "IDEMPOTENCY_KEY"
PATIENCE = 10.0  # seconds that a letter may take
Office = Callable[[Path, JSON], None]  # what a post office does with a letter, and its book


def by_bash(root: Path) -> Tool:
    """Writes a line; the command finds the key in its environment."""

    def run(arguments: JSON, attempt: Run) -> JSON:
        known = {VARIABLE: attempt.key, "TEXT": arguments["text"]}
        line = ["bash", "-c", f'printf "%s\\n" "$TEXT" >> {AUDIT}']
        subprocess.run(line, cwd=root, env=environment(None) | known, check=True)
        return {"sent": arguments["text"]}

    return _send(run)


def by_table(root: Path) -> Tool:
    """Inserts a row; the key goes into a UNIQUE column."""
    return _send(effects.pay(root, lambda *_: None).run)


def by_service(address: tuple[str, int]) -> Tool:
    """Posts a letter; the key goes into a header."""

    def run(arguments: JSON, attempt: Run) -> JSON:
        connection = HTTPConnection(*address, timeout=PATIENCE)
        try:
            connection.request("POST", "/", json.dumps(arguments), {HEADER: attempt.key})
            answer: JSON = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer

    return _send(run)


def answer_lost(tool: Tool) -> Tool:
    """The tool, but its first answer gets lost on the way back: the effect is there."""
    answers = count()

    def run(arguments: JSON, attempt: Run) -> JSON:
        result = tool.run(arguments, attempt)
        if next(answers) == 0:
            raise TimeoutError("no answer came")
        return result

    return replace(tool, run=run)


def deaf(book: Path, letter: JSON) -> None:
    """Send the letter, whatever its key."""
    with book.open("a", encoding="utf-8", newline="") as file:
        file.write(json.dumps(letter) + "\n")


def careful(book: Path, letter: JSON) -> None:
    """Send the letter unless one with its key was sent before."""
    if letter["key"] not in {sent["key"] for sent in letters(book)}:
        deaf(book, letter)


def letters(book: Path) -> list[JSON]:
    """Every letter that a post office sent, in order."""
    return [json.loads(line) for line in book.read_bytes().splitlines()] if book.exists() else []


@contextmanager
def post_office(root: Path, office: Office) -> Iterator[tuple[str, int]]:
    """A service that keeps its book in ``root``; gives its address on this machine."""

    class Counter(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
            office(root / BOOK, {"key": self.headers[HEADER], "text": text})
            answer = json.dumps({"sent": text}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
            """Say nothing."""

    # No HTTPServer: that one asks the network for the name of this machine.
    with TCPServer(("127.0.0.1", 0), Counter) as server:
        clerk = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        clerk.start()
        try:
            yield "127.0.0.1", int(server.server_address[1])
        finally:
            server.shutdown()
            clerk.join()


def _send(run: Callable[[JSON, Run], JSON]) -> Tool:
    return Tool(
        name="send",
        description="Send a text, once a key.",
        arguments=effects.Text,
        run=run,
        effect=Effect.KEYED,
        key_scope="whoever is given the key",
        key_retention=3600.0,
    )
