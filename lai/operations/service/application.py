"""The HTTP side of the report service: paths to calls, and answers that are held back.

==========================  ============================================================
``POST /reports``           make a report, under the header Idempotency-Key
``GET /reports?key=KEY``    what became of it; ``GET /reports/{job_id}`` likewise
``GET /effects``            the control side, for whoever watches: what was really done,
``GET /calls``              what arrived,
``PUT /mishaps``            and what is to go wrong
``GET /health``             whether it accepts requests
==========================  ============================================================

Rules that live here and nowhere else:

1. The event loop calls the provider and never waits inside it: calls are served one after
   the other, and an answer that is held back keeps nobody else waiting.
2. A lost answer is held until the client is gone. What is held when the service stops is
   cut off, never answered.
3. A request that names another host than this one is refused.

It does not know how the process is started and ended (``service``).
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Receive, Scope, Send

from lai.operations.answers import Reply
from lai.operations.records import OperationError
from lai.operations.service.jobs import LARGEST_BODY, json_reply
from lai.operations.service.mishaps import Mishap
from lai.operations.service.provider import Delivery, Fate, Provider

LOOPBACK = "127.0.0.1"
LOOK = 0.02  # seconds between two looks at a client that is kept waiting
Stopping = Callable[[], bool]


def application(provider: Provider, stopping: Stopping = lambda: False) -> FastAPI:
    """The HTTP side of ``provider``; ``stopping`` says when to let go of held answers."""
    app = FastAPI(openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])

    @app.post("/reports")
    async def create(request: Request) -> Response:
        body = await _body(request)
        key = request.headers.get("idempotency-key")
        return await _deliver(request, provider.create(key, body, request.headers), stopping)

    @app.get("/reports")
    async def by_key(request: Request, key: str = "") -> Response:
        if not key:
            return _Verbatim(json_reply(400, {"code": "no_key"}))
        return await _deliver(request, provider.by_key(key), stopping)

    @app.get("/reports/{job_id}")
    async def by_job(request: Request, job_id: str) -> Response:
        return await _deliver(request, provider.by_job(job_id), stopping)

    _control(app, provider)
    return app


def _control(app: FastAPI, provider: Provider) -> None:
    @app.get("/effects")
    async def effects() -> Any:
        return provider.effects()

    @app.get("/calls")
    async def calls() -> Any:
        return provider.calls()

    @app.put("/mishaps")
    async def mishaps(request: Request) -> Response:
        try:
            plan = json.loads(await request.body())
            if not isinstance(plan, list):
                raise OperationError("a plan is a list of mishaps")
            if any(one.get("mishap") == Mishap.UNREACHABLE for one in plan):
                raise OperationError("R16 needs a service that is not there: stop() it instead")
            provider.plan_mishaps(plan)
        except (OperationError, ValueError, AttributeError, RecursionError) as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse({})

    @app.get("/health")
    async def health() -> Any:
        return {"accepts": True}


async def _body(request: Request) -> bytes:
    """The body, as far as anybody would read it."""
    body = bytearray()
    async for piece in request.stream():
        if len(body) <= LARGEST_BODY:
            body += piece
    return bytes(body)


async def _deliver(request: Request, delivery: Delivery, stopping: Stopping) -> Response:
    held = delivery.fate is Fate.LOST
    until = time.monotonic() + (float("inf") if held else delivery.after)
    while time.monotonic() < until:
        if stopping() or await request.is_disconnected():
            return _Verbatim(Reply(200, {"content-length": "1"}, b""))
        await asyncio.sleep(min(LOOK, max(until - time.monotonic(), 0.0)))
    return _Verbatim(delivery.reply)


class _Verbatim(Response):
    """A reply as it stands. Where it announces more bytes than it has, the connection breaks."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body, reply.status, dict(reply.headers))
        self._whole = int(reply.headers.get("content-length", len(reply.body)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) >= self._whole:
            await super().__call__(scope, receive, send)
            return
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
