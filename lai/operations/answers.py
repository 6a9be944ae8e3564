"""What a service said about one operation, as a value, and how its reply is read.

Everything a client can live through ends as one :class:`Answer` with one of eight
statuses. Most replies say nothing about the outcome; they become ``NO_ANSWER``, never a
guess.

Rules that live here and nowhere else:

1. An answer counts only if it is about this operation: its key, the hash of its input, and
   the job that was named before. Anything else is ``MISMATCH``, however successful it
   sounds.
2. ``FAILED`` needs the service's own word that it has not done it and will not. An error
   page, a stored 500 and a broken body are no such word.
3. ``NOT_SENT`` needs the transport's word that no byte left.

It does not know what follows from an answer (``policy``), or how it was got (``client``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

from lai.calls import ArgumentsError, parse_arguments
from lai.operations.records import Operation
from lai.outcome import DEEPEST, deeper
from lai.records import JSON


class Remote(StrEnum):
    """The eight things that can be heard of an operation."""

    COMPLETED = "completed"  # done, with a receipt
    RUNNING = "running"  # accepted, not finished
    FAILED = "failed"  # for certain not done, and never to be
    NOT_FOUND = "not_found"  # the service does not know it (yet)
    BUSY = "busy"  # ask later: too many requests, or the same key is at work
    NO_ANSWER = "no_answer"  # nothing that says anything about the outcome
    MISMATCH = "mismatch"  # an answer about something else
    NOT_SENT = "not_sent"  # no byte of the request left this machine


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. ``evidence`` says in words what was heard, for the log and for people.

    ``receipt`` is the service's own document when COMPLETED; ``retry_after`` is in
    seconds, as the service asked. ``said`` is the service's own word for where the job
    stands, empty if it said none. ``alarm`` is what a person must hear although the
    outcome is clear.
    """

    status: Remote
    evidence: str
    job_id: str | None = None
    receipt: JSON | None = None
    retry_after: float | None = None
    said: str = ""
    alarm: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What the service's documentation promises; times in seconds.

    ``retention``: for how long a key is remembered (None: it says nothing).
    ``absent_final_after``: how long after sending "not found" becomes a certain no (None:
    it never does). ``margin`` is kept from both ends, for clocks that differ.
    """

    scope: str
    tool_version: str
    retention: float | None = None
    absent_final_after: float | None = None
    margin: float = 0.0
    source: str = field(default="", compare=False)  # where it says so


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP reply as it came: nothing in it is believed yet."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


_NAMES = ("idempotency_key", "input_sha256", "job_id")  # what an answer is about


def read_reply(operation: Operation, reply: Reply) -> Answer:
    """What ``reply`` says about ``operation``."""
    version = reply.headers.get("api-version", operation.tool_version)
    if version != operation.tool_version:  # its words may mean something else by now
        return Answer(Remote.MISMATCH, f"the service now speaks {version}")
    match reply.status:
        case 200 | 201 | 202:
            return _read_job(operation, reply)
        case 404:
            return _not_found(reply)
        case 429 | 503:
            return Answer(
                Remote.BUSY, f"HTTP {reply.status}: ask later", retry_after=_retry_after(reply)
            )
        case 400 | 409 | 422:
            return _refusal(reply)
        case _:
            return Answer(Remote.NO_ANSWER, f"HTTP {reply.status} says nothing about the outcome")


def _read_job(operation: Operation, reply: Reply) -> Answer:
    job = _json(reply)
    if job is None:
        return Answer(Remote.NO_ANSWER, f"HTTP {reply.status} with a body that is no JSON object")
    unnamed = [name for name in _NAMES if not (job.get(name) and isinstance(job[name], str))]
    if unnamed:
        return Answer(Remote.NO_ANSWER, f"an answer that does not say its {', '.join(unnamed)}")
    if wrong := _differs(operation, job):
        return Answer(Remote.MISMATCH, f"an answer about another operation: {wrong}")
    number, said = job["job_id"], str(job.get("status"))
    answer = partial(Answer, job_id=number, said=said)
    match said:
        case "completed" if isinstance(job.get("receipt"), dict):
            if wrong := _differs(operation, job["receipt"] | {"job_id": number}):
                return Answer(Remote.MISMATCH, f"a receipt for another operation: {wrong}")
            times = job.get("executions", 1)
            alarm = "" if times == 1 else f"the service reports {times!r} executions under one key"
            return answer(
                Remote.COMPLETED, f"{number} completed", receipt=job["receipt"], alarm=alarm
            )
        case "completed":
            return answer(Remote.NO_ANSWER, f"{number} completed, it says, but without a receipt")
        case "running":
            return answer(Remote.RUNNING, f"{number} is running")
        case "failed":
            reason = job.get("error", "no reason given")
            return answer(Remote.FAILED, f"{number} failed: {reason}")
        case _:
            return Answer(Remote.NO_ANSWER, f"a status this program does not know: {said!r}")


def _differs(operation: Operation, job: JSON) -> str:
    """Which of the facts that identify the operation is another one; empty if none is."""
    expected = {
        "idempotency_key": operation.idempotency_key,
        "input_sha256": operation.input_sha256,
        "job_id": operation.remote_job_id or job.get("job_id"),
    }
    wrong = [name for name, value in expected.items() if job.get(name) != value]
    return ", ".join(f"{name} is {job.get(name)!r}" for name in wrong)


def _not_found(reply: Reply) -> Answer:
    # Any proxy can say 404; only the service's own words are about the operation.
    said = _code(reply)
    if said == "unknown_operation":
        return Answer(Remote.NOT_FOUND, "the service does not know this operation")
    return Answer(Remote.NO_ANSWER, "HTTP 404, but not from the service's own records")


def _refusal(reply: Reply) -> Answer:
    match _code(reply):
        case "in_progress":
            said = "the same key is at work right now"
            return Answer(Remote.BUSY, said, retry_after=_retry_after(reply))
        case "key_reused":
            return Answer(Remote.MISMATCH, "the service knows this key with another input")
        case "invalid_input":
            return Answer(Remote.FAILED, "the service refuses this input; nothing was done")
        case code:
            return Answer(Remote.NO_ANSWER, f"HTTP {reply.status} with the code {code!r}")


def _code(reply: Reply) -> Any:
    return (_json(reply) or {}).get("code")


def _retry_after(reply: Reply) -> float | None:
    try:
        seconds = float(reply.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _json(reply: Reply) -> JSON | None:
    if not reply.headers.get("content-type", "").startswith("application/json"):
        return None
    try:  # as strictly as a model's arguments: no key twice, no NaN, nothing that UTF-8 lacks
        value = parse_arguments(reply.body.decode())
    except (ArgumentsError, ValueError):
        return None
    return None if deeper(value, DEEPEST) else value  # or its receipt could not be read back
