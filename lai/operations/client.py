"""The client of the report service: one request, one answer, and no second try.

Whatever the network does, the caller gets an ``Answer``. What it cannot know it does not
guess: only a connection that never came about is ``NOT_SENT``; every other failure, at
whatever moment, is ``NO_ANSWER``.

Rules that live here and nowhere else:

1. A request is made once. There is no retry, no redirect is followed, and each request
   has a connection of its own: a stale one would turn a plain "not sent" into a riddle.
2. A reply is bounded, in bytes and in time. What is longer is no answer.
3. A question is answered by a job, by "not found" or by "ask later". A refusal is about
   the question, and says nothing about the operation.
4. Proxies of the environment are not used: a proxy may send what we believe unsent.

It does not know what follows from an answer (``policy``), and records nothing.
"""

import json
import re
import time
from typing import Self
from urllib.parse import quote

import httpx2

from lai.operations.answers import Answer, Remote, Reply, read_reply
from lai.operations.records import SENDABLE, Operation, OperationError
from lai.operations.waiting import within
from lai.records import JSON

LARGEST_REPLY = 1 << 20  # bytes
WAITS = 3  # connection, request, reply: each may take the time limit once
NOWHERE = "http://report-service.invalid"  # the address where a transport needs none
# Raised before a connection stands, so before a byte of the request can leave.
UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")  # what cannot leave its place in a path


class _TooMuch(Exception):
    """A reply beyond its bounds."""


def _require_address(address: str) -> None:
    """Raise OperationError, without repeating what may hold a secret, for what is none."""
    try:
        url = httpx2.URL(address)
        fits = url.scheme in {"http", "https"} and 0 < (url.port or 80) < 65536
        url.host.encode("idna")
    except (httpx2.InvalidURL, UnicodeError):
        fits = False
    if not fits or not url.host or url.userinfo:
        raise OperationError("not the address of a service; write http://HOST:PORT")


class Client:
    """Speaks to the service at an address, or over a transport that needs none.

    ``timeout`` in seconds bounds each wait for the network, and the reading of a body as a
    whole. ``version`` is the interface that this program speaks. Raises
    :class:`OperationError` for an address that is none.
    """

    def __init__(
        self, service: str | httpx2.BaseTransport, timeout: float = 5.0, version: str = "v1"
    ) -> None:
        self._far = isinstance(service, str)
        address = service if isinstance(service, str) else NOWHERE
        _require_address(address)
        self._timeout, self._version = timeout, version
        self._http = httpx2.Client(
            base_url=address,
            transport=None if isinstance(service, str) else service,
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def send(self, operation: Operation, body: JSON) -> Answer:
        """``POST`` the input of ``operation``, once. Raises ValueError for what is no JSON."""
        if answer := self._other_version(operation):
            return answer
        if not SENDABLE.fullmatch(operation.idempotency_key):
            return Answer(Remote.NOT_SENT, "this key cannot be sent in a header")
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        request = self._http.build_request(
            "POST",
            "/reports",
            content=content,
            headers={
                "Content-Type": "application/json",
                "Idempotency-Key": operation.idempotency_key,
                **self._headers(operation),
            },
        )
        reply = self._exchange(request)
        if isinstance(reply, Reply):
            return read_reply(operation, reply)
        status = Remote.NOT_SENT if isinstance(reply, UNSENT) else Remote.NO_ANSWER
        return Answer(status, _said(reply))

    def ask(self, operation: Operation) -> Answer:
        """``GET`` what became of ``operation``: by its job number if that is known, else by key."""
        if answer := self._other_version(operation):
            return answer
        job = operation.remote_job_id or ""
        by_job = _JOB_ID.fullmatch(job) is not None
        request = self._http.build_request(
            "GET",
            f"/reports/{quote(job)}" if by_job else "/reports",
            params=None if by_job else {"key": operation.idempotency_key},
            headers=self._headers(operation),
        )
        reply = self._exchange(request)
        if not isinstance(reply, Reply):
            return Answer(Remote.NO_ANSWER, _said(reply))
        if reply.status in {400, 409, 422}:
            return Answer(Remote.NO_ANSWER, f"HTTP {reply.status} to a question says nothing")
        return read_reply(operation, reply)

    def close(self) -> None:
        """Close it; a request afterwards raises RuntimeError."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _headers(self, operation: Operation) -> dict[str, str]:
        return {"Api-Version": self._version, "Fencing-Token": str(operation.fence)}

    def _other_version(self, operation: Operation) -> Answer | None:
        if operation.tool_version == self._version:
            return None
        said = f"planned for {operation.tool_version}; this program speaks {self._version}"
        return Answer(Remote.MISMATCH, f"{said}, and has sent nothing")

    def _exchange(self, request: httpx2.Request) -> Reply | Exception:
        """The reply, or what came in its place; within the time limit as a whole."""
        if not self._far:
            return self._exchanged(request)
        try:  # a service may drip byte after byte, each in time: the whole has a limit too
            whole = self._timeout * WAITS
            return within(whole, lambda: self._exchanged(request), lambda _: None)
        except TimeoutError:
            return _TooMuch("an answer that does not end")

    def _exchanged(self, request: httpx2.Request) -> Reply | Exception:
        until = time.monotonic() + self._timeout
        try:
            response = self._http.send(request, stream=True)
            try:
                body = _read(response, until)
            finally:
                response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, _TooMuch) as error:
            return error
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, headers, body)


def _read(response: httpx2.Response, until: float) -> bytes:
    body = bytearray()
    # As it came: nothing is unpacked. A transport in memory may have read it already.
    pieces = (response.content,) if response.is_stream_consumed else response.iter_raw()
    for piece in pieces:
        body += piece
        if len(body) > LARGEST_REPLY:
            raise _TooMuch(f"a reply of more than {LARGEST_REPLY} bytes")
        if time.monotonic() > until:
            raise _TooMuch("a reply that does not end")
    return bytes(body)


def _said(error: Exception) -> str:
    return f"{type(error).__name__.lstrip('_')}: {error}".removeprefix("TooMuch: ")
