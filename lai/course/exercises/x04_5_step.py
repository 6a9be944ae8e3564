"""04.5: the scheduler's table. What was said, where the record stands, how old it is."""

from itertools import product

from lai.course.exercises.model import Case, Exercise, slips
from lai.operations.answers import Answer, Remote
from lai.operations.policy import schedule
from lai.operations.records import Operation, State
from lai.operations.show import STEPS

QUESTION = """
An operation's record is found: in one of the states of `State`. The service was asked and said
one of the words of `Remote`, or nobody has asked yet (`None`). And time has passed: `"early"`;
`"settled"`, when by the service's contract "not found" is final; `"expired"`, when it may have
forgotten the key; `"overdue"`, when the deadline is over. What is the next step? Answer with one
word: "send", "ask", "store the receipt", "rejected", "wait", "person", "cancelled" or "keep".
What was never sent is cancelled when its time is over; what has ended, or waits for a person
already, is kept. Words of `State` and `Remote` compare equal with plain strings.
"""

STUB = '''
from lai.operations import Remote, State


def my_step(state, said, age):
    """The next step for an operation in that state, after that answer, at that age."""
    raise NotImplementedError
'''

HINTS = """
Begin with the states in which nobody but a person may do anything: four have ended, one waits
for a person. `planned` has never been sent, so no answer matters there. What is left is pending
and unknown, and they are the same to a scheduler with one exception.

Evidence counts at any age: a receipt is stored, a refusal recorded, and an answer about
something else is put to a person. Nothing else that was said is evidence.

"Not found" is a certain no at exactly one age. "Running" is waited for until it is overdue; all
the rest only until the key has expired. And the exception: `not_sent` leaves a pending
operation unsent, so it waits, at whatever age, and is planned again.
"""

SOLUTION = '''
from lai.operations import TERMINAL, Remote, State


def my_step(state, said, age):
    """The next step for an operation in that state, after that answer, at that age."""
    if state in TERMINAL or state == State.REVIEW_REQUIRED:
        return "keep"
    if state == State.PLANNED:
        return "cancelled" if age == "overdue" else "send"
    if said is None:
        return "ask"
    if said == Remote.COMPLETED:
        return "store the receipt"
    if said == Remote.FAILED:
        return "rejected"
    if said == Remote.MISMATCH:
        return "person"
    if said == Remote.NOT_SENT and state == State.PENDING:
        return "wait"
    if said == Remote.NOT_FOUND and age == "settled":
        return "rejected"
    if age == "overdue" or (age == "expired" and said != Remote.RUNNING):
        return "person"
    return "wait"
'''

AGES = ("early", "settled", "expired", "overdue")
ENDED = "What has ended stays as it is, and what waits for a person waits."
PLANNED = "What was never sent is sent, or cancelled when its time is over."
UNASKED = "Nothing is sent again from pending or unknown: the service is asked."
EVIDENCE = "A receipt, a refusal or another's answer decides at any age."
ABSENT = "`not_found` is a certain no between two times, and otherwise no answer."
RUNNING = "A running job is waited for until the deadline."
SILENCE = "Silence is waited out until the key may be forgotten, then a person is asked."
UNSENT = "What provably did not leave goes back to planned."
# What is said of an open operation: the rule, and the step at each age, in the order of AGES.
TABLE: dict[Remote, tuple[str, str]] = {
    Remote.COMPLETED: (EVIDENCE, "receipt receipt receipt receipt"),
    Remote.RUNNING: (RUNNING, "wait wait wait person"),
    Remote.FAILED: (EVIDENCE, "rejected rejected rejected rejected"),
    Remote.NOT_FOUND: (ABSENT, "wait rejected person person"),
    Remote.BUSY: (SILENCE, "wait wait person person"),
    Remote.NO_ANSWER: (SILENCE, "wait wait person person"),
    Remote.MISMATCH: (EVIDENCE, "person person person person"),
    Remote.NOT_SENT: (SILENCE, "wait wait person person"),
}


def _written() -> list[Case]:
    """Every cell: eight states, nine things said, four ages."""
    return [
        Case(*_cell(state, said, age)) for state, said, age in product(State, [None, *Remote], AGES)
    ]


def _cell(
    state: State, said: Remote | None, age: str
) -> tuple[str, tuple[State, Remote | None, str], str]:
    given = (state, said, age)
    match state:
        case State.PLANNED:
            return PLANNED, given, "cancelled" if age == "overdue" else "send"
        case State.PENDING | State.UNKNOWN if said is None:
            return UNASKED, given, "ask"
        case State.PENDING if said is Remote.NOT_SENT:
            return UNSENT, given, "wait"
        case State.PENDING | State.UNKNOWN if said is not None:
            rule, row = TABLE[said]
            word = row.split()[AGES.index(age)]
            return rule, given, "store the receipt" if word == "receipt" else word
        case _:
            return ENDED, given, "keep"


def _library(state: State, said: Remote | None, age: str) -> str:
    """The same from ``schedule``, for a record whose times are 10, 20 and 30."""
    record = Operation(
        run_id="run-demo",
        operation_id="op-书",
        tool_name="create_report",
        tool_version="v1",
        input_ref="inputs/x.json",
        input_sha256="",
        scope="",
        idempotency_key="op-书",
        state=state,
        deadline_at=30.0,
        sent_at=None if state is State.PLANNED else 0.0,
        absent_final_at=None if state is State.PLANNED else 10.0,
        key_expires_at=None if state is State.PLANNED else 20.0,
    )
    answer = None if said is None else Answer(said, "")
    action = schedule(record, answer, 5.0 + 10.0 * AGES.index(age))
    return STEPS[type(action)]


WRONG = slips(
    SOLUTION,
    ("takes silence for permission", UNASKED, ('return "ask"', 'return "send"')),
    ('takes "not found" for a no at once', ABSENT, (' and age == "settled"', "")),
    (
        "takes a timeout for a failure",
        SILENCE,
        ("said == Remote.FAILED", "said in (Remote.FAILED, Remote.NO_ANSWER)"),
    ),
    (
        "throws away a receipt that comes too late",
        EVIDENCE,
        ("said == Remote.COMPLETED", 'said == Remote.COMPLETED and age != "overdue"'),
    ),
    (
        "asks for ever",
        RUNNING,
        ('return "person"\n    return "wait"', 'return "wait"\n    return "wait"'),
    ),
    (
        "goes on by itself where a person was asked for",
        ENDED,
        (" or state == State.REVIEW_REQUIRED", ""),
    ),
)

EXERCISE = Exercise(
    number="04.5",
    title="Write the scheduler's table",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
)
