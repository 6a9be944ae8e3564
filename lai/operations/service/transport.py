"""The report service without a network: the real client speaks to a ``Provider`` in memory.

An ``httpx2`` transport in the place of sockets. What would happen on a wire happens as the
exception that httpx2 raises for it, so the client's code is the same as in the world.

A late answer is one that nobody waits for: the client gets its timeout at once, and the
delivery goes to ``late``, for whoever plays the part of the network.
"""

from collections.abc import Iterator
from urllib.parse import unquote

import httpx2

from lai.operations.service.provider import Delivery, Fate, Provider


def transport_of(provider: Provider, late: list[Delivery] | None = None) -> httpx2.BaseTransport:
    """A transport to ``provider``. Late deliveries are appended to ``late``."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        delivery = ask(provider, request)
        match delivery.fate:
            case Fate.REFUSED:
                raise httpx2.ConnectError("connection refused", request=request)
            case Fate.DELIVERED:
                return _response(delivery, request)
            case Fate.LATE if late is not None:
                late.append(delivery)
        raise httpx2.ReadTimeout("timed out", request=request)

    return httpx2.MockTransport(handle)


def ask(provider: Provider, request: httpx2.Request) -> Delivery:
    """The provider's part of one request."""
    if request.method == "POST":
        headers = {name.lower(): value for name, value in request.headers.items()}
        return provider.create(headers.get("idempotency-key"), request.content, headers)
    if "key" in request.url.params:
        return provider.by_key(request.url.params["key"])
    return provider.by_job(unquote(request.url.path.rpartition("/")[2]))


def _response(delivery: Delivery, request: httpx2.Request) -> httpx2.Response:
    reply = delivery.reply
    whole = int(reply.headers.get("content-length", len(reply.body)))
    return httpx2.Response(
        reply.status,
        headers=dict(reply.headers),
        stream=_Body(reply.body, whole),
        request=request,
    )


class _Body(httpx2.SyncByteStream):
    """A body; where fewer bytes come than were announced, the connection breaks."""

    def __init__(self, body: bytes, whole: int) -> None:
        self._body, self._whole = body, whole

    def __iter__(self) -> Iterator[bytes]:
        yield self._body
        if len(self._body) < self._whole:
            raise httpx2.RemoteProtocolError("peer closed connection before the end of the body")
