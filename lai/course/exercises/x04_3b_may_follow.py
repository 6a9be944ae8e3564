"""04.3b: may this record come next? The outcome stands before the receipt, and once."""

from collections.abc import Iterator
from random import Random

from lai.actions import Publish
from lai.course.exercises.model import Case, Exercise, Wrong, edited
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

HEAD = [user_asks(), model_calls("call_1", "call_2")]
STATUSES = "approved rejected running succeeded failed unknown".split()


def _written() -> list[Case]:
    receipt, none = tool_answers("call_1"), list[Record]()
    unknown, retried = attempt(1, "unknown"), [*attempt(1, "unknown"), *attempt(2, "running")]
    rows: list[tuple[str, list[Record], str, str]] = [
        (BEGIN, none, "approved rejected", "running succeeded failed unknown"),
        (AGREED, attempt(1, "approved"), "running rejected", "approved succeeded failed unknown"),
        (OUTCOME, attempt(1, "running"), "succeeded failed unknown", "approved rejected running"),
        (END, attempt(1, "succeeded"), "", " ".join(STATUSES)),
        (END, attempt(1, "failed"), "", " ".join(STATUSES)),
        (END, attempt(1, "rejected"), "", " ".join(STATUSES)),
        (UNKNOWN, unknown, "succeeded failed unknown", "approved rejected running"),
        (VERDICT, [*unknown, verdict("happened")], "", "running succeeded failed unknown"),
    ]
    cases = [
        Case(rule, ([*HEAD, *log], ledger_line("exec_1", "call_1", status)), may)
        for rule, log, *words in rows
        for may, statuses in zip((True, False), words, strict=True)
        for status in statuses.split()
    ]
    more: list[tuple[str, list[Record], Record, bool]] = [
        (CALL, attempt(1, "approved"), ledger_line("exec_1", "call_2", "running"), False),
        (CALL, attempt(1, "approved"), ledger_line("exec_2", "call_2", "approved"), True),
        (VERDICT, unknown, verdict("happened"), True),
        (VERDICT, unknown, verdict("not_happened"), True),
        (VERDICT, attempt(1, "running"), verdict("happened"), False),
        (VERDICT, none, verdict("happened"), False),
        (VERDICT, [*unknown, verdict("not_happened")], verdict("happened"), False),
        *((RECEIPT, attempt(1, end), receipt, end != "running") for end in STATUSES[1:]),
        (RECEIPT, retried, receipt, False),
        (RECEIPT, [*attempt(1, "succeeded"), *attempt(2, "running", "call_2")], receipt, True),
        (ONCE, [*attempt(1, "succeeded"), receipt], receipt, False),
        (ONCE, [*attempt(1, "succeeded"), receipt], tool_answers("call_1", "又一次"), False),
    ]
    return cases + [Case(rule, ([*HEAD, *log], record), may) for rule, log, record, may in more]


def _generated(chance: Random) -> Iterator[Case]:
    rule = (
        "Whatever the log: transitions by the table, a verdict once, a receipt after the outcome."
    )
    for _ in range(100):
        records = list(HEAD)
        for _ in range(chance.randrange(3, 20)):
            record = _some_record(chance, records)
            if record and _library(records, record):
                records.append(record)
        record = _some_record(chance, records)
        if record:
            yield Case(rule, (records, record), _library(records, record), made=True)


def _some_record(chance: Random, records: list[Record]) -> Record | None:
    number, call_id = chance.randrange(1, 4), chance.choice(["call_1", "call_1", "call_2"])
    match chance.randrange(8):
        case 0:
            return verdict(chance.choice(["happened", "not_happened"]), number)
        case 1:
            ends = [r["status"] for r in records if r.get("tool_call_id") == "call_1"]
            settled = ends and ends[-1] != "approved"
            return tool_answers("call_1") if settled else None
    return ledger_line(f"exec_{number}", call_id, chance.choice(STATUSES))


def _library(records: list[Record], record: Record) -> bool:
    """The ledger's own check; for a receipt, whether ``decide`` would publish one."""
    history = History.of(records)
    if record["type"] == "message":
        history.declined |= set(history.ledger.executions)
        action = decide(history, [])
        wanted = record["message"]["tool_call_id"]
        return isinstance(action, Publish) and action.call.id == wanted
    try:
        history.ledger.check(record)
    except IllegalTransition:
        return False
    return True


WRONG = (
    Wrong(
        "lets a receipt go before the outcome",
        RECEIPT,
        edited(SOLUTION, ("call_id not in answered and not running", "call_id not in answered")),
    ),
    Wrong(
        "takes unknown for an end",
        UNKNOWN,
        edited(SOLUTION, ('    "unknown": ["succeeded", "failed", "unknown"],\n', "")),
    ),
    Wrong(
        "lets an attempt run without an approval",
        BEGIN,
        edited(
            SOLUTION,
            ('None: ["approved", "rejected"]', 'None: ["approved", "rejected", "running"]'),
        ),
    ),
    Wrong(
        "lets a second outcome replace the first",
        END,
        edited(
            SOLUTION,
            (
                '    "unknown": ["succ',
                '    "succeeded": ["failed"],\n    "failed": ["succeeded"],\n    "unknown": ["succ',
            ),
        ),
    ),
    Wrong("takes a verdict twice", VERDICT, edited(SOLUTION, (" and name not in judged", ""))),
    Wrong(
        "lets an attempt change its call",
        CALL,
        edited(SOLUTION, ('!= record["tool_call_id"]:', "== ...:")),
    ),
    Wrong(
        "gives a second receipt", ONCE, edited(SOLUTION, ("call_id not in answered and not", "not"))
    ),
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
