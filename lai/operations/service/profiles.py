"""What a service promises about keys, questions and time: eight profiles, and their contracts.

A profile is how a service behaves; its contract is what its documentation lets a client
rely on. The second follows from the first, so that a simulated service keeps its word.

Rules that live here and nowhere else:

1. A contract promises nothing that the profile does not do, and less where the
   documentation is silent: ``None`` is no promise.
2. ``margin`` is as far as the service's clock may drift during one operation.

It does not know how a service is made (``reports``), or what a client does (``policy``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from lai.operations.answers import Contract
from lai.operations.records import OperationError

HOUR, DAY = 3600.0, 86400.0
Concurrent = Literal["409", "wait"]
Query = Literal["key", "job", "none"]
REUSED = (422, 409, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How one service behaves. Times in seconds; raises :class:`OperationError` for nonsense."""

    keys: bool = True  # one key, one report
    retention: float | None = DAY  # a key is remembered so long; None: for ever, unpromised
    checks_input: bool = True  # a known key with another input is refused
    concurrent: Concurrent = "409"  # what the same key gets while its job runs
    reused_status: int = 422  # how another input under a known key is refused
    query: Query = "key"  # how one may ask; by key means also by job
    visibility_lag: float = 0.0  # a job is found only so long after it was accepted
    absent_is_final: bool = False  # documented: after the lag, "not found" is a no
    work: float = 0.0  # a job takes so long; 0: done before the answer
    fence: bool = False  # a smaller Fencing-Token for the same key is refused
    clock_skew: float = 0.0  # its clock minus ours

    def __post_init__(self) -> None:
        if self.concurrent not in get_args(Concurrent) or self.query not in get_args(Query):
            raise OperationError(f"no such rule: {self.concurrent!r}, {self.query!r}")
        if self.reused_status not in REUSED:
            raise OperationError(f"a reused key is refused with one of {REUSED}")
        if min(self.retention or 0.0, self.visibility_lag, self.work) < 0:
            raise OperationError("retention, visibility_lag and work are seconds from 0 on")


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        # Keys, a look-up by key, everything at once.
        "standard": Profile(),
        # "Not found" is documented as final, some seconds after sending.
        "final": Profile(absent_is_final=True, visibility_lag=5.0, reused_status=409),
        # A look-up lags behind, and its clock is an hour ahead.
        "lagging": Profile(visibility_lag=30.0, clock_skew=HOUR, reused_status=400),
        # Jobs take their time; the same key waits for them, and inputs are not compared.
        "slow": Profile(work=20.0, concurrent="wait", checks_input=False),
        # Jobs again, found by their number alone; a clock that is an hour behind.
        "jobs": Profile(work=5.0, query="job", clock_skew=-HOUR),
        # Keys, but nobody can be asked.
        "blind": Profile(query="none"),
        # Neither keys nor questions: a second request is a second report.
        "bare": Profile(keys=False, retention=None, query="none"),
        # No keys; a smaller fencing token is refused. That orders writers, and no more.
        "fenced": Profile(keys=False, retention=None, fence=True, absent_is_final=True),
    }
)


def margin(profile: Profile) -> float:
    """How far the service's clock may drift, in seconds: an hour, less where keys live short."""
    return HOUR if profile.retention is None else min(HOUR, profile.retention / 8)


def contract(profile: Profile, scope: str = "report-service", version: str = "v1") -> Contract:
    """What the documentation of a service of this profile promises."""
    return Contract(
        scope=scope,
        tool_version=version,
        retention=profile.retention if profile.keys else None,
        absent_final_after=profile.visibility_lag if profile.absent_is_final else None,
        margin=margin(profile),
        source="the report service's documentation",
    )
