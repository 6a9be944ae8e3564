"""The report service as its makers meant it: keys, jobs, look-ups and reports.

Every rule that a client may rely on is here, in one SQLite database of the service's own.
Nothing here goes wrong by itself; ``provider`` puts the mishaps around it.

Rules that live here and nowhere else:

1. A row of ``effects`` is a report that was made. Nothing but making one inserts there,
   so counting the rows counts what really happened.
2. Within its retention a key is one job. After it the same request acts anew, and such a
   report is marked ``anew``.
3. A running job ends when its time has come, seen by whoever looks next: with the clock
   given, work needs no thread, and a restart loses none.

Times are the service's own clock, in seconds since the epoch, given with every call.
"""

import math
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from lai.calls import arguments_sha256
from lai.operations.answers import Reply
from lai.operations.service.jobs import (
    Course,
    Job,
    content_sha256,
    json_reply,
    read_report,
    refusal,
)
from lai.operations.service.profiles import Profile
from lai.records import JSON

TABLES = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, input_sha256 TEXT NOT NULL,
    title TEXT NOT NULL, content_sha256 TEXT NOT NULL, status TEXT NOT NULL,
    ending TEXT NOT NULL, created_at REAL NOT NULL, ends_at REAL NOT NULL,
    copies INTEGER NOT NULL, stuck INTEGER NOT NULL, known INTEGER NOT NULL, anew INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_key ON jobs (key);
CREATE INDEX IF NOT EXISTS jobs_at_work ON jobs (ends_at) WHERE status = 'running';
CREATE TABLE IF NOT EXISTS effects (
    number INTEGER PRIMARY KEY, job INTEGER NOT NULL, key TEXT NOT NULL, anew INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS fences (key TEXT PRIMARY KEY, token INTEGER NOT NULL);
"""
_JOB_ID = re.compile("job-[1-9][0-9]{0,17}")


class Reports:
    """The service over an open database with ``TABLES``. The caller keeps the transactions."""

    def __init__(self, database: sqlite3.Connection, profile: Profile) -> None:
        self._sql, self._profile = database.execute, profile

    def order(
        self,
        key: str,
        body: bytes,
        headers: Mapping[str, str],
        now: float,
        course: Course = Course.ORDINARY,
    ) -> tuple[Reply, float]:
        """``POST /reports``: the reply, and in how many seconds it is ready.

        ``headers`` have names in lower case. ``course`` is what becomes of a new job; it
        changes nothing for a key that is known.
        """
        report = read_report(body)
        if refused := refusal(key, report, headers):
            return refused, 0.0
        assert report is not None  # or it was just refused
        if self._overtaken(key, int(headers.get("fencing-token", "0"))):
            return json_reply(409, {"code": "stale_fence"}), 0.0
        job = self._of_key(key, now) if self._profile.keys else None
        if job is None:
            return self._posted(self._accept(key, report, now, course)), 0.0
        if self._profile.checks_input and job.input_sha256 != arguments_sha256(report):
            return json_reply(self._profile.reused_status, {"code": "key_reused"}), 0.0
        if job.status == "running":
            return self._at_work(job, job.ends_at - now)
        return self._posted(job), 0.0

    def find_key(self, key: str, now: float) -> Reply:
        """``GET /reports?key=``."""
        if self._profile.query != "key":
            return json_reply(404, {"code": "no_such_endpoint"})
        return self._found(self._of_key(key, now), now)

    def find_job(self, job_id: str, now: float) -> Reply:
        """``GET /reports/{job_id}``."""
        if self._profile.query == "none":
            return json_reply(404, {"code": "no_such_endpoint"})
        number = int(job_id[4:]) if _JOB_ID.fullmatch(job_id) else 0
        row = self._sql("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone()
        return self._found(row and Job(*row), now)

    def work(self, now: float) -> None:
        """End the jobs whose time has come."""
        due = self._sql(
            "SELECT * FROM jobs WHERE status = 'running' AND ends_at <= ? ORDER BY ends_at, number",
            (now,),
        ).fetchall()
        for row in due:
            self._end(Job(*row))

    def effects(self) -> JSON:
        """The effect counter: reports made, by key, and those made under an expired key."""
        rows = self._sql(
            "SELECT key, count(*), sum(anew) FROM effects GROUP BY key ORDER BY key"
        ).fetchall()
        return {
            "reports": sum(row[1] for row in rows),
            "by_key": {row[0]: row[1] for row in rows},
            "anew": sum(row[2] for row in rows),
        }

    def forget(self, key: str) -> None:
        """The key is no longer known, whatever its retention."""
        self._sql("UPDATE jobs SET known = 0 WHERE key = ?", (key,))

    def occupy(self, key: str, now: float) -> None:
        """Somebody else has used the key before, with another input; their report counts not."""
        if self._of_key(key, now) is None:
            number = self._insert(key, {"title": "another report", "lines": []}, now, ends_at=now)
            self._sql("UPDATE jobs SET status = 'completed' WHERE number = ?", (number,))

    def _accept(self, key: str, report: JSON, now: float, course: Course) -> Job:
        ends_at = now + self._profile.work
        number = self._insert(key, report, now, ends_at=ends_at, course=course)
        job = Job(*self._sql("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone())
        if course is Course.FORGOTTEN:
            self._sql("DELETE FROM jobs WHERE number = ?", (number,))
        elif ends_at <= now and course is not Course.FAILS:
            job = self._end(job)
        return job

    def _insert(
        self,
        key: str,
        report: JSON,
        now: float,
        *,
        ends_at: float,
        course: Course = Course.ORDINARY,
    ) -> int:
        ending = "failed" if course is Course.FAILS else "completed"
        copies = {Course.TWICE: 2, Course.FAILS: 0, Course.STUCK_UNDONE: 0}.get(course, 1)
        stuck = course in {Course.STUCK, Course.STUCK_UNDONE}
        before = "SELECT 1 FROM jobs WHERE key = ?"
        anew = self._profile.keys and self._sql(before, (key,)).fetchone() is not None
        values = (key, arguments_sha256(report), report["title"], content_sha256(report), "running")
        row = self._sql(
            "INSERT INTO jobs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?)",
            (*values, ending, now, ends_at, copies, stuck, anew),
        )
        assert row.lastrowid is not None  # an insert has one
        return row.lastrowid

    def _end(self, job: Job) -> Job:
        self._sql("UPDATE jobs SET status = ending WHERE number = ?", (job.number,))
        for _ in range(job.copies):
            made = (job.number, job.key, job.anew)
            self._sql("INSERT INTO effects (job, key, anew) VALUES (?, ?, ?)", made)
        return replace(job, status=job.ending)

    def _of_key(self, key: str, now: float) -> Job | None:
        row = self._sql(
            "SELECT * FROM jobs WHERE key = ? AND known ORDER BY number DESC LIMIT 1", (key,)
        ).fetchone()
        job = Job(*row) if row else None
        kept = self._profile.retention
        return None if job and kept is not None and now >= job.created_at + kept else job

    def _overtaken(self, key: str, token: int) -> bool:
        """Whether a greater fencing token was seen for this key; this one is noted."""
        if not self._profile.fence:
            return False
        seen = self._sql("SELECT token FROM fences WHERE key = ?", (key,)).fetchone()
        if seen and token < seen[0]:
            return True
        self._sql("INSERT OR REPLACE INTO fences VALUES (?, ?)", (key, token))
        return False

    def _at_work(self, job: Job, left: float) -> tuple[Reply, float]:
        if self._profile.concurrent == "wait":
            return self._posted(replace(job, status=job.ending)), left
        wait = str(math.ceil(left) or 1)
        return json_reply(409, {"code": "in_progress"}, retry_after=wait), 0.0

    def _posted(self, job: Job) -> Reply:
        return self._reply({"completed": 201, "running": 202}.get(job.status, 200), job)

    def _found(self, job: Job | None, now: float) -> Reply:
        if job is None or now < job.created_at + self._profile.visibility_lag:
            return json_reply(404, {"code": "unknown_operation"})
        return self._reply(200, job)

    def _reply(self, status: int, job: Job) -> Reply:
        if job.stuck:
            return json_reply(500, {"code": "internal_error"})
        times = job.copies
        if not self._profile.keys:  # a key is only a word to search for: all that bear it
            total = "SELECT sum(copies) FROM jobs WHERE key = ? AND status = 'completed'"
            times = self._sql(total, (job.key,)).fetchone()[0] or 0
        return json_reply(status, job.document(times if job.status == "completed" else 0))
