"""Builders for tests against the report service: an operation, a clock, the service in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lai.calls import arguments_sha256
from lai.operations.answers import Answer
from lai.operations.client import Client
from lai.operations.records import Operation
from lai.operations.service.profiles import PROFILES, Profile
from lai.operations.service.provider import Delivery, Provider
from lai.operations.service.transport import transport_of

BODY = {"title": "书 \u2028 report", "lines": ["first 🙂", "\u0085"]}
START = 1_800_000_000.0
# The record of the article, as it is printed there.
ARTICLE = """
{
  "schema_version": 1,
  "run_id": "run-demo",
  "operation_id": "op-report-001",
  "tool_name": "create_report",
  "tool_version": "v1",
  "input_ref": "inputs/report-001.json",
  "state": "unknown",
  "attempt": 1,
  "remote_job_id": null,
  "result_ref": null,
  "resume_action": "query_or_review"
}
"""


def operation(key: str = "op-report-001", body: Any = None, **changed: Any) -> Operation:
    """A planned report under ``key``."""
    planned = Operation(
        run_id="run-demo",
        operation_id=key,
        tool_name="create_report",
        tool_version="v1",
        input_ref="inputs/report-001.json",
        input_sha256=arguments_sha256(BODY if body is None else body),
        scope="report-service",
        idempotency_key=key,
        deadline_at=START + 86_400,
    )
    return replace(planned, **changed)


@dataclass
class Clock:
    """A clock that goes when it is told to."""

    at: float = START

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self.at


@dataclass
class FarSide:
    """A service in memory, its clock, the answers that came late, and the real client."""

    provider: Provider
    clock: Clock
    client: Client
    late: list[Delivery] = field(default_factory=list)

    def send(self, key: str = "op-report-001", body: Any = None, **changed: Any) -> Answer:
        """Send the operation of ``key``."""
        sent = BODY if body is None else body
        return self.client.send(operation(key, body, **changed), sent)

    def ask(self, key: str = "op-report-001", body: Any = None, **changed: Any) -> Answer:
        """Ask about it; ``remote_job_id`` asks by job."""
        return self.client.ask(operation(key, body, **changed))

    def reports(self) -> int:
        """How many reports were really made."""
        count: int = self.provider.effects()["reports"]
        return count

    def plan(self, *mishaps: Any) -> None:
        """Plan mishaps: dicts, or names of those that befall the next call."""
        plan = [{"mishap": one} if isinstance(one, str) else one for one in mishaps]
        self.provider.plan_mishaps(plan)


@contextmanager
def far_side(profile: str | Profile = "standard", **changed: Any) -> Iterator[FarSide]:
    """A fresh service in memory; ``changed`` are other fields of its profile."""
    base = PROFILES[profile] if isinstance(profile, str) else profile
    clock, late = Clock(), list[Delivery]()
    with (
        Provider(":memory:", replace(base, **changed), clock) as provider,
        Client(transport_of(provider, late)) as client,
    ):
        yield FarSide(provider, clock, client, late)
