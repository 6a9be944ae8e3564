"""04.3c: from the ledger's records of a call to the row of the policy table it stands in."""

from collections.abc import Iterator
from random import Random

from lai.course.exercises.model import Case, Exercise, slips
from lai.course.exercises.records import attempt, ledger_line, model_calls, user_asks, verdict
from lai.history import History
from lai.records import Record
from lai.recovery import Standing, standing
from lai.tools import Arguments, Tool

QUESTION = """
A new process reads what the ledger says about one call, verdicts included. Where does the call
stand? Your answer is a row of the policy table; together with the promise of its tool it is the
recovery: `POLICY[my_standing(records)][promise]`. At most three attempts are made, one more for
each verdict `not_happened`; an attempt is one that reached `running`. Nothing is tried again
after `cause: interrupt`, `target: moved` or `key: expired`. A look-up leaves `lookup: absent` or
`inconclusive`.
"""

STUB = '''
from lai.recovery import Standing


def my_standing(records):
    """Where a call stands by its ledger records, read by a process that wrote none of them."""
    raise NotImplementedError
'''

HINTS = """
Collect the attempts first: a dict from execution_id to its records merged into one, in the order
in which the attempts began. Remember which of them reached running.

An outcome anywhere concludes the call. Otherwise the last attempt decides, with one exception: a
refused retry says nothing about the unknown attempt before it.

For a last attempt that is unknown, in this order: a verdict; stopped, or no attempts left; then
what the look-up said.
"""

SOLUTION = '''
from lai.recovery import Standing


def my_standing(records):
    """Where a call stands by its ledger records, read by a process that wrote none of them."""
    attempts, started, told = {}, set(), {}
    for record in records:
        name = record["execution_id"]
        if record["type"] == "resolution":
            told[name] = record["outcome"]
            continue
        attempts[name] = attempts.get(name, {}) | record
        if record["status"] == "running":
            started.add(name)
    if not attempts:
        return Standing.NEW
    ends = {name: found["status"] for name, found in attempts.items()}
    if "happened" in told.values() or {"succeeded", "failed"} & set(ends.values()):
        return Standing.CONCLUDED
    name, last = list(attempts.items())[-1]
    if last["status"] == "running":
        return Standing.RUNNING
    if last["status"] == "approved":
        return Standing.LEFT_RETRY if "approval_of" in last else Standing.LEFT_APPROVED
    if last["status"] == "rejected":
        doubtful = [n for n, end in ends.items() if end == "unknown" and n not in told]
        return Standing.UNDECIDED if doubtful else Standing.REJECTED
    if name in told:
        return Standing.NOT_HAPPENED
    stops = {("cause", "interrupt"), ("target", "moved"), ("key", "expired")}
    if stops & set(last.items()) or len(started) >= 3 + len(told):
        return Standing.UNDECIDED
    return {None: Standing.UNKNOWN, "absent": Standing.ABSENT}.get(
        last.get("lookup"), Standing.UNDECIDED
    )
'''

NEW = "A call without an attempt is new."
LEFT = "An approval that was never used says that nothing has happened; a retry's names its origin."
RUNNING = "running in the log means interrupted."
ENDED = "succeeded and failed conclude the call, a verdict `happened` too, rejected ends it."
OPEN = "unknown is no failure: while attempts are left, something can be tried."
COUNT = "Three attempts reached running: nothing is left to try. What never ran does not count."
GRANTED = "A verdict `not_happened` allows asking again, and one attempt more."
STOP = "After a stop by a person, a moved target or an expired key nothing is tried unasked."
LOOKUP = "A look-up is made once: absent is an answer, inconclusive leaves nothing to try."
DOUBT = "A refused retry says nothing about the attempt before it, which is still unknown."
MERGED = "What is known of an attempt is all of its records, not only the last one."


# Records that several cases share: three attempts in doubt, and what may follow one.
ONE, TWO, THREE = (attempt(n, "unknown", retry=n > 1) for n in (1, 2, 3))
UNUSED = attempt(2, "approved", retry=True)
DENIED, DENIED_THREE = verdict("not_happened"), verdict("not_happened", 3)
MOVED = ledger_line("exec_1", "call_1", "unknown", target="moved")
AGAIN = ledger_line("exec_1", "call_1", "unknown")
ROWS: list[tuple[str, list[Record], Standing]] = [
    (NEW, [], Standing.NEW),
    (LEFT, attempt(1, "approved"), Standing.LEFT_APPROVED),
    (RUNNING, attempt(1, "running"), Standing.RUNNING),
    (ENDED, attempt(1, "succeeded"), Standing.CONCLUDED),
    (ENDED, attempt(1, "failed"), Standing.CONCLUDED),
    (ENDED, attempt(1, "rejected"), Standing.REJECTED),
    (OPEN, ONE, Standing.UNKNOWN),
    (ENDED, [*ONE, verdict("happened")], Standing.CONCLUDED),
    (OPEN, [*ONE, *TWO], Standing.UNKNOWN),
    (LEFT, [*ONE, *UNUSED], Standing.LEFT_RETRY),
    (RUNNING, [*ONE, *attempt(2, "running", retry=True)], Standing.RUNNING),
    (COUNT, [*ONE, *TWO, *THREE], Standing.UNDECIDED),
    (COUNT, [*ONE, *UNUSED, *THREE], Standing.UNKNOWN),
    (GRANTED, [*ONE, DENIED], Standing.NOT_HAPPENED),
    (GRANTED, [*ONE, *TWO, *THREE, DENIED_THREE], Standing.NOT_HAPPENED),
    (GRANTED, [*ONE, *TWO, *THREE, DENIED_THREE, *attempt(4, "unknown")], Standing.UNDECIDED),
    (GRANTED, [*ONE, DENIED, *TWO, *THREE], Standing.UNKNOWN),
    (GRANTED, [*ONE, DENIED, *attempt(2, "approved")], Standing.LEFT_APPROVED),
    (STOP, attempt(1, "unknown", cause="interrupt"), Standing.UNDECIDED),
    (STOP, attempt(1, "unknown", cause="crash"), Standing.UNKNOWN),
    (STOP, attempt(1, "unknown", key="expired"), Standing.UNDECIDED),
    (STOP, [*ONE, MOVED], Standing.UNDECIDED),
    (LOOKUP, attempt(1, "unknown", lookup="absent"), Standing.ABSENT),
    (LOOKUP, attempt(1, "unknown", lookup="inconclusive"), Standing.UNDECIDED),
    (DOUBT, [*ONE, *attempt(2, "rejected")], Standing.UNDECIDED),
    (DOUBT, [*ONE, DENIED, *attempt(2, "rejected")], Standing.REJECTED),
    (MERGED, [*ONE, MOVED, AGAIN], Standing.UNDECIDED),
]


def _written() -> list[Case]:
    return [Case(rule, (records,), row) for rule, records, row in ROWS]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever was tried: the outcome, else the last attempt, the count and the verdicts."
    details = [{}, {"cause": "crash"}, {"cause": "interrupt"}, {"lookup": "absent"}]
    details += [{"lookup": "inconclusive"}, {"key": "expired"}]
    for _ in range(80):
        records: list[Record] = []
        for number in range(1, chance.randrange(2, 6)):
            asked = number == 1
            if records and chance.randrange(4) == 0:
                records.append(verdict("not_happened", number - 1))
                asked = True
            records += attempt(number, "unknown", retry=not asked)
        last = len({r["execution_id"] for r in records}) + 1
        end = chance.choice(["approved", "rejected", "running", "succeeded", "failed", "unknown"])
        if chance.randrange(3):
            more = chance.choice(details) if end == "unknown" else {}
            records += attempt(last, end, retry="verdict" not in str(records[-1:]), **more)
        yield Case(rule, (records,), _library(records), made=True)


def _library(records: list[Record]) -> Standing:
    history = History.of([user_asks(), model_calls("call_1"), *records])
    call = history.ledger.calls["call_1"]
    tool = Tool(name="send", description="", arguments=Arguments, run=lambda *_: {}, max_attempts=3)
    return standing(call, tool, history)[0]


WRONG = slips(
    SOLUTION,
    (
        "takes unknown for an outcome like failed",
        OPEN,
        ('{"succeeded", "failed"} &', '{"succeeded", "failed", "unknown"} &'),
    ),
    ("tries for ever", COUNT, (" or len(started) >= 3 + len(told)", "")),
    ("counts approvals that were never used", COUNT, ("len(started)", "len(attempts)")),
    (
        "lets a refused retry end the doubt",
        DOUBT,
        ("Standing.UNDECIDED if doubtful else Standing.REJECTED", "Standing.REJECTED"),
    ),
    ("repeats what a person stopped", STOP, ('("cause", "interrupt"), ', "")),
    (
        "takes an inconclusive look-up for none",
        LOOKUP,
        ('last.get("lookup"), Standing.UNDECIDED', 'last.get("lookup"), Standing.UNKNOWN'),
    ),
    ("looks at the last record only", MERGED, ("attempts.get(name, {}) | record", "record")),
    ("does not listen to a verdict", GRANTED, ("if name in told:", "if False:")),
)

EXERCISE = Exercise(
    number="04.3c",
    title="Say where a call stands",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
