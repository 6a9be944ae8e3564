"""The record of an operation: its fields, its edges, and what each step writes into it."""

import itertools
import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from far_side import ARTICLE, operation
from hypothesis import given
from hypothesis import strategies as st

from lai.operations.answers import Answer, Contract, Remote
from lai.operations.changes import crossing, following
from lai.operations.policy import (
    Cancel,
    Keep,
    PersistReceipt,
    PollLater,
    Query,
    RecordRejection,
    RequireReview,
    Send,
)
from lai.operations.records import (
    MAY_FOLLOW,
    RECOVERABLE,
    RESUME,
    TERMINAL,
    IllegalChange,
    Operation,
    OperationError,
    State,
    Who,
)

NOW = 1_800_000_000.0
# From each state, who may take it where: o the owner, p a person, b both.
EDGES = """
planned          planned:o pending:o cancelled:b review_required:o
pending          planned:o unknown:o succeeded:o rejected:o review_required:o
unknown          unknown:o succeeded:o rejected:o review_required:o
review_required  planned:p unknown:p succeeded:p rejected:p abandoned:p cancelled:p
succeeded
rejected
cancelled
abandoned
"""
MAY = {
    (before, to): {"o": {"owner"}, "p": {"person"}, "b": {"owner", "person"}}[who]
    for before, *edges in map(str.split, EDGES.strip().splitlines())
    for to, who in (edge.split(":") for edge in edges)
}


@pytest.mark.parametrize("before", State)
def test_every_pair_of_states(before: State) -> None:
    """Whoever may take an operation from here to there may; nobody else, and nowhere else."""
    assert {op for op, *_ in map(str.split, EDGES.strip().splitlines())} == set(map(str, State))
    for to, who in itertools.product(State, Who):
        known = operation(state=before)
        if str(who) in MAY.get((str(before), str(to)), ()):
            known.require(to, who)
        else:
            with pytest.raises(IllegalChange, match=known.operation_id):
                known.require(to, who)


def test_what_has_ended_has_ended() -> None:
    """Nothing leaves a terminal state, and no scheduler is shown one that waits for a person."""
    ended = {"succeeded", "rejected", "cancelled", "abandoned"}
    assert set(map(str, TERMINAL)) == ended == {str(s) for s in State if not MAY_FOLLOW[s]}
    assert {str(s) for s in State if operation(state=s).terminal} == ended
    assert set(map(str, RECOVERABLE)) == {"planned", "pending", "unknown"}


@pytest.mark.parametrize("who", Who)
def test_what_was_sent_cannot_be_cancelled(who: Who) -> None:
    """Cancelled says that it was never sent, so a permitted resend cannot be cancelled."""
    operation(sent_at=None).require(State.CANCELLED, who)
    for sent_at in (NOW, 0.0):
        with pytest.raises(IllegalChange, match="sent"):
            operation(sent_at=sent_at, attempt=1).require(State.CANCELLED, who)


@pytest.mark.parametrize("table", [MAY_FOLLOW, RESUME, MAY_FOLLOW[State.PENDING]])
def test_the_rules_are_the_same_for_life(table: Any) -> None:
    """No program can add an edge while it runs."""
    try:
        with pytest.raises(TypeError):
            table["no state"] = frozenset(Who)
    finally:
        if "no state" in table:
            del table["no state"]


def test_the_mark_says_what_to_do_and_sends_nothing() -> None:
    """Whoever finds what may have been sent is told to ask; only a plan says send."""
    assert {str(state): mark for state, mark in RESUME.items()} == {
        "planned": "send",
        "pending": "query_or_review",
        "unknown": "query_or_review",
        "review_required": "review",
        "succeeded": "reuse_result",
        "rejected": None,
        "cancelled": None,
        "abandoned": None,
    }


def test_the_record_of_the_article() -> None:
    """It loads, and it comes back as it was: eleven fields, its order, its values."""
    known = Operation.read(json.loads(ARTICLE))
    assert json.dumps(known.record(), indent=2) == ARTICLE.strip()
    assert known.state is State.UNKNOWN
    assert (known.fence, known.owner, known.lease_until) == (0, None, None)


TIMES = st.none() | st.floats(allow_nan=False)
WORDS = st.text(max_size=8)
ANY = {
    **{f.name: WORDS for f in fields(Operation) if f.type in {"str", str}},
    **{
        f.name: st.none() | WORDS for f in fields(Operation) if f.type in {"str | None", str | None}
    },
    **{f.name: st.integers(0, 1 << 62) for f in fields(Operation) if f.type in {"int", int}},
    **{f.name: TIMES for f in fields(Operation) if f.type in {"float | None", float | None}},
    "state": st.sampled_from(State),
    "deadline_at": st.floats(allow_nan=False),
    "schema_version": st.just(1),
}


@given(st.builds(Operation, **ANY))
def test_a_row_and_a_record_are_read_back(known: Operation) -> None:
    """A row is read as what was written; so is its JSON; the record has the first eleven."""
    assert set(ANY) == {field.name for field in fields(Operation)}
    row = asdict(known)
    assert Operation.read(row) == known
    assert Operation.read(json.loads(json.dumps(row, ensure_ascii=False))) == known
    assert list(known.record()) == list(json.loads(ARTICLE))
    again = Operation.read(known.record())
    assert again.record() == known.record() == {name: row[name] for name in json.loads(ARTICLE)}
    assert type(known.record()["state"]) is str


@pytest.mark.parametrize(
    "changed",
    [
        {"schema_version": 2},
        {"schema_version": 0},
        {"schema_version": "1"},
        {"schema_version": None},
        {"state": "failed"},
        {"state": None},
        {"state": ["unknown"]},
        {"priority": 1},
        {"书\u2028": None},
    ],
)
def test_a_record_of_another_kind_is_refused(changed: dict[str, Any]) -> None:
    """Another version, an unknown state or an unknown field is not read as something it is not."""
    with pytest.raises(OperationError):
        Operation.read(json.loads(ARTICLE) | changed)


@pytest.mark.parametrize("name", ["schema_version", "run_id", "operation_id", "input_ref", "state"])
def test_a_record_that_lacks_a_field_is_refused(name: str) -> None:
    """What a record must say cannot be guessed."""
    short = json.loads(ARTICLE)
    del short[name]
    with pytest.raises(OperationError):
        Operation.read(short)


# --- what a step writes -------------------------------------------------------------------

CONTRACT = Contract(
    scope="s", tool_version="v1", retention=1000.0, absent_final_after=60.0, margin=10.0
)
SILENT = Contract(scope="s", tool_version="v1")


def test_promised_seconds_become_points_in_time() -> None:
    """The key grows old from the first send, not found is final after the last; margins kept."""
    first = crossing(operation(), CONTRACT, NOW)
    assert first.to is State.PENDING
    assert first.values == {
        "attempt": 1,
        "sent_at": NOW,
        "key_expires_at": NOW + 990.0,
        "absent_final_at": NOW + 70.0,
    }
    sent = replace(operation(), **first.values)
    assert crossing(sent, CONTRACT, NOW + 500.0).values == {
        "attempt": 2,
        "sent_at": NOW,
        "key_expires_at": NOW + 990.0,
        "absent_final_at": NOW + 570.0,
    }


def test_what_was_not_promised_has_no_time() -> None:
    """A contract that says nothing gives nothing to rely on; a time from before is kept."""
    values = crossing(operation(), SILENT, NOW).values
    assert (values["key_expires_at"], values["absent_final_at"]) == (None, None)
    sent = operation(sent_at=NOW, key_expires_at=NOW + 990.0, absent_final_at=NOW + 70.0)
    values = crossing(sent, SILENT, NOW + 1.0).values
    assert (values["key_expires_at"], values["absent_final_at"]) == (NOW + 990.0, None)


HEARD = Answer(Remote.RUNNING, "job-7 is running", job_id="job-7", said="running")
SENT = operation(state=State.PENDING, attempt=2, sent_at=NOW, key_expires_at=NOW + 9, query_count=3)
LEARNT = {"remote_job_id": "job-7", "last_said": "running"}
# A step, the state it leads to, what it writes beside what was learnt.
STEPS: list[tuple[Any, str, dict[str, Any]]] = [
    (PersistReceipt(), "succeeded", {}),
    (RecordRejection(), "rejected", {}),
    (PollLater(NOW + 8, State.UNKNOWN), "unknown", {"next_query_at": NOW + 8, "query_count": 4}),
    (RequireReview("书\u2028"), "review_required", {"review_reason": "书\u2028"}),
]


@pytest.mark.parametrize(("step", "to", "writes"), STEPS)
def test_what_a_step_writes(step: Any, to: str, writes: dict[str, Any]) -> None:
    """The state it names, the words that were heard, and what the service has told of itself."""
    change = following(SENT, step, HEARD, operation())
    assert (change.to, change.evidence) == (to, "job-7 is running")
    assert change.values == LEARNT | writes
    silence = following(replace(SENT, **LEARNT), step, Answer(Remote.NO_ANSWER, "nothing"), SENT)
    assert silence.values == LEARNT | writes  # silence takes nothing away
    assert "operation_id" not in change.values
    assert not {"idempotency_key", "input_sha256", "input_ref", "attempt"} & set(change.values)


@pytest.mark.parametrize("before", [None, NOW - 500.0])
def test_what_was_not_sent_is_planned_as_before(before: float | None) -> None:
    """No byte left, so the times are those of before; that it was tried stays counted."""
    planned = operation(sent_at=before, key_expires_at=before, absent_final_at=before)
    unsent = Answer(Remote.NOT_SENT, "refused")
    change = following(SENT, PollLater(NOW + 1, State.PLANNED), unsent, planned)
    after = replace(SENT, state=change.to, **change.values)
    assert (after.sent_at, after.key_expires_at, after.absent_final_at) == (before,) * 3
    assert (after.state, after.next_query_at, after.attempt) == ("planned", NOW + 1, 2)


def test_what_is_cancelled_says_that_it_was_never_sent() -> None:
    """Nobody was asked, and the words say so."""
    change = following(operation(), Cancel(), None, operation())
    assert change.to is State.CANCELLED
    assert "before anything was sent" in change.evidence


@pytest.mark.parametrize("step", [Send(), Query(), Keep(), Keep("alarm")])
def test_what_is_done_is_not_written(step: Any) -> None:
    """To send, to ask and to leave it are no changes of the record."""
    with pytest.raises(AssertionError):
        following(SENT, step, HEARD, operation())
