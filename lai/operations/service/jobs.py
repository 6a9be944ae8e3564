"""The report service's values: a job, the course it takes, and what clients see of it.

The documents are those of the service's interface, version v1. A client reads them in
``answers``, which shares nothing with this module but the hash of the input.

It knows no database and no clock. Times are the service's own, in seconds since the epoch.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from lai.calls import ArgumentsError, parse_arguments
from lai.operations.answers import Reply
from lai.records import JSON

VERSION = "v1"
LONGEST_KEY, LARGEST_BODY = 255, 1 << 20  # characters, bytes
_TOKEN = re.compile(r"[0-9]{1,18}")


class Course(StrEnum):
    """What becomes of a job that is accepted."""

    ORDINARY = "ordinary"
    TWICE = "twice"  # two reports are made
    FAILS = "fails"  # accepted, then failed; no report
    FORGOTTEN = "forgotten"  # accepted, then no trace of it
    STUCK = "stuck"  # done, but every answer about it is a 500
    STUCK_UNDONE = "stuck_undone"  # the same, and nothing was done


@dataclass(frozen=True, slots=True)
class Job:
    """A row of ``jobs``; ``copies`` reports are made when it ends as ``completed``."""

    number: int
    key: str
    input_sha256: str
    title: str
    content_sha256: str
    status: str
    ending: str  # the status it will have in the end
    created_at: float
    ends_at: float
    copies: int
    stuck: int
    known: int  # 0: the key is forgotten
    anew: int  # 1: its key was known before, and forgotten

    def document(self, executions: int) -> JSON:
        """The job as clients see it."""
        job: JSON = {
            "job_id": f"job-{self.number}",
            "idempotency_key": self.key,
            "input_sha256": self.input_sha256,
            "status": self.status,
            "executions": executions,
        }
        if self.status == "failed":
            job["error"] = "the report could not be made"
        if self.status == "completed":
            job["receipt"] = {
                "report_id": f"report-{self.number}",
                "idempotency_key": self.key,
                "input_sha256": self.input_sha256,
                "title": self.title,
                "content_sha256": self.content_sha256,
                "issued_at": datetime.fromtimestamp(self.ends_at, UTC).isoformat(),
            }
        return job


def json_reply(status: int, document: JSON, **headers: str) -> Reply:
    """A reply with a JSON body; ``retry_after="1"`` becomes the header retry-after."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps(document, ensure_ascii=False).encode()
    return Reply(status, {"content-type": "application/json", **named}, body)


def read_report(body: bytes) -> JSON | None:
    """The input of a report, ``{"title": str, "lines": [str]}``; None for anything else."""
    if len(body) > LARGEST_BODY:
        return None
    try:
        report = parse_arguments(body.decode())
    except (ArgumentsError, ValueError):
        return None
    if set(report) != {"title", "lines"} or not isinstance(report["title"], str):
        return None
    lines = report["lines"]
    texts = isinstance(lines, list) and all(isinstance(line, str) for line in lines)
    return report if texts else None


def content_sha256(report: JSON) -> str:
    """The hash of the report that is made: its title and its lines."""
    return hashlib.sha256("\n".join([report["title"], *report["lines"]]).encode()).hexdigest()


def refusal(key: str, report: JSON | None, headers: Mapping[str, str]) -> Reply | None:
    """The refusal of a ``POST`` that is not in order; None if it is. Nothing was done for it."""
    if headers.get("api-version", VERSION) != VERSION:
        return json_reply(400, {"code": "unsupported_version"})
    token = headers.get("fencing-token", "0")
    if not 0 < len(key) <= LONGEST_KEY or not _TOKEN.fullmatch(token):
        return json_reply(400, {"code": "invalid_input"})
    return json_reply(422, {"code": "invalid_input"}) if report is None else None
