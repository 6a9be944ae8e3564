"""The report service keeps its rules, and every mishap happens as its row in the table says."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from far_side import BODY, Clock, FarSide, far_side, operation
from hypothesis import given
from hypothesis import strategies as st

from lai.operations.answers import Remote, read_reply
from lai.operations.client import Client
from lai.operations.records import OperationError
from lai.operations.service.mishaps import MISHAPS, Mishap
from lai.operations.service.profiles import HOUR, PROFILES, Profile
from lai.operations.service.provider import Fate, Provider
from lai.operations.service.transport import transport_of

KEY, OTHER = "op-report-001", {"title": "other", "lines": []}
# A mishap of the POST: what the client hears, how many reports there are, what it hears then.
POSTS = [
    ("R1", "", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R2", "silent", Remote.NO_ANSWER, 0, Remote.NOT_FOUND),
    ("R2", "accepted", Remote.RUNNING, 0, Remote.NOT_FOUND),
    ("R3", "", Remote.COMPLETED, 2, Remote.COMPLETED),
    ("R4", "", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R5", "different", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R5", "same", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R6", "", Remote.BUSY, 1, Remote.COMPLETED),
    ("R7", "", Remote.MISMATCH, 0, Remote.MISMATCH),
    ("R8", "", Remote.COMPLETED, 1, Remote.COMPLETED),
    ("R12", "done", Remote.NO_ANSWER, 1, Remote.NO_ANSWER),
    ("R12", "undone", Remote.NO_ANSWER, 0, Remote.NO_ANSWER),
    ("R13", "429", Remote.BUSY, 0, Remote.NOT_FOUND),
    ("R13", "503", Remote.BUSY, 0, Remote.NOT_FOUND),
    ("R14", "", Remote.RUNNING, 0, Remote.FAILED),
    ("R15", "truncated", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R15", "content_type", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R15", "error_body", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R15", "redirect", Remote.NO_ANSWER, 1, Remote.COMPLETED),
    ("R16", "", Remote.NOT_SENT, 0, Remote.NOT_FOUND),
    ("R17", "ahead", Remote.COMPLETED, 1, Remote.COMPLETED),
    ("R17", "behind", Remote.COMPLETED, 1, Remote.COMPLETED),
    ("R18", "", Remote.MISMATCH, 1, Remote.MISMATCH),
]
# A mishap of the first GET, after a POST that went well: what it hears, and the next time.
GETS = [
    ("R1", "", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R4", "", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R5", "different", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R5", "same", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R9", "", Remote.NOT_FOUND, Remote.COMPLETED),
    ("R10", "", Remote.MISMATCH, Remote.COMPLETED),
    ("R11", "", Remote.RUNNING, Remote.COMPLETED),
    ("R13", "429", Remote.BUSY, Remote.COMPLETED),
    ("R13", "503", Remote.BUSY, Remote.COMPLETED),
    ("R15", "truncated", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R15", "content_type", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R15", "error_body", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R15", "redirect", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R16", "", Remote.NO_ANSWER, Remote.COMPLETED),
    ("R17", "ahead", Remote.COMPLETED, Remote.COMPLETED),
    ("R17", "behind", Remote.NOT_FOUND, Remote.NOT_FOUND),
    ("R18", "", Remote.MISMATCH, Remote.MISMATCH),
]
A_BODY = json.dumps(BODY).encode()


@pytest.fixture
def side() -> Iterator[FarSide]:
    with far_side() as made:
        yield made


@pytest.mark.parametrize(("mishap", "variant", "heard", "made", "then"), POSTS)
def test_a_mishap_of_the_request(
    side: FarSide, mishap: str, variant: str, heard: Remote, made: int, then: Remote
) -> None:
    """What a client hears of a POST gone wrong, what was really done, and what it can find out."""
    side.plan({"mishap": mishap, "variant": variant})
    assert side.send().status is heard
    assert side.reports() == made
    assert side.ask().status is then
    assert side.reports() == made


@pytest.mark.parametrize(("mishap", "variant", "heard", "then"), GETS)
def test_a_mishap_of_the_question(mishap: str, variant: str, heard: Remote, then: Remote) -> None:
    """A question gone wrong changes nothing at the service, and the next one is answered."""
    with far_side(visibility_lag=5.0) as side:
        assert side.send().status is Remote.COMPLETED
        side.clock.at += 5.0
        side.plan({"mishap": mishap, "variant": variant, "call": 2})
        assert [side.ask().status, side.ask().status] == [heard, then]
        assert side.reports() == 1


def test_every_way_of_every_mishap_is_in_the_tables() -> None:
    """The two tables of this file have each mishap, on each request, in each variant."""
    assert list(MISHAPS) == list(Mishap)
    assert [one.value for one in Mishap] == [f"R{number}" for number in range(1, 19)]
    wanted = {
        (mishap.value, variant, method)
        for mishap, entry in MISHAPS.items()
        for variant in entry.variants
        for method in entry.methods
    }
    assert wanted == {(*row[:2], "POST") for row in POSTS} | {(*row[:2], "GET") for row in GETS}


@pytest.mark.parametrize(
    ("mishap", "method"),
    [(m.value, method) for m, e in MISHAPS.items() for method in {"POST", "GET"} - {*e.methods}],
)
def test_a_mishap_of_the_other_request_does_nothing(
    side: FarSide, mishap: str, method: str
) -> None:
    """A mishap planned for a request that it cannot befall leaves the call as it was."""
    if method == "GET":
        side.send()
    side.plan(mishap)
    answer = side.send() if method == "POST" else side.ask()
    assert answer.status is Remote.COMPLETED
    assert answer.alarm == ""
    assert side.reports() == 1


def test_several_mishaps_befall_one_call(side: FarSide) -> None:
    """The work is done twice and the answer is lost; the look-up raises the alarm."""
    side.plan("R3", "R1")
    assert side.send().status is Remote.NO_ANSWER
    found = side.ask()
    assert (found.status, side.reports()) == (Remote.COMPLETED, 2)
    assert "2 executions" in found.alarm


def test_a_late_answer_can_be_had(side: FarSide) -> None:
    """The late answer says what the look-up says; outrun, it names another job."""
    side.plan("R4", {"mishap": "R5", "call": 2})
    side.send()
    found = side.ask(), side.ask()
    late, outrun = (read_reply(operation(), one.reply) for one in side.late)
    assert [one.fate for one in side.late] == [Fate.LATE, Fate.LATE]
    assert late == found[1]
    assert outrun.job_id == "job-1-b"
    known = operation(remote_job_id="job-1")
    assert read_reply(known, side.late[1].reply).status is Remote.MISMATCH


def test_a_truncated_answer_breaks_off(side: FarSide) -> None:
    """The connection ends before the body does, as it would on a wire."""
    side.plan({"mishap": "R15", "variant": "truncated"})
    assert side.send().evidence.startswith("RemoteProtocolError: peer closed connection")


def test_a_refused_connection_is_no_arrival(side: FarSide) -> None:
    """Where no connection comes about nothing is counted as arrived, and the plan goes on."""
    side.plan({"mishap": "R16", "call": 1}, {"mishap": "R1", "call": 2})
    assert [side.send().status for _ in range(3)] == [
        Remote.NOT_SENT,
        Remote.NO_ANSWER,
        Remote.COMPLETED,
    ]
    assert side.provider.calls() == [
        {"call": number, "method": "POST", "path": "/reports", "key": KEY} for number in (2, 3)
    ]


def test_a_stored_error_is_stored(side: FarSide) -> None:
    """After a 500 the same key and its job answer 500 for ever; another key does not."""
    side.plan("R12")
    for _ in range(3):
        assert side.send().evidence.startswith("HTTP 500")
        assert side.ask(remote_job_id="job-1").evidence.startswith("HTTP 500")
    assert side.send("op-2").status is Remote.COMPLETED


def test_a_new_version_stays(side: FarSide) -> None:
    """From its call on, every answer carries the other version."""
    side.plan({"mishap": "R18", "call": 2})
    versions = [side.provider.by_key(KEY).reply.headers["api-version"] for _ in range(4)]
    assert versions == ["v1", "v2", "v2", "v2"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"mishap": "R19"},
        {"mishap": None},
        {"mishap": ["R1"]},
        {"mishap": "R1", "call": -1},
        {"mishap": "R1", "call": True},
        {"mishap": "R1", "call": "1"},
        {"mishap": "R1", "variant": "late"},
        {"mishap": "R15", "variant": ["truncated"]},
        {"mishap": "R1", "when": 1},
        {"mishap": "R1", "call": 1},
        {},
        "R1",
    ],
)
def test_a_plan_that_makes_no_sense_changes_nothing(side: FarSide, wrong: Any) -> None:
    """It is refused as a whole, also for a call that is over; the old plan stands."""
    side.send()
    side.plan({"mishap": "R1", "call": 2})
    with pytest.raises(OperationError):
        side.provider.plan_mishaps([{"mishap": "R3", "call": 3}, wrong])
    assert side.ask().status is Remote.NO_ANSWER
    assert side.send("op-2").alarm == ""


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    """Jobs, calls, their numbers, the plan and the clock's error are in the database."""
    clock, file = Clock(), tmp_path / "service.sqlite"
    profile = replace(PROFILES["standard"], work=10.0)
    heard = []
    plan = [{"mishap": "R1", "call": 3}, {"mishap": "R18", "call": 4}]
    for call in range(1, 7):
        with Provider(file, profile, clock) as provider, Client(transport_of(provider)) as client:
            if call == 1:
                provider.plan_mishaps(plan)
            heard.append(client.send(operation(), BODY).status)
            clock.at += 4.0
    assert heard == [
        Remote.RUNNING,
        Remote.BUSY,
        Remote.NO_ANSWER,
        *[Remote.MISMATCH] * 3,  # done since, in the other version
    ]
    with Provider(file, profile, clock) as provider:
        assert [one["call"] for one in provider.calls()] == [1, 2, 3, 4, 5, 6]
        assert provider.effects()["by_key"] == {KEY: 1}


def test_the_same_calls_leave_the_same_words() -> None:
    """Nothing is random: two services, the same calls, the same replies byte for byte."""
    words = []
    for _ in range(2):
        with far_side("final", work=3.0) as side:
            side.plan(*({"mishap": m, "call": n} for n, m in enumerate(Mishap, 1)))
            said = []
            for number in range(30):
                key = f"op-{number % 4}"
                said.append(side.provider.create(key, A_BODY, {}))
                said.append(side.provider.by_key(key))
                side.clock.at += 1.0
            words.append((said, side.provider.effects(), side.provider.calls()))
    assert words[0] == words[1]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["op-1", "op-2"]),
            st.booleans(),
            st.sampled_from([*Mishap, *[None] * 10]),
            st.sampled_from([0.0, 1.0, 60.0]),
        ),
        max_size=12,
    ),
    st.sampled_from(sorted(PROFILES)),
)
def test_reports_are_counted_once_each(steps: list[Any], name: str) -> None:
    """Whatever goes wrong, a key in its retention has one report, two if it is done twice."""
    with far_side(name) as side:
        doubled, sent = 0, 0
        for key, posts, mishap, pause in steps:
            side.plan(*[mishap] * (mishap is not None))
            answer = side.send(key) if posts else side.ask(key)
            sent += posts and answer.status is not Remote.NOT_SENT
            doubled += posts and mishap is Mishap.DONE_TWICE
            side.clock.at += pause
        side.clock.at += 2 * HOUR
        made = side.provider.effects()
        assert made["reports"] <= sent + doubled
        if side.provider.profile.keys:
            assert made["reports"] - made["anew"] <= len(made["by_key"]) + doubled
        assert sum(made["by_key"].values()) == made["reports"]
        assert len(side.provider.calls()) >= sent


def test_a_profile_is_a_plain_value() -> None:
    """A profile can be told to another process and read back."""
    assert all(Profile(**json.loads(json.dumps(asdict(p)))) == p for p in PROFILES.values())
