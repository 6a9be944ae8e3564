"""The other side: the report service with everything that can happen around it.

``Reports`` keeps the rules and ``Arrivals`` counts what comes; this brings about the
mishaps planned for a call: in the work, in the answer, or on its way back. The same object
serves the process on loopback (``service``) and the simulator in memory (``transport``).

Rules that live here and nowhere else:

1. A call is one transaction. The service may be killed at any moment and has done a call
   or has not.
2. What a mishap does to the work is done in it, and what it does to the answer only to the
   answer: after a lost answer the report is there.

Times are seconds since the epoch.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from lai.operations.answers import Reply
from lai.operations.service import arrivals, reports
from lai.operations.service.arrivals import Arrivals, Variants
from lai.operations.service.disturbance import disturbed
from lai.operations.service.jobs import VERSION, Course, json_reply
from lai.operations.service.mishaps import Mishap
from lai.operations.service.profiles import Profile, margin
from lai.operations.service.reports import Reports
from lai.records import JSON

NEXT_VERSION = "v2"
A_YEAR = "31536000"  # seconds, as a header says it
_COURSES = {
    (Mishap.FORGOTTEN, "silent"): Course.FORGOTTEN,
    (Mishap.FORGOTTEN, "accepted"): Course.FORGOTTEN,
    (Mishap.FAILS_LATER, ""): Course.FAILS,
    (Mishap.STORED_ERROR, "done"): Course.STUCK,
    (Mishap.STORED_ERROR, "undone"): Course.STUCK_UNDONE,
    (Mishap.DONE_TWICE, ""): Course.TWICE,
}
_Act = Callable[[float, Variants], tuple[Reply, float]]


class Fate(StrEnum):
    """What becomes of a reply on its way."""

    DELIVERED = "delivered"
    LOST = "lost"  # it never comes
    LATE = "late"  # it comes after ``Delivery.after`` seconds
    REFUSED = "refused"  # there was no connection: no request came, and there is no reply


@dataclass(frozen=True, slots=True)
class Delivery:
    """A reply and its fate. A LOST one is what the service believes to have answered."""

    reply: Reply
    fate: Fate = Fate.DELIVERED
    after: float = 0.0  # seconds


class Provider:
    """The report service over a database file, or ":memory:".

    ``now`` is the true time; the service sees it with ``profile.clock_skew``. ``late`` is
    how late a late answer is, in seconds. One call at a time: the caller sees to it.
    """

    def __init__(
        self,
        path: str | Path,
        profile: Profile,
        now: Callable[[], float],
        *,
        late: float = 1.0,
    ) -> None:
        self.profile, self._now, self._late = profile, now, late
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        if str(path) != ":memory:":
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")  # SIGKILL loses nothing by it
        self._database.executescript(f"BEGIN; {reports.TABLES} {arrivals.TABLES} COMMIT;")
        self._reports = Reports(self._database, profile)
        self._arrivals = Arrivals(self._database)

    def create(self, key: str | None, body: bytes, headers: Mapping[str, str]) -> Delivery:
        """``POST /reports``; ``headers`` have names in lower case."""

        def act(now: float, befalls: Variants) -> tuple[Reply, float]:
            if key and Mishap.KEY_EXPIRED in befalls:
                self._reports.forget(key)
            if key and Mishap.KEY_REUSED in befalls and self.profile.keys:
                self._reports.occupy(key, now)
            courses = (course for how, course in _COURSES.items() if how in befalls.items())
            course = next(courses, Course.ORDINARY)
            return self._reports.order(key or "", body, headers, now, course)

        return self._call("POST", "/reports", key, act)

    def by_key(self, key: str) -> Delivery:
        """``GET /reports?key=``."""
        found: _Act = lambda now, _: (self._reports.find_key(key, now), 0.0)  # noqa: E731
        return self._call("GET", "/reports", key, found)

    def by_job(self, job_id: str) -> Delivery:
        """``GET /reports/{job_id}``."""
        found: _Act = lambda now, _: (self._reports.find_job(job_id, now), 0.0)  # noqa: E731
        return self._call("GET", f"/reports/{job_id}", None, found)

    def effects(self) -> JSON:
        """``{"reports": n, "by_key": {key: n}, "anew": n}``: what really happened until now.

        ``anew`` are those of the reports that were made for a key which had expired.
        """
        with self._transaction():
            self._reports.work(self._clock(self._arrivals.lasting()))
            return self._reports.effects()

    def calls(self) -> list[JSON]:
        """What arrived, in order: ``{"call", "method", "path", "key"}`` each."""
        return self._arrivals.calls()

    def plan_mishaps(self, raw: Iterable[Mapping[str, Any]]) -> None:
        """Replace what is planned: ``{"mishap": "R1", "call": 1, "variant": ""}`` each.

        Raises :class:`OperationError` for nonsense and for a call that is over; nothing is
        changed then.
        """
        with self._transaction():
            self._arrivals.plan(raw)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: str, path: str, key: str | None, act: _Act) -> Delivery:
        with self._transaction():
            befalls = self._arrivals.count(method, path, key)
            if Mishap.UNREACHABLE in befalls:
                return Delivery(Reply(0, {}, b""), Fate.REFUSED)
            lasting = self._arrivals.lasting()
            now = self._clock(lasting)
            self._reports.work(now)
            reply, after = _too_busy(befalls) or act(now, befalls)
        if Mishap.NOT_FOUND_YET in befalls and not self.profile.absent_is_final:
            reply = json_reply(404, {"code": "unknown_operation"})
        version = NEXT_VERSION if Mishap.NEW_VERSION in lasting else VERSION
        reply = replace(reply, headers={**reply.headers, "api-version": version})
        return self._sent(disturbed(reply, befalls), befalls, after)

    def _sent(self, reply: Reply, befalls: Variants, after: float) -> Delivery:
        if Mishap.ANSWER_LOST in befalls or befalls.get(Mishap.FORGOTTEN) == "silent":
            return Delivery(reply, Fate.LOST)
        if befalls.keys() & {Mishap.ANSWER_LATE, Mishap.OUTRUN}:
            return Delivery(reply, Fate.LATE, max(after, self._late))
        return Delivery(reply, Fate.LATE if after > 0 else Fate.DELIVERED, after)

    def _clock(self, lasting: Variants) -> float:
        drift = {"ahead": margin(self.profile), "behind": -margin(self.profile)}
        off = drift.get(lasting.get(Mishap.CLOCK_OFF, ""), 0.0)
        return self._now() + self.profile.clock_skew + off

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def _too_busy(befalls: Variants) -> tuple[Reply, float] | None:
    if Mishap.ASK_LATER not in befalls:
        return None
    status = int(befalls[Mishap.ASK_LATER])
    return json_reply(status, {"code": "ask_later"}, retry_after=A_YEAR), 0.0
