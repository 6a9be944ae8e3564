"""What the scheduler does, for every state, every answer and every age: one table, no guess."""

import copy
import itertools
import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from far_side import ARTICLE, operation
from hypothesis import given
from hypothesis import strategies as st

from lai.operations import policy
from lai.operations.answers import Answer, Remote
from lai.operations.policy import Keep, PollLater, RecoveryAction, recovery_action, schedule
from lai.operations.records import Operation, State

SENT = 1_800_000_000.0
FINAL, EXPIRES, DEADLINE = SENT + 100.0, SENT + 1000.0, SENT + 5000.0
# fresh; past absent_final_at; past key_expires_at; past deadline_at
AGES = (SENT + 10.0, FINAL, EXPIRES, DEADLINE)
ANSWERS = ("completed", "running", "failed", "not_found", "busy", "no_answer", "mismatch")
# A letter for each age in AGES, in the order of the answers, "nobody was asked" the last:
#   S send   Q ask   P store the receipt   R record a rejection   L ask later, unknown
#   B later, planned again   V a person must look   C cancel   K keep   A keep, with an alarm
# done running failed absent busy silence mismatch unsent nobody
TABLE = """
planned          SSSC SSSC SSSC SSSC SSSC SSSC SSSC SSSC SSSC
planned_again    SSVV SSVV SSVV SSVV SSVV SSVV SSVV SSVV SSVV
pending          PPPP LLLV RRRR LRVV LLVV LLVV VVVV BBBB QQQQ
unknown          PPPP LLLV RRRR LRVV LLVV LLVV VVVV LLVV QQQQ
succeeded        KKKK KKKK AAAA KKKK KKKK KKKK AAAA KKKK KKKK
rejected         AAAA AAAA KKKK KKKK KKKK KKKK KKKK KKKK KKKK
cancelled        AAAA AAAA AAAA KKKK KKKK KKKK KKKK KKKK KKKK
abandoned        AAAA KKKK KKKK KKKK KKKK KKKK KKKK KKKK KKKK
review_required  AAAA KKKK AAAA KKKK KKKK KKKK KKKK KKKK KKKK
"""
HEARD: tuple[str | None, ...] = (*ANSWERS, "not_sent", None)
ROWS = [
    (name, heard, age, letter)
    for name, *cells in map(str.split, TABLE.strip().splitlines())
    for heard, cell in zip(HEARD, cells, strict=True)
    for age, letter in zip(AGES, cell, strict=True)
]
# What a service said before, and what it says now that cannot be true beside it.
TAKEN_BACK = {
    ("completed", "running"),
    ("completed", "failed"),
    ("completed", "not_found"),
    ("running", "not_found"),
    ("failed", "running"),
    ("failed", "completed"),
}
TERMINAL = ("succeeded", "rejected", "cancelled", "abandoned")


def record(name: str, **changed: Any) -> Operation:
    """An operation in a state; ``planned_again`` is a resend that a person has permitted."""
    state = State(name.removesuffix("_again"))
    made = operation(state=state, deadline_at=DEADLINE)
    if name not in {"planned", "cancelled"}:  # those were never sent
        times = {"sent_at": SENT, "absent_final_at": FINAL, "key_expires_at": EXPIRES}
        made = replace(made, attempt=1, **times)
    return replace(made, **changed)


def answer(heard: str | None, **said: Any) -> Answer | None:
    return None if heard is None else Answer(Remote(heard), "证据 \u2028", **said)


def letter(record: Operation, heard: Answer | None, now: float) -> str:
    """The step as a letter of the table."""
    match schedule(record, heard, now):
        case PollLater(_, State.UNKNOWN):
            return "L"
        case PollLater(_, State.PLANNED):
            return "B"
        case Keep(alarm):
            return "A" if alarm else "K"
        case policy.RequireReview(missing):
            return "V" if missing.strip() else "a review that does not say what is missing"
        case step:
            letters = {
                policy.Send: "S",
                policy.Query: "Q",
                policy.PersistReceipt: "P",
                policy.RecordRejection: "R",
                policy.Cancel: "C",
            }
            return letters[type(step)]


def test_the_table_is_complete() -> None:
    """8 states x 8 answers x 4 ages are 256 rows; a resend and "nobody was asked" come on top."""
    cells = [(name, heard, age) for name, heard, age, _ in ROWS]
    assert len(set(cells)) == len(cells)
    names = {*map(str, State), "planned_again"}
    assert set(cells) == set(itertools.product(names, [*map(str, Remote), None], AGES))
    assert sum(name != "planned_again" and heard is not None for name, heard, _ in cells) == 256


def test_every_row_of_the_table() -> None:
    """The scheduler says what the table says, in all 324 rows."""
    wrong = [
        (name, heard, age - SENT, wanted, found)
        for name, heard, age, wanted in ROWS
        if (found := letter(record(name), answer(heard), age)) != wanted
    ]
    assert wrong == []


@pytest.mark.parametrize("state", ["pending", "unknown"])
@pytest.mark.parametrize("before", ["completed", "running", "failed"])
def test_a_service_that_takes_back_its_word(state: str, before: str) -> None:
    """Two answers that cannot both be true go to a person, at any age; all others count."""
    for heard, age in itertools.product(map(str, Remote), AGES):
        found = letter(record(state, last_said=before), answer(heard), age)
        plain = letter(record(state), answer(heard), age)
        assert found == ("V" if (before, heard) in TAKEN_BACK else plain), (heard, age)


@pytest.mark.parametrize(
    ("now", "asked", "wish", "wait"),
    [
        (AGES[0], 0, None, 1.0),
        (AGES[0], 1, None, 2.0),
        (AGES[0], 8, None, 256.0),
        (AGES[0], 9, None, 300.0),
        (AGES[0], 10_000, None, 300.0),
        (AGES[0], 0, 0.5, 1.0),  # a service cannot make us ask faster
        (AGES[0], 3, 60.0, 60.0),
        (AGES[0], 9, 301.0, 301.0),
        (AGES[0], 0, 31_536_000.0, DEADLINE - AGES[0]),  # a year, and there is a deadline
        (DEADLINE - 20.0, 9, None, 20.0),  # once more at the deadline, and not after it
        (DEADLINE - 0.25, 9, None, 1.0),
    ],
)
def test_when_it_asks_again(now: float, asked: int, wish: float | None, wait: float) -> None:
    """Doubled from 1 s to 300 s, longer if the service wishes, and never beyond the deadline."""
    for heard in ("running", "busy", "no_answer"):
        known = record("unknown", query_count=asked, key_expires_at=None)
        step = schedule(known, answer(heard, retry_after=wish), now)
        assert step == PollLater(now + wait, State.UNKNOWN)


def test_a_refusal_of_the_second_request_is_none_of_the_first() -> None:
    """After a resend only the job's own failure is a no; a refusal goes to a person."""
    for state, age in itertools.product(("pending", "unknown"), AGES):
        again = record(state, attempt=2)
        assert letter(again, answer("failed"), age) == "V"
        assert letter(again, answer("failed", said="failed", job_id="job-1"), age) == "R"


def test_a_promise_that_was_not_made_is_not_used() -> None:
    """Where "not found" is never final, it never rejects; where no key expires, none does."""
    for age in AGES[:3]:
        silent = record("unknown", absent_final_at=None, key_expires_at=None)
        assert letter(silent, answer("not_found"), age) == "L"
    assert letter(record("planned_again", key_expires_at=None), None, EXPIRES) == "S"
    assert letter(record("unknown", key_expires_at=None), answer("not_found"), DEADLINE) == "R"


ARTICLE_SAYS = [
    ("completed", "persist_receipt"),
    ("running", "poll_later"),
    *[(other, "review_required") for other in (*ANSWERS[2:], "not_sent", "COMPLETED", "", None)],
]


@pytest.mark.parametrize(("heard", "action"), ARTICLE_SAYS)
def test_the_function_of_the_article(heard: str | None, action: str) -> None:
    """A success is reused, a receipt kept, a running job waited for; all else is reviewed."""
    for state in State:
        wanted = "reuse_result" if state == "succeeded" else action
        assert recovery_action(record(state), heard) == wanted
    assert recovery_action(Operation.read(json.loads(ARTICLE)), heard) == action


def test_the_function_of_the_article_has_four_answers() -> None:
    """Its names are the article's, and there is no fifth."""
    names = ["reuse_result", "persist_receipt", "poll_later", "review_required"]
    assert [str(action) for action in RecoveryAction] == names


@pytest.mark.parametrize("state", list(State))
def test_nothing_is_sent_for_a_record_that_says_too_little(state: State) -> None:
    """The article's record has no deadline and no input hash: it never leads to a send."""
    known = Operation.read(json.loads(ARTICLE) | {"state": str(state)})
    for heard, now in itertools.product((*map(str, Remote), None), (0.0, SENT)):
        assert letter(known, answer(heard), now) != "S"


MOMENTS = st.floats(SENT - 1e6, SENT + 1e6)
MAYBE = st.none() | MOMENTS
SAID = st.sampled_from([None, "completed", "running", "failed", "else"])
RECORDS = st.builds(
    operation,
    state=st.sampled_from(State),
    deadline_at=MOMENTS,
    sent_at=MAYBE,
    absent_final_at=MAYBE,
    key_expires_at=MAYBE,
    next_query_at=MAYBE,
    lease_until=MAYBE,
    last_said=SAID,
    query_count=st.integers(0, 1_000_000),
    attempt=st.integers(0, 5),
)
HEARD_ANYTHING = st.builds(
    Answer,
    st.sampled_from(Remote),
    st.text(max_size=5),
    job_id=st.none() | st.just("job-1"),
    receipt=st.none() | st.just({"report_id": "书"}),
    retry_after=st.none() | st.floats(0, 1e12),
)


@given(RECORDS, st.none() | HEARD_ANYTHING, MOMENTS)
def test_whatever_the_record_says(known: Operation, heard: Answer | None, now: float) -> None:
    """A send comes from planned alone; what has ended, or waits for a person, stays as it is."""
    found = letter(known, heard, now)
    if found == "S":
        assert known.state == "planned"
        assert now < known.deadline_at
        assert known.key_expires_at is None or now < known.key_expires_at
    if known.state in {*TERMINAL, "review_required"}:
        assert found in {"K", "A"}
    else:
        assert found not in {"K", "A"}
    if found == "C":
        assert known.sent_at is None


@given(RECORDS, HEARD_ANYTHING, MOMENTS)
def test_the_next_question_has_its_time(known: Operation, heard: Answer, now: float) -> None:
    """It is later than now, and at most the deadline or the shortest wait away."""
    step = schedule(known, heard, now)
    if isinstance(step, PollLater):
        assert now < step.at <= max(known.deadline_at, now + 1.0)
        assert step.at >= min(now + (heard.retry_after or 0.0), known.deadline_at)


@given(RECORDS, HEARD_ANYTHING, MOMENTS)
def test_evidence_counts_at_any_age(known: Operation, heard: Answer, now: float) -> None:
    """A receipt or a definite no about an open operation is taken, however late it comes."""
    open_ = known.state in {"pending", "unknown"}
    agrees = (known.last_said, str(heard.status)) not in TAKEN_BACK
    if known.attempt > 1 and heard.status == "failed" and not heard.said:
        assert not open_ or letter(known, heard, now) == "V"  # a no to the second request only
    elif open_ and agrees and heard.status in {"completed", "failed"}:
        assert letter(known, heard, now) == {"completed": "P", "failed": "R"}[heard.status]


@given(RECORDS, HEARD_ANYTHING, MOMENTS)
def test_not_found_is_a_no_between_two_times_only(
    known: Operation, heard: Answer, now: float
) -> None:
    """Without the service's own no, a rejection needs "not found" when it is final."""
    if letter(known, heard, now) == "R" and heard.status != "failed":
        assert heard.status == "not_found"
        assert known.absent_final_at is not None
        assert known.absent_final_at <= now
        assert known.key_expires_at is None or now < known.key_expires_at


@given(RECORDS, st.none() | HEARD_ANYTHING, MOMENTS)
def test_the_step_depends_on_nothing_else(
    known: Operation, heard: Answer | None, now: float
) -> None:
    """The same record, answer and time give the same step, and none of them is changed."""
    before = copy.deepcopy((asdict(known), heard))
    first = schedule(known, heard, now)
    schedule(replace(known, state=State.PLANNED), None, now + 1e5)
    assert schedule(copy.deepcopy(known), copy.deepcopy(heard), now) == first
    assert (asdict(known), heard) == before


def test_nothing_ever_happens_to_what_waits_for_a_person() -> None:
    """In 100,000 hours, whatever is heard meanwhile, the scheduler does nothing."""
    waits = record("review_required")
    heard = itertools.cycle([answer(one, retry_after=1.0) for one in HEARD])
    steps = {schedule(waits, next(heard), SENT + 3600.0 * hour) for hour in range(100_000)}
    assert {type(step) for step in steps} == {Keep}
