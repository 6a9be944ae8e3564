"""The client makes one request of one call and an answer of everything that can come back."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import httpx2
import pytest
from far_side import BODY, far_side, operation

from lai.calls import arguments_sha256
from lai.operations.answers import Answer, Remote
from lai.operations.client import LARGEST_REPLY, Client
from lai.operations.records import Operation, OperationError

ERRORS = [
    error
    for error in vars(httpx2).values()
    if isinstance(error, type) and issubclass(error, httpx2.RequestError)
]
# Raised before there is a connection: the only ones after which nothing can have left.
UNSENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol"}
# What a broken server sends over a real connection before it closes it.
WIRES = [
    b"",
    b"220 mail.invalid ESMTP\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
]
Handler = Callable[[httpx2.Request], httpx2.Response]


class Pieces(httpx2.SyncByteStream):
    """A body that never ends, counting what is taken of it."""

    def __init__(self, piece: bytes) -> None:
        self.piece, self.taken, self.closed = piece, 0, False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.taken += len(self.piece)
            yield self.piece

    def close(self) -> None:
        """Note that nobody reads on."""
        self.closed = True


def client(handler: Handler, **options: Any) -> Client:
    return Client(httpx2.MockTransport(handler), **options)


def sent(client: Client, known: Operation | None = None) -> Answer:
    return client.send(known or operation(), BODY)


def both(handler: Handler) -> tuple[Answer, Answer]:
    """What a POST and a GET hear from ``handler``."""
    with client(handler) as made:
        return sent(made), made.ask(operation())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_no_failure_of_the_network_is_raised(error: type[httpx2.RequestError]) -> None:
    """Every failure is an answer; only one without a connection proves that nothing left."""

    def fail(_: httpx2.Request) -> httpx2.Response:
        raise error("broken 线")

    posted, asked = both(fail)
    assert posted.status is (Remote.NOT_SENT if error.__name__ in UNSENT else Remote.NO_ANSWER)
    assert asked.status is Remote.NO_ANSWER
    assert posted.evidence == asked.evidence == f"{error.__name__}: broken 线"


def test_the_failures_are_those_of_the_library() -> None:
    """The table above has the errors that httpx2 names, the four without a connection too."""
    names = {error.__name__ for error in ERRORS}
    assert names > UNSENT | {"ReadTimeout", "WriteTimeout", "ReadError", "RemoteProtocolError"}


def test_a_connection_that_breaks_later_may_have_sent() -> None:
    """A failure in the middle of the answer is no proof, even if it is a connection's."""

    class Breaks(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"{"
            raise httpx2.ReadError("reset")

    posted, asked = both(lambda _: httpx2.Response(200, stream=Breaks()))
    assert posted.status is asked.status is Remote.NO_ANSWER


def test_the_request_says_who_asks_for_what() -> None:
    """Key, version and fencing token are headers, and the body is the input as hashed."""
    seen: list[httpx2.Request] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(500)

    with client(note) as made:
        sent(made, operation(fence=7))
        made.ask(operation("op/书&x", fence=8))
        made.ask(operation(remote_job_id="job-1"))
    post, by_key, by_job = seen
    assert (post.method, post.url.path) == ("POST", "/reports")
    names = ("idempotency-key", "api-version", "fencing-token", "content-type")
    told = [post.headers[name] for name in names]
    assert told == ["op-report-001", "v1", "7", "application/json"]
    assert arguments_sha256(json.loads(post.content)) == operation().input_sha256
    assert (by_key.method, by_key.url.path) == ("GET", "/reports")
    assert dict(by_key.url.params) == {"key": "op/书&x"}
    assert by_key.headers["fencing-token"] == "8"
    assert (by_job.url.path, by_job.url.query) == ("/reports/job-1", b"")


@pytest.mark.parametrize("job", ["", ".", "..", "../effects", "a/b", "a?key=b", "a#b", "书", "j\n"])
def test_a_job_number_stays_in_its_place(job: str) -> None:
    """The service chose the number; one that is no plain word is not put into a path."""
    paths: list[str] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        paths.append(str(request.url))
        return httpx2.Response(500)

    with client(note) as made:
        made.ask(operation(remote_job_id=job))
    assert paths == ["http://report-service.invalid/reports?key=op-report-001"]


@pytest.mark.parametrize("key", ["", "a b", "op\r\nX: y", "书", "k" * 256])
def test_a_key_that_no_header_can_carry_is_not_sent(key: str) -> None:
    """It is found out before there is a connection, so nothing was sent."""
    with client(lambda _: pytest.fail("a request was made")) as made:
        assert sent(made, operation(key)).status is Remote.NOT_SENT


def test_another_version_is_not_spoken() -> None:
    """An operation planned for another version is neither sent nor asked about."""
    with client(lambda _: pytest.fail("a request was made"), version="v2") as made:
        assert sent(made).status is Remote.MISMATCH
        assert made.ask(operation()).status is Remote.MISMATCH


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    """The request goes to one address, once."""
    urls: list[str] = []

    def move(request: httpx2.Request) -> httpx2.Response:
        urls.append(request.url.host)
        return httpx2.Response(status, headers={"location": "http://elsewhere.invalid/"})

    posted, asked = both(move)
    assert posted.status is asked.status is Remote.NO_ANSWER
    assert urls == ["report-service.invalid"] * 2


def test_a_long_reply_is_not_read_to_its_end() -> None:
    """Beyond the limit nothing is taken, and the connection is closed."""
    body = Pieces(b"x" * 65_536)
    with client(lambda _: httpx2.Response(200, stream=body)) as made:
        answer = sent(made)
    assert (answer.status, body.closed) == (Remote.NO_ANSWER, True)
    assert body.taken <= LARGEST_REPLY + 65_536


def test_a_reply_without_an_end_is_not_waited_for() -> None:
    """A body that keeps coming in drops is given up when the time is over."""
    body = Pieces(b" ")
    with client(lambda _: httpx2.Response(200, stream=body), timeout=0.0) as made:
        answer = sent(made)
    assert answer == Answer(Remote.NO_ANSWER, "a reply that does not end")
    assert (body.taken, body.closed) == (1, True)


@pytest.mark.parametrize("address", ["", "report-service", "ftp://x", "file:///etc", "http://"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """It is said when the client is made, before there is anything to recover."""
    with pytest.raises(OperationError, match="address"):
        Client(address)


def test_what_is_no_json_is_not_sent() -> None:
    """An input that has no JSON raises before there is a connection."""
    with (
        client(lambda _: pytest.fail("a request was made")) as made,
        pytest.raises(ValueError, match="JSON"),
    ):
        made.send(operation(), {"title": float("nan")})


@pytest.mark.parametrize("bytes_", WIRES, ids=range(len(WIRES)))
def test_a_broken_server_says_nothing(bytes_: bytes) -> None:
    """Whatever comes over a connection that stood, the request may have been taken."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(20)  # a client that uses one connection twice would hang
        requests: list[bytes] = []

        def serve() -> None:
            for _ in range(2):
                connection, _address = listening.accept()
                with connection:
                    requests.append(connection.recv(65_536))
                    connection.sendall(bytes_)

        thread = threading.Thread(target=serve)
        thread.start()
        with Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=10) as made:
            heard = sent(made), made.ask(operation())
        thread.join()
    assert {one.status for one in heard} == {Remote.NO_ANSWER}
    assert [one.split()[0] for one in requests] == [b"POST", b"GET"]  # each once


def test_each_request_has_its_own_connection() -> None:
    """A connection that was left open is not used again: it may be dead, and that is a riddle."""
    said = b"HTTP/1.1 500 Sorry\r\nContent-Length: 0\r\n\r\n"
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.settimeout(20)

        def serve() -> None:
            for _ in range(2):
                connection = stack.enter_context(listening.accept()[0])  # and it stays open
                connection.recv(65_536)
                connection.sendall(said)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        made = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=10)
        with made:
            heard = [sent(made), made.ask(operation())]
    assert [one.evidence[:8] for one in heard] == ["HTTP 500"] * 2


def test_where_nobody_listens_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused connection is proof, and a proxy of the environment is not asked instead."""
    with closing(socket.create_server(("127.0.0.1", 0))) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with closing(socket.create_server(("127.0.0.1", 0))) as gone:
            address = f"http://127.0.0.1:{gone.getsockname()[1]}"
        with Client(address, timeout=10) as made:
            assert sent(made).status is Remote.NOT_SENT
            assert made.ask(operation()).status is Remote.NO_ANSWER


def test_a_closed_client_is_a_mistake() -> None:
    """Using it afterwards raises: that is no news from the network."""
    with far_side() as side:
        side.client.close()
        with pytest.raises(RuntimeError):
            side.send()
