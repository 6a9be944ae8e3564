"""O1 to O13 and O15: what holds for every operation, as named functions over its past.

Each raises AssertionError in words. They are told only what was seen from outside: the rows
that were committed, the requests that arrived, what the service counts as done. O14, the
scheduler's own table, is in ``test_schedule``.
"""

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from lai.operations.answers import Contract
from lai.operations.records import Operation
from lai.operations.service.profiles import Profile
from lai.operations.work import PATIENCE

Row = dict[str, Any]
OPEN = {"planned", "pending", "unknown"}
ENDED = {"succeeded", "rejected", "cancelled", "abandoned"}
TOLD = ENDED | {"review_required"}
STATES = OPEN | TOLD
FOR_LIFE = """
    run_id operation_id tool_name tool_version input_ref input_sha256 scope idempotency_key
""".split()


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that reached the service."""

    method: str
    key: str
    input_sha256: str  # of a POST
    fence: int
    at: float
    seen: int  # how many rows of the operation had been committed before


@dataclass(frozen=True, slots=True)
class Stale:
    """A change that was refused because the claim was over: the row before and after it."""

    held: Operation
    before: Row
    after: Row


@dataclass(slots=True)
class Past:
    """What happened to one operation while it was watched."""

    rows: list[Row] = field(default_factory=list)  # each version, in order
    arrivals: list[Arrival] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)  # the fences that were handed out
    stale: list[Stale] = field(default_factory=list)
    conflicts: list[tuple[int, int]] = field(default_factory=list)  # rows and calls they made
    permitted: int = 0  # resends that a person permitted
    prolonged: int = 0  # times that a person gave more time to ask
    by_name: int = 0  # times that somebody wanted to know at once, due or not
    crashes: int = 0  # lives that ended before what they did was recorded


@dataclass(frozen=True, slots=True)
class Story:
    """The past of one operation, and what is known of it in the end."""

    past: Past
    profile: Profile
    promised: Contract
    patience: float
    events: list[Row]
    messages: list[Row]  # the outbox
    heard: list[str]  # the messages that the consumer has acted on
    files: Path
    effects: int  # reports that the service really made under its key
    anew: int  # of these, those made because it had forgotten the key
    reports: set[str]  # the ids of all reports that it made
    doubled: int  # times that it did the work twice by mishap
    refused: bool  # it said for certain that the work is not done

    @property
    def posts(self) -> list[Arrival]:
        """The requests to do it."""
        return [one for one in self.past.arrivals if one.method == "POST"]

    @property
    def last(self) -> Row:
        """The row as it is."""
        return self.past.rows[-1]

    def entries(self) -> list[tuple[int, str, Row]]:
        """Each arrival in a state: the number of the row, the state before, and the row."""
        rows = self.past.rows
        came = [(0, "", rows[0])]
        for number, (before, after) in enumerate(pairwise(rows), 1):
            if before["state"] != after["state"]:
                came.append((number, before["state"], after))
        return came


def o1_pending_is_committed_before_a_request_arrives(story: Story) -> None:
    """Each request to act was announced: a ``pending`` with its key and input, one for each."""
    came = [(number, row) for number, _, row in story.entries() if row["state"] == "pending"]
    for number, post in enumerate(story.posts, 1):
        pending = [row for index, row in came if index < post.seen]
        assert len(pending) >= number, f"request {number} arrived after {len(pending)} pending"
        said = (pending[-1]["idempotency_key"], pending[-1]["input_sha256"])
        assert said == (post.key, post.input_sha256), f"announced {said}, sent {post}"
        assert pending[-1]["sent_at"] is not None, "pending without the time of sending"


def o2_it_is_done_once(story: Story) -> None:
    """One effect, and one more for each resend that a person permitted; no request besides."""
    most = 1 + story.past.permitted
    assert len(story.posts) <= most, f"{len(story.posts)} requests, {most} permitted"
    assert story.effects <= most + story.doubled, f"{story.effects} effects"
    if story.profile.keys:  # the service keeps to one, whoever permitted what
        assert story.effects <= 1 + story.doubled, f"{story.effects} effects under one key"


def o3_it_stays_what_it_is(story: Story) -> None:
    """One operation, one key, one input for life, in the rows and on the wire."""
    first = story.past.rows[0]
    for row in story.past.rows:
        for name in FOR_LIFE:
            assert row[name] == first[name], f"{name} became {row[name]!r}"
    for one in story.posts:
        sent = (one.key, one.input_sha256)
        assert sent == (first["idempotency_key"], first["input_sha256"]), f"sent as {sent}"


def o4_a_stale_worker_changes_nothing(story: Story) -> None:
    """What was refused left the row as it was, and what the worker had heard is in the log."""
    late = [(one["by"], one["fence"]) for one in story.events if one["kind"] == "late"]
    for one in story.past.stale:
        assert one.before == one.after, "a stale worker changed the row"
        assert (one.held.owner, one.held.fence) in late, "what it had heard is lost"
    for before, after in pairwise(story.past.rows):
        claims = after["fence"] - before["fence"]  # one whose answer was lost is seen later
        changes = after["version"] - before["version"] - claims
        assert changes in {0, 1}, f"{changes} changes at once"


def o5_fences_grow(story: Story) -> None:
    """Each claim has a higher fence, no row takes one back, and a running lease is respected."""
    for before, after in pairwise(story.past.claims):
        assert after > before, f"fence {after} after {before}"
    for before, after in pairwise(story.past.rows):
        assert after["fence"] >= before["fence"], "a row took a fence back"
        if after["fence"] > before["fence"] and after["owner"] != before["owner"]:
            free = before["lease_until"] is None or before["lease_until"] <= after["seen_at"]
            assert free, f"claimed from {before['owner']}, whose lease was running"


def o6_only_a_plan_is_sent(story: Story) -> None:
    """``pending`` follows ``planned`` alone, and a plan comes back only unsent or permitted."""
    announced, permitted = 0, 0
    for number, before, row in story.entries():
        if row["state"] == "pending":
            announced = number
            assert before == "planned", f"about to send from {before}"
        if row["state"] == "planned":
            assert before in {"", "pending", "review_required"}, f"planned again from {before}"
            permitted += before == "review_required"
            arrived = [one for one in story.posts if announced < one.seen <= number]
            assert before != "pending" or not arrived, "planned again, and it had arrived"
    assert permitted <= story.past.permitted, "planned again without a person"


def o7_not_found_is_no_answer(story: Story) -> None:
    """A rejection is the service's own no, or an absence that its contract makes final."""
    rejected = [one for one in story.events if one["kind"] == "rejected"]
    if not rejected or rejected[-1]["by"] == "person":  # whose word is their own
        return
    assert story.effects == 0, f"rejected, and done {story.effects} times"
    if not story.refused:
        assert story.profile.absent_is_final, "rejected without the service's own no"
        sent = max((one.at for one in story.posts), default=0.0)
        assert rejected[-1]["at"] >= sent + story.profile.visibility_lag, "rejected too early"


def o8_no_key_is_used_when_it_may_be_forgotten(story: Story) -> None:
    """Nothing is sent under a key in the last of its time or after; the service saw no old one."""
    assert story.anew == 0, f"{story.anew} reports made anew under a forgotten key"
    kept = story.promised.retention
    for post in story.posts if kept is not None else ():
        age = post.at - story.posts[0].at
        assert age < kept - story.promised.margin, f"sent under a key of {age:.0f} s"


def o9_questions_have_their_time(story: Story) -> None:
    """Nobody is active more often than the schedule says, nor after the deadline but once."""
    past = story.past
    extra = past.crashes + past.by_name + len(past.stale)  # of these nothing was recorded
    doubling = 12  # 1, 2, 4 … 256 s, and one each for the first, the deadline and after it
    steady = (story.patience + past.prolonged * PATIENCE) / 300.0
    most = doubling * (1 + past.prolonged) + steady + extra
    assert len(past.claims) <= most, f"active {len(past.claims)} times, {most:.0f} scheduled"
    over: dict[float, int] = {}
    for one in past.arrivals:
        deadline = past.rows[one.seen - 1]["deadline_at"]
        if one.method == "GET" and one.at > deadline:
            over[deadline] = over.get(deadline, 0) + 1
    assert max(over.values(), default=0) <= 1 + extra, "it goes on asking after the deadline"
    for row in past.rows:
        if row["state"] == "unknown" and row["owner"] is None and row["next_query_at"]:
            latest = max(row["deadline_at"], row["seen_at"] + 1.0)
            assert row["next_query_at"] <= latest, "the next question comes after the deadline"


def o10_a_success_has_its_receipt(story: Story) -> None:
    """What ``succeeded`` refers to is there, unchanged, about this operation, and true."""
    for row in (row for row in story.past.rows if row["state"] == "succeeded"):
        data = (story.files / row["result_ref"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["result_sha256"], "another receipt"
        receipt = json.loads(data)
        assert receipt["idempotency_key"] == row["idempotency_key"], "another operation's receipt"
        if "report_id" in receipt:  # the service's own, and not a person's word
            assert receipt["input_sha256"] == row["input_sha256"], "a receipt for another input"
            assert receipt["report_id"].removesuffix("-b") in story.reports, "no such report"
        else:
            assert receipt["by"], "a person's word without a person"


def o11_what_waits_for_a_person_is_left_alone(story: Story) -> None:
    """Nobody claims it, asks or sends; only who had been overtaken before may still arrive."""
    for one in story.past.arrivals:
        before = story.past.rows[one.seen - 1] if one.seen else None
        if before and before["state"] == "review_required":
            assert one.fence < before["fence"], f"a {one.method} while a person was awaited"
    for before, after in pairwise(story.past.rows):
        if before["state"] == "review_required":
            assert after["fence"] == before["fence"], "claimed while a person was awaited"


def o12_another_input_is_a_conflict(story: Story) -> None:
    """The same id with another input changed no row and caused no traffic."""
    assert all(made == (0, 0) for made in story.past.conflicts), f"{story.past.conflicts}"


def o13_news_is_told_if_and_only_if_it_is_true(story: Story) -> None:
    """A message for each state that others want to hear of, and one effect for each message."""
    told = [row for _, _, row in story.entries() if row["state"] in TOLD]
    wanted = [(f"{row['operation_id']}:{row['version']}", row["state"]) for row in told]
    assert [(one["message_id"], one["state"]) for one in story.messages] == wanted
    assert all(one["published_at"] is not None for one in story.messages), "a message is stuck"
    assert sorted(story.heard) == sorted(name for name, _ in wanted), f"acted on {story.heard}"


def o15_a_change_is_made_once(story: Story) -> None:
    """Whatever became of a commit's answer: each change is one version and one line of the log."""
    states = [one["kind"] for one in story.events if one["kind"] in STATES]
    assert story.last["version"] == story.last["fence"] + len(states), f"changes: {states}"
    assert states[0] == "planned", "an operation does not begin as planned"
    assert states[-1] == story.last["state"], f"the row is {story.last['state']}, the log {states}"
    assert story.last["fence"] >= len(story.past.claims), "claims that are in no row"


Promise = Callable[[Story], None]
PROMISES: dict[str, Promise] = {
    "O1": o1_pending_is_committed_before_a_request_arrives,
    "O2": o2_it_is_done_once,
    "O3": o3_it_stays_what_it_is,
    "O4": o4_a_stale_worker_changes_nothing,
    "O5": o5_fences_grow,
    "O6": o6_only_a_plan_is_sent,
    "O7": o7_not_found_is_no_answer,
    "O8": o8_no_key_is_used_when_it_may_be_forgotten,
    "O9": o9_questions_have_their_time,
    "O10": o10_a_success_has_its_receipt,
    "O11": o11_what_waits_for_a_person_is_left_alone,
    "O12": o12_another_input_is_a_conflict,
    "O13": o13_news_is_told_if_and_only_if_it_is_true,
    "O15": o15_a_change_is_made_once,
}


def judge(story: Story, but: Collection[str] = ()) -> None:
    """Raise with the names and the words of all promises that are broken; ``but`` are left out."""
    broken = []
    for name, promise in PROMISES.items():
        try:
            if name not in but:
                promise(story)
        except AssertionError as error:
            broken.append(f"{name}: {error}")
    assert not broken, "\n".join(broken)
