"""What a mishap makes of an answer: the same reply, spoilt.

The work is done, or not, before this. Here only what is said about it changes: a refusal
in its place, another operation's job, a body that cannot be read.

It does not know whether the answer arrives at all (``provider``).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from lai.operations.answers import Reply
from lai.operations.service.jobs import Job, json_reply
from lai.operations.service.mishaps import Mishap
from lai.records import JSON

OTHERS = Job(
    number=900_001,
    key="another-operation",
    input_sha256="0" * 64,
    title="another report",
    content_sha256="1" * 64,
    status="completed",
    ending="completed",
    created_at=0.0,
    ends_at=0.0,
    copies=1,
    stuck=0,
    known=1,
    anew=0,
)


def disturbed(reply: Reply, befalls: Mapping[Mishap, str]) -> Reply:
    """``reply`` as the mishaps of its call leave it."""
    for mishap, disturb in _DISTURB.items():
        if mishap in befalls:
            reply = disturb(reply, befalls[mishap])
    return reply


def _at_work(reply: Reply, _: str) -> Reply:
    return _instead(reply, 409, {"code": "in_progress"}, retry_after="1")


def _others(reply: Reply, _: str) -> Reply:
    return _instead(reply, 200, OTHERS.document(1))


def _taken_back(reply: Reply, _: str) -> Reply:
    job = _job(reply)
    if job.get("status") != "completed":
        return reply
    del job["receipt"]
    return _instead(reply, reply.status, {**job, "status": "running", "executions": 0})


def _outrun(reply: Reply, variant: str) -> Reply:
    # As if a second copy of the service, unknown to the first, had done it too.
    job = _job(reply)
    if variant == "same" or "job_id" not in job:
        return reply
    job["job_id"] += "-b"
    if receipt := job.get("receipt"):
        receipt["report_id"] += "-b"
    return _instead(reply, reply.status, job)


def _unreadable(reply: Reply, variant: str) -> Reply:
    match variant:
        case "truncated":
            length = {"content-length": str(len(reply.body))}
            half = reply.body[: len(reply.body) // 2]
            return replace(reply, headers={**reply.headers, **length}, body=half)
        case "content_type":
            return replace(reply, headers={**reply.headers, "content-type": "text/html"})
        case "error_body":
            return _instead(reply, 200, {"error": "upstream request failed"})
        case _:
            moved = {**reply.headers, "location": "http://elsewhere.invalid/login"}
            return Reply(302, moved, b"")


def _instead(reply: Reply, status: int, document: JSON, **headers: str) -> Reply:
    other = json_reply(status, document, **headers)
    return replace(other, headers={**reply.headers, **other.headers})


def _job(reply: Reply) -> JSON:
    job: JSON = json.loads(reply.body)
    return job


_DISTURB: Mapping[Mishap, Callable[[Reply, str], Reply]] = {
    Mishap.KEY_AT_WORK: _at_work,
    Mishap.OTHER_OPERATION: _others,
    Mishap.TAKEN_BACK: _taken_back,
    Mishap.OUTRUN: _outrun,
    Mishap.UNREADABLE: _unreadable,
}
