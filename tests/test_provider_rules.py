"""The report service keeps the rules of its profile: keys, look-ups, time, fences, contracts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from far_side import BODY, START, FarSide, far_side, operation

from lai.calls import arguments_sha256
from lai.operations.answers import Remote, Reply, read_reply
from lai.operations.records import OperationError
from lai.operations.service.profiles import DAY, HOUR, PROFILES, Profile, contract, margin
from lai.operations.service.provider import Fate

KEY, OTHER = "op-report-001", {"title": "other", "lines": []}
A_BODY = json.dumps(BODY).encode()
# Requests that are refused, with the status; nothing may be done for them.
REFUSED: list[tuple[str | None, bytes, dict[str, str], int]] = [
    (None, A_BODY, {}, 400),
    ("", A_BODY, {}, 400),
    ("k" * 256, A_BODY, {}, 400),
    (KEY, A_BODY, {"fencing-token": "-1"}, 400),
    (KEY, A_BODY, {"fencing-token": "١"}, 400),
    (KEY, A_BODY, {"fencing-token": "9" * 19}, 400),
    (KEY, A_BODY, {"api-version": "v2"}, 400),
    (KEY, b"", {}, 422),
    (KEY, b"\xff", {}, 422),
    (KEY, b"[]", {}, 422),
    (KEY, b'{"title": "a"}', {}, 422),
    (KEY, b'{"title": "a", "lines": [], "extra": 1}', {}, 422),
    (KEY, b'{"title": 1, "lines": []}', {}, 422),
    (KEY, b'{"title": "a", "lines": "b"}', {}, 422),
    (KEY, b'{"title": "a", "lines": [1]}', {}, 422),
    (KEY, b'{"title": "a", "title": "b", "lines": []}', {}, 422),
    (KEY, b'{"title": "\\ud800", "lines": []}', {}, 422),
    (KEY, b"[" * 100_000, {}, 422),
    (KEY, json.dumps({"title": "a" * (1 << 20), "lines": []}).encode(), {}, 422),
]


@pytest.fixture
def side() -> Iterator[FarSide]:
    with far_side() as made:
        yield made


def document(reply: Reply) -> Any:
    return json.loads(reply.body)


@pytest.mark.parametrize(("key", "body", "headers", "status"), REFUSED)
def test_a_request_out_of_order_is_refused(
    side: FarSide, key: str | None, body: bytes, headers: dict[str, str], status: int
) -> None:
    """The service refuses it in its own words, and there is no job and no report."""
    delivery = side.provider.create(key, body, headers)
    assert delivery.fate is Fate.DELIVERED
    code = "unsupported_version" if "api-version" in headers else "invalid_input"
    assert (delivery.reply.status, document(delivery.reply)) == (status, {"code": code})
    assert side.reports() == 0
    assert side.ask().status is Remote.NOT_FOUND


def test_a_refused_token_is_not_remembered() -> None:
    """A request that is refused for its body moves no fence."""
    with far_side("fenced") as side:
        side.provider.create(KEY, b"", {"fencing-token": "9"})
        assert side.send(fence=1).status is Remote.COMPLETED


def test_a_key_is_one_report(side: FarSide) -> None:
    """The same request again gets the same job, and a look-up by key or by job too."""
    answers = [side.send(), side.send(), side.ask(), side.ask(remote_job_id="job-1")]
    assert {one.job_id for one in answers} == {"job-1"}
    assert all(one.receipt == answers[0].receipt for one in answers)
    assert side.provider.effects() == {"reports": 1, "by_key": {KEY: 1}, "anew": 0}
    assert [call["path"] for call in side.provider.calls()] == [
        "/reports",
        "/reports",
        "/reports",
        "/reports/job-1",
    ]


def test_the_receipt_names_the_operation(side: FarSide) -> None:
    """The receipt has the key, the hash of the input, the title and the hash of the report."""
    side.provider.create("k/书", json.dumps(BODY, ensure_ascii=False).encode(), {})
    receipt = document(side.provider.by_key("k/书").reply)["receipt"]
    assert receipt["idempotency_key"] == "k/书"
    assert receipt["input_sha256"] == arguments_sha256(BODY)
    assert receipt["title"] == BODY["title"]
    assert len(receipt["content_sha256"]) == 64
    assert receipt["issued_at"] == "2027-01-15T08:00:00+00:00"


@pytest.mark.parametrize("status", [422, 409, 400])
def test_another_input_under_the_key_is_refused(status: int) -> None:
    """The profile says how; in every way it is a mismatch, and nothing is made."""
    with far_side(reused_status=status) as side:
        side.send()
        answer = side.send(body=OTHER)
        assert (answer.status, side.reports()) == (Remote.MISMATCH, 1)
        reply = side.provider.create(KEY, json.dumps(OTHER).encode(), {}).reply
        assert (reply.status, document(reply)) == (status, {"code": "key_reused"})


def test_a_service_may_not_compare_inputs() -> None:
    """It answers with the old job then; the client sees by the hash that it is another."""
    with far_side(checks_input=False) as side:
        side.send()
        assert (side.send(body=OTHER).status, side.reports()) == (Remote.MISMATCH, 1)
        reply = side.provider.create(KEY, json.dumps(OTHER).encode(), {}).reply
        assert document(reply)["input_sha256"] == arguments_sha256(BODY)


def test_a_key_is_forgotten_after_its_retention() -> None:
    """Until the last moment it is known; then the same request acts anew, and that is counted."""
    with far_side(retention=100.0) as side:
        side.send()
        side.clock.at = START + 99.9
        assert (side.send().job_id, side.reports()) == ("job-1", 1)
        side.clock.at = START + 100.0
        assert side.ask().status is Remote.NOT_FOUND
        assert side.ask(remote_job_id="job-1").status is Remote.COMPLETED
        assert side.send().job_id == "job-2"
        assert side.provider.effects() == {"reports": 2, "by_key": {KEY: 2}, "anew": 1}


def test_a_key_can_expire_at_a_call(side: FarSide) -> None:
    """R8 makes the service forget the key before it looks at the request."""
    side.send()
    side.plan("R8")
    assert side.send().job_id == "job-2"
    assert side.provider.effects()["anew"] == 1


@pytest.mark.parametrize("name", ["bare", "fenced"])
def test_without_keys_each_request_is_a_report(name: str) -> None:
    """A service without keys makes two reports of two equal requests."""
    with far_side(name) as side:
        assert [side.send().job_id, side.send().job_id] == ["job-1", "job-2"]
        assert side.provider.effects() == {"reports": 2, "by_key": {KEY: 2}, "anew": 0}
        if name == "fenced":
            assert "2 executions" in side.ask().alarm


@pytest.mark.parametrize(
    ("query", "by_key", "by_job"),
    [
        ("key", Remote.COMPLETED, Remote.COMPLETED),
        ("job", Remote.NO_ANSWER, Remote.COMPLETED),
        ("none", Remote.NO_ANSWER, Remote.NO_ANSWER),
    ],
)
def test_how_one_may_ask(query: Any, by_key: Remote, by_job: Remote) -> None:
    """Where a question is not offered, the 404 says nothing about the operation."""
    with far_side(query=query) as side:
        side.send()
        assert side.ask().status is by_key
        assert side.ask(remote_job_id="job-1").status is by_job


def test_a_look_up_lags_behind() -> None:
    """A job is found only after the lag, by key and by job; the service itself knows it."""
    with far_side(visibility_lag=30.0) as side:
        side.send()
        side.clock.at += 29.9
        assert side.ask().status is Remote.NOT_FOUND
        assert side.ask(remote_job_id="job-1").status is Remote.NOT_FOUND
        assert side.send().job_id == "job-1"
        side.clock.at = START + 30.0
        assert side.ask().status is Remote.COMPLETED


def test_a_promise_is_kept_under_a_mishap() -> None:
    """Where "not found" is final, R9 cannot hide a job beyond the lag."""
    with far_side("final") as side:
        side.send()
        side.clock.at += 5.0
        side.plan("R9")
        assert side.ask().status is Remote.COMPLETED


def test_a_job_takes_its_time() -> None:
    """Until then it runs and there is no report; then there is one, whoever looks."""
    with far_side(work=20.0) as side:
        assert side.send().status is Remote.RUNNING
        side.clock.at += 19.9
        assert (side.ask().status, side.reports()) == (Remote.RUNNING, 0)
        side.clock.at = START + 20.0
        assert (side.reports(), side.ask().status) == (1, Remote.COMPLETED)


def test_a_job_that_fails_says_so_at_its_end() -> None:
    """A job that fails later runs until then, and makes no report."""
    with far_side(work=20.0) as side:
        side.plan("R14")
        assert [side.send().status, side.ask().status] == [Remote.RUNNING, Remote.RUNNING]
        side.clock.at += 20.0
        assert (side.ask().status, side.send().status) == (Remote.FAILED, Remote.FAILED)
        assert side.reports() == 0


def test_the_same_key_at_work_is_told_to_wait() -> None:
    """409, with the seconds that are left; nothing is made twice."""
    with far_side(work=20.0) as side:
        side.send()
        side.clock.at += 12.5
        answer = side.send()
        assert (answer.status, answer.retry_after) == (Remote.BUSY, 8.0)
        side.clock.at = START + 20.0
        assert (side.send().status, side.reports()) == (Remote.COMPLETED, 1)


def test_the_same_key_at_work_waits() -> None:
    """In the other profile the second answer comes when the job is done."""
    with far_side("slow") as side:
        side.send()
        side.clock.at += 15.0
        assert side.send().status is Remote.NO_ANSWER
        assert [one.after for one in side.late] == [5.0]
        assert side.reports() == 0
        assert read_reply(operation(), side.late[0].reply).status is Remote.COMPLETED
        side.clock.at += 5.0
        assert read_reply(operation(), side.late[0].reply) == side.ask()


def test_a_smaller_fencing_token_is_refused() -> None:
    """The greatest token of a key counts; that alone removes no duplicate."""
    with far_side("fenced") as side:
        assert side.send(fence=1).status is Remote.COMPLETED  # acts before its successor comes
        assert side.send(fence=2).status is Remote.COMPLETED
        assert side.send(fence=1).status is Remote.NO_ANSWER
        assert side.send("op-2", fence=1).status is Remote.COMPLETED
        assert side.provider.effects()["by_key"] == {KEY: 2, "op-2": 1}


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_the_service_has_its_own_clock(skew: float) -> None:
    """What it issues bears its own time; its retention is as long by its clock as by ours."""
    with far_side(clock_skew=skew, retention=100.0) as side:
        receipt = side.send().receipt
        assert receipt is not None
        assert receipt["issued_at"][11:19] == {HOUR: "09:00:00", -HOUR: "07:00:00"}[skew]
        side.clock.at += 99.9
        assert side.ask().status is Remote.COMPLETED


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("variant", ["ahead", "behind"])
def test_a_clock_that_drifts_stays_within_the_margin(name: str, variant: str) -> None:
    """With the contract's margin kept from both ends, a known key is known and found."""
    promised = contract(PROFILES[name])
    with far_side(name, work=0.0) as side:
        side.send()
        side.plan({"mishap": "R17", "call": 2, "variant": variant})
        side.ask()
        if promised.retention is not None:
            side.clock.at = START + promised.retention - promised.margin - 0.1
            assert side.send().job_id == "job-1"
        if promised.absent_final_after is not None:
            side.clock.at = START + promised.absent_final_after + promised.margin
            assert side.ask().status is Remote.COMPLETED
        assert side.reports() == 1


def test_contracts_promise_what_profiles_do() -> None:
    """Eight profiles; what each documentation says, in seconds."""
    said = {
        name: (c.retention, c.absent_final_after, c.margin)
        for name, c in ((name, contract(profile)) for name, profile in PROFILES.items())
    }
    plain = (DAY, None, HOUR)
    assert said == {
        "standard": plain,
        "final": (DAY, 5.0, HOUR),
        "lagging": plain,
        "slow": plain,
        "jobs": plain,
        "blind": plain,
        "bare": (None, None, HOUR),
        "fenced": (None, 0.0, HOUR),
    }
    assert margin(Profile(retention=8.0)) == 1.0
    assert contract(Profile(keys=False)).retention is None


NONSENSE = [{"concurrent": "maybe"}, {"query": "mind"}, {"reused_status": 418}, {"work": -1.0}]


@pytest.mark.parametrize("wrong", NONSENSE)
def test_a_profile_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """Rules that no service has cannot be asked for."""
    with pytest.raises(OperationError):
        Profile(**wrong)
