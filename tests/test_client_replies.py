"""What the client makes of a reply: this operation's job, another's, a refusal, or nothing."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from far_side import BODY, operation

from lai.calls import arguments_sha256
from lai.operations.answers import Answer, Remote
from lai.operations.client import Client

JOB: dict[str, Any] = {
    "job_id": "job-1",
    "idempotency_key": "op-report-001",
    "input_sha256": arguments_sha256(BODY),
    "status": "completed",
    "executions": 1,
    "receipt": {
        "report_id": "report-1",
        "idempotency_key": "op-report-001",
        "input_sha256": arguments_sha256(BODY),
        "title": BODY["title"],
    },
}
RECEIPT = JOB["receipt"]
# Bodies under 200 and application/json, and what they say.
BODIES: list[tuple[bytes, Remote]] = [
    (json.dumps(JOB).encode(), Remote.COMPLETED),
    (b"", Remote.NO_ANSWER),
    (b"<html>busy</html>", Remote.NO_ANSWER),
    (b"null", Remote.NO_ANSWER),
    (b"[]", Remote.NO_ANSWER),
    (b"{}", Remote.NO_ANSWER),
    (b'{"error": "upstream request failed"}', Remote.NO_ANSWER),
    (b'{"status": "completed"}', Remote.NO_ANSWER),
    (json.dumps(JOB).encode()[:-1], Remote.NO_ANSWER),
    (json.dumps(JOB).encode().replace(b"report-1", b"\xff\xfe"), Remote.NO_ANSWER),
    (b'{"a":' * 100_000, Remote.NO_ANSWER),
    (json.dumps(JOB | {"executions": 0}).replace("0", "9" * 5000).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"status": "done"}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"status": ["completed"]}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"receipt": "see mail"}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"receipt": RECEIPT | {"n": float("nan")}}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"receipt": RECEIPT | {"n": "\ud800"}}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"status": "failed", "error": "\ud800"}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"job_id": ["job-1"]}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"job_id": ""}).encode(), Remote.NO_ANSWER),
    (json.dumps(JOB | {"idempotency_key": "op-2"}).encode(), Remote.MISMATCH),
    (json.dumps(JOB | {"input_sha256": "0" * 64}).encode(), Remote.MISMATCH),
    (
        json.dumps(JOB | {"receipt": RECEIPT | {"idempotency_key": "op-2"}}).encode(),
        Remote.MISMATCH,
    ),
    (
        json.dumps(JOB | {"receipt": RECEIPT | {"input_sha256": "0" * 64}}).encode(),
        Remote.MISMATCH,
    ),
]
# Statuses with the service's own words, and what a POST and a GET hear in them.
REFUSALS = [
    (400, "invalid_input", Remote.FAILED, Remote.NO_ANSWER),
    (422, "invalid_input", Remote.FAILED, Remote.NO_ANSWER),
    (409, "in_progress", Remote.BUSY, Remote.NO_ANSWER),
    (409, "key_reused", Remote.MISMATCH, Remote.NO_ANSWER),
    (409, "stale_fence", Remote.NO_ANSWER, Remote.NO_ANSWER),
    (404, "unknown_operation", Remote.NOT_FOUND, Remote.NOT_FOUND),
    (404, "no_such_endpoint", Remote.NO_ANSWER, Remote.NO_ANSWER),
    (429, "", Remote.BUSY, Remote.BUSY),
    (503, "", Remote.BUSY, Remote.BUSY),
    (401, "", Remote.NO_ANSWER, Remote.NO_ANSWER),
    (413, "", Remote.NO_ANSWER, Remote.NO_ANSWER),
    (500, "", Remote.NO_ANSWER, Remote.NO_ANSWER),
    (502, "", Remote.NO_ANSWER, Remote.NO_ANSWER),
]
Handler = Callable[[httpx2.Request], httpx2.Response]


def both(handler: Handler) -> tuple[Answer, Answer]:
    """What a POST and a GET hear from ``handler``."""
    with Client(httpx2.MockTransport(handler)) as made:
        return made.send(operation(), BODY), made.ask(operation())


@pytest.mark.parametrize(("body", "status"), BODIES)
def test_every_body_is_read(body: bytes, status: Remote) -> None:
    """A body is this operation's job, or another's, or it says nothing."""
    headers = {"content-type": "application/json"}
    posted, asked = both(lambda _: httpx2.Response(200, headers=headers, content=body))
    assert (posted.status, asked.status) == (status, status)
    for text in (posted.evidence, json.dumps(posted.receipt, ensure_ascii=False)):
        text.encode()  # it can be stored and shown


@pytest.mark.parametrize(("status", "code", "posted", "asked"), REFUSALS)
def test_every_refusal_is_read(status: int, code: str, posted: Remote, asked: Remote) -> None:
    """A refused POST may be a no; a refused question is none."""
    heard = both(lambda _: httpx2.Response(status, json={"code": code}))
    assert tuple(one.status for one in heard) == (posted, asked)


@pytest.mark.parametrize("kind", ["text/html", "text/plain; charset=utf-8", "", "image/png"])
def test_a_body_of_another_kind_says_nothing(kind: str) -> None:
    """A job in a page is not the service's word."""
    headers = {"content-type": kind}
    content = json.dumps(JOB).encode()
    heard = both(lambda _: httpx2.Response(200, headers=headers, content=content))
    assert {one.status for one in heard} == {Remote.NO_ANSWER}


def test_a_packed_reply_is_not_unpacked() -> None:
    """We asked for plain bytes; a small body that becomes a large one is no answer."""
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    packed = gzip.compress(json.dumps(JOB).encode())
    heard = both(lambda _: httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(packed)))
    assert {one.status for one in heard} == {Remote.NO_ANSWER}
