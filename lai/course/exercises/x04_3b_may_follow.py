"""04.3b: may this record come next? The outcome stands before the receipt, and once."""

from collections.abc import Iterator
from random import Random

from lai.actions import Publish
from lai.course.exercises.model import Case, Exercise, slips
from lai.course.exercises.records import (
    attempt,
    ledger_line,
    model_calls,
    tool_answers,
    user_asks,
    verdict,
)
from lai.history import History
from lai.ledger import IllegalTransition
from lai.records import Record
from lai.recovery import decide

QUESTION = """
Write the guard in front of the log. A record of the ledger, a person's verdict or a receipt is
about to be appended: may it follow the records that are there? An attempt belongs to one call and
goes from status to status as the course has shown: it begins `approved` or `rejected`; a yes may
still be withdrawn. A verdict is for an `unknown`, once. A receipt comes after the outcome, and
once for a call.
"""

STUB = '''
def my_may_follow(records, record):
    """Whether this record may be appended to those."""
    raise NotImplementedError
'''

HINTS = """
Read the log once and remember for each attempt its call and its latest status. Then the record to
judge is one of three: tool_execution, resolution, or a message with the role tool.

Write the transitions as a dict from the status now (None for a new attempt) to those that may
follow. unknown is no end: a look-up may still find out, or find nothing once more.

`happened` makes an attempt succeeded, `not_happened` leaves it unknown, and both are said once. A
receipt must wait while an attempt at its call is running.
"""

SOLUTION = '''
NEXT = {
    None: ["approved", "rejected"],
    "approved": ["running", "rejected"],
    "running": ["succeeded", "failed", "unknown"],
    "unknown": ["succeeded", "failed", "unknown"],
}


def my_may_follow(records, record):
    """Whether this record may be appended to those."""
    status, call_of, judged, answered = {}, {}, set(), set()
    for r in records:
        name = r.get("execution_id")
        if r["type"] == "tool_execution":
            status[name], call_of[name] = r["status"], r["tool_call_id"]
        elif r["type"] == "resolution":
            judged.add(name)
            status[name] = "succeeded" if r["outcome"] == "happened" else status[name]
        elif r["message"]["role"] == "tool":
            answered.add(r["message"]["tool_call_id"])
    name = record.get("execution_id")
    if record["type"] == "resolution":
        return status.get(name) == "unknown" and name not in judged
    if record["type"] == "tool_execution":
        if call_of.get(name, record["tool_call_id"]) != record["tool_call_id"]:
            return False
        return record["status"] in NEXT.get(status.get(name), [])
    call_id = record["message"]["tool_call_id"]
    running = [n for n in status if call_of[n] == call_id and status[n] == "running"]
    return call_id not in answered and not running
'''

BEGIN = "An attempt begins approved or rejected, and with nothing else."
AGREED = "After a yes comes running, or a no that withdraws it; an outcome needs running before it."
OUTCOME = "After running comes one of the three outcomes."
END = "succeeded, failed and rejected are final."
UNKNOWN = "unknown is not final: somebody may find out, or look once more and find nothing."
CALL = "An attempt belongs to one call for good."
VERDICT = "A verdict is for an attempt that is unknown, and is given once."
RECEIPT = "A receipt comes after the outcome: never while the attempt is running."
ONCE = "A call gets one receipt."
ANY = "Whatever the log: transitions by the table, a verdict once, a receipt after the outcome."

HEAD = [user_asks(), model_calls("call_1", "call_2")]
STATUSES = "approved rejected running succeeded failed unknown".split()
UNKNOWN_1, HAPPENED = attempt(1, "unknown"), verdict("happened")
ANSWERED = [*attempt(1, "succeeded"), tool_answers("call_1")]
# Of one attempt: its records so far, the statuses that may follow, and some that may not.
TRANSITIONS: list[tuple[str, list[Record], str, str]] = [
    (BEGIN, [], "approved rejected", "running succeeded failed unknown"),
    (AGREED, attempt(1, "approved"), "running rejected", "approved succeeded failed unknown"),
    (OUTCOME, attempt(1, "running"), "succeeded failed unknown", "approved rejected running"),
    *((END, attempt(1, s), "", " ".join(STATUSES)) for s in ("succeeded", "failed", "rejected")),
    (UNKNOWN, UNKNOWN_1, "succeeded failed unknown", "approved rejected running"),
    (VERDICT, [*UNKNOWN_1, HAPPENED], "", "running succeeded failed unknown"),
]
OTHERS: list[tuple[str, list[Record], Record, bool]] = [
    (CALL, attempt(1, "approved"), ledger_line("exec_1", "call_2", "running"), False),
    (CALL, attempt(1, "approved"), ledger_line("exec_2", "call_2", "approved"), True),
    (VERDICT, UNKNOWN_1, HAPPENED, True),
    (VERDICT, UNKNOWN_1, verdict("not_happened"), True),
    (VERDICT, attempt(1, "running"), HAPPENED, False),
    (VERDICT, [], HAPPENED, False),
    (VERDICT, [*UNKNOWN_1, verdict("not_happened")], HAPPENED, False),
    *((RECEIPT, attempt(1, s), tool_answers("call_1"), s != "running") for s in STATUSES[1:]),
    (RECEIPT, [*UNKNOWN_1, *attempt(2, "running")], tool_answers("call_1"), False),
    (RECEIPT, [*ANSWERED[:-1], *attempt(2, "running", "call_2")], tool_answers("call_1"), True),
    *((ONCE, ANSWERED, tool_answers("call_1", text), False) for text in ("{}", "又一次")),
]


def _written() -> list[Case]:
    rows = [
        (rule, log, ledger_line("exec_1", "call_1", status), may)
        for rule, log, *words in TRANSITIONS
        for may, statuses in zip((True, False), words, strict=True)
        for status in statuses.split()
    ]
    return [Case(rule, ([*HEAD, *log], record), may) for rule, log, record, may in [*rows, *OTHERS]]


def _generated(chance: Random) -> Iterator[Case]:
    for _ in range(100):
        records = list(HEAD)
        for _ in range(chance.randrange(3, 20)):
            if (record := _some_record(chance, records)) and _library(records, record):
                records.append(record)
        if record := _some_record(chance, records):
            yield Case(ANY, (records, record), _library(records, record), made=True)


def _some_record(chance: Random, records: list[Record]) -> Record | None:
    number, call_id = chance.randrange(1, 4), chance.choice(["call_1", "call_1", "call_2"])
    match chance.randrange(8):
        case 0:
            return verdict(chance.choice(["happened", "not_happened"]), number)
        case 1:
            ends = [r["status"] for r in records if r.get("tool_call_id") == "call_1"]
            return tool_answers("call_1") if ends and ends[-1] != "approved" else None
    return ledger_line(f"exec_{number}", call_id, chance.choice(STATUSES))


def _library(records: list[Record], record: Record) -> bool:
    """The ledger's own check; for a receipt, whether ``decide`` would publish one."""
    history = History.of(records)
    if record["type"] == "message":
        history.declined |= set(history.ledger.executions)
        action = decide(history, [])
        return isinstance(action, Publish) and action.call.id == record["message"]["tool_call_id"]
    try:
        history.ledger.check(record)
    except IllegalTransition:
        return False
    return True


WRONG = slips(
    SOLUTION,
    ("lets a receipt go before the outcome", RECEIPT, (" and not running", "")),
    (
        "takes unknown for an end",
        UNKNOWN,
        ('    "unknown": ["succeeded", "failed", "unknown"],\n', ""),
    ),
    (
        "lets an attempt run without an approval",
        BEGIN,
        ('None: ["approved", "rejected"]', 'None: ["approved", "rejected", "running"]'),
    ),
    (
        "lets a second outcome replace the first",
        END,
        (
            '    "unknown": ["succ',
            '    "succeeded": ["failed"],\n    "failed": ["succeeded"],\n    "unknown": ["succ',
        ),
    ),
    ("takes a verdict twice", VERDICT, (" and name not in judged", "")),
    ("lets an attempt change its call", CALL, ('!= record["tool_call_id"]:', "== ...:")),
    ("gives a second receipt", ONCE, ("call_id not in answered and not", "not")),
)

EXERCISE = Exercise(
    number="04.3b",
    title="Guard the log",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
