"""04.3a: the policy table. Where a call stands and what its tool promises decide the move."""

from lai.course.exercises.model import Case, Exercise, slips
from lai.recovery import POLICY, Move, Standing
from lai.tools import Effect

QUESTION = """
A restarted process finds an open call. What may it do? That follows from where the call *stands*
(a `Standing`) and from what its tool *promises* (an `Effect`), never from one of them alone.
Write the whole table as a function, without looking at `POLICY`. Both arguments and the `Move`
that you return compare equal with their words, such as "ask".
"""

STUB = '''
from lai import Effect
from lai.recovery import Move, Standing


def my_move(standing, promise):
    """What happens next to a call that stands there, of a tool with that promise."""
    raise NotImplementedError
'''

HINTS = """
Four rows are the same for every promise: approved by this process, running, rejected, and
succeeded or failed. In all others a tool that only reads is simply attempted.

Whatever was never started, or did not happen, may be asked about. Whatever may have happened is
repeated only on a promise: idempotent or keyed. A queryable tool is asked what happened.

The fine print: a retry that was approved needs no new approval where `unknown` would have been
attempted anyway; an authority's `absent` lets a queryable tool go on; where a line was lost, only
an idempotent tool may be asked about: what cannot be repeated becomes unknown.
"""

SOLUTION = '''
from lai import Effect
from lai.recovery import Move, Standing


def my_move(standing, promise):
    """What happens next to a call that stands there, of a tool with that promise."""
    again = promise in (Effect.IDEMPOTENT, Effect.KEYED)
    match standing:
        case Standing.REJECTED | Standing.CONCLUDED:
            return Move.PUBLISH
        case Standing.RUNNING:
            return Move.SETTLE
        case Standing.APPROVED:
            return Move.ATTEMPT
        case _ if promise == Effect.READ_ONLY:
            return Move.ATTEMPT
        case Standing.UNKNOWN if promise == Effect.QUERYABLE:
            return Move.LOOK_UP
        case Standing.UNKNOWN:
            return Move.ATTEMPT if again else Move.VERDICT
        case Standing.UNDECIDED:
            return Move.VERDICT
        case Standing.LEFT_RETRY if again:
            return Move.ATTEMPT
        case Standing.ABSENT if promise == Effect.QUERYABLE:
            return Move.ATTEMPT
        case Standing.LEFT_IN_DOUBT if promise != Effect.IDEMPOTENT:
            return Move.SETTLE
    return Move.ASK
'''

RULES = {
    Standing.NEW: "A call without an attempt is asked about, unless its tool only reads.",
    Standing.APPROVED: "What this process was given a yes for is attempted.",
    Standing.LEFT_APPROVED: "An approval of an earlier process is not used by this one: it asks.",
    Standing.LEFT_RETRY: "A retry that was approved goes on where a repetition is harmless.",
    Standing.LEFT_IN_DOUBT: "A lost line may have started it: only what can be repeated is asked.",
    Standing.RUNNING: "`running` in the log means interrupted: the attempt becomes unknown first.",
    Standing.UNKNOWN: "After unknown the promise decides: try again, look it up, or ask a person.",
    Standing.UNDECIDED: "With nothing left to try, a person gives a verdict.",
    Standing.ABSENT: "`absent` from the authority that was asked lets a queryable tool go on.",
    Standing.NOT_HAPPENED: "A person's word that it did not happen allows asking, not running.",
    Standing.REJECTED: "A no is published, and nothing is asked again.",
    Standing.CONCLUDED: "An outcome on record is published; nothing runs again.",
}
# The table once more, written out: a word for each promise, in the order of `Effect`.
TABLE = {
    Standing.NEW: "attempt ask ask ask ask",
    Standing.APPROVED: "attempt attempt attempt attempt attempt",
    Standing.LEFT_APPROVED: "attempt ask ask ask ask",
    Standing.LEFT_RETRY: "attempt attempt attempt ask ask",
    Standing.LEFT_IN_DOUBT: "attempt ask settle settle settle",
    Standing.RUNNING: "settle settle settle settle settle",
    Standing.UNKNOWN: "attempt attempt attempt look_up verdict",
    Standing.UNDECIDED: "attempt verdict verdict verdict verdict",
    Standing.ABSENT: "attempt ask ask attempt ask",
    Standing.NOT_HAPPENED: "attempt ask ask ask ask",
    Standing.REJECTED: "publish publish publish publish publish",
    Standing.CONCLUDED: "publish publish publish publish publish",
}


def _written() -> list[Case]:
    """All sixty cells: there is nothing left to generate."""
    return [
        Case(RULES[standing], (standing, promise), Move[word.upper()])
        for standing, row in TABLE.items()
        for promise, word in zip(Effect, row.split(), strict=True)
    ]


def _library(standing: Standing, promise: Effect) -> Move:
    return POLICY[standing][promise]


WRONG = slips(
    SOLUTION,
    (
        "retries blindly",
        RULES[Standing.UNKNOWN],
        ("return Move.ATTEMPT if again else Move.VERDICT", "return Move.ATTEMPT"),
    ),
    (
        "runs what was running once more",
        RULES[Standing.RUNNING],
        (
            "return Move.SETTLE\n        case Standing.APPROVED",
            "return Move.ATTEMPT\n        case Standing.APPROVED",
        ),
    ),
    (
        "calls an unknown outcome a failure",
        RULES[Standing.UNKNOWN],
        ("Standing.REJECTED |", "Standing.REJECTED | Standing.UNKNOWN |"),
    ),
    (
        "uses a yes that another process was given",
        RULES[Standing.LEFT_APPROVED],
        ("case Standing.APPROVED:", "case Standing.APPROVED | Standing.LEFT_APPROVED:"),
    ),
    (
        "asks again after a no",
        RULES[Standing.REJECTED],
        ("Standing.REJECTED | Standing.CONCLUDED", "Standing.CONCLUDED"),
    ),
    (
        "decides by where the call stands alone",
        RULES[Standing.LEFT_RETRY],
        ("again = promise in (Effect.IDEMPOTENT, Effect.KEYED)", "again = True"),
    ),
)

EXERCISE = Exercise(
    number="04.3a",
    title="Write the policy table",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
)
