"""The logs of the scenes in which somebody went on after the first crash.

A process that settled, retried or asked, and died in its turn; a person who gave a verdict; a
summary that came between. Each function returns the records of one session, the same ones
every time, and most of them begin with the records of another.
"""

import json
from dataclasses import replace

from lai.course.logs import (
    DIED,
    JOB,
    RECOVERED,
    SENT,
    Order,
    encoded,
    interrupted_command,
    interrupted_job,
    interrupted_write,
    opening,
    spoken,
)
from lai.course.place import MORNING
from lai.receipts import DO_NOT_REPEAT
from lai.records import Outcome, Record, Status, resolution_record
from lai.wire import UNKNOWN_HEADER

RETRIED = replace(RECOVERED, attempt="exec_retry_demo")
LAST_TRY = replace(RECOVERED, attempt="exec_last_try_demo")
RENT = Order("call_rent_demo", "pay", {"text": "the rent, once"}, "exec_rent_demo")


def unknown_write() -> list[Record]:
    """The interrupted write, settled by a process that died right after."""
    return [*interrupted_write(), RECOVERED.settled()]


def unknown_command() -> list[Record]:
    """The interrupted command, settled by a process that died right after."""
    return [*interrupted_command(), SENT.settled()]


def unknown_payment() -> list[Record]:
    """A payment of unknown outcome; whoever takes it goes by the key."""
    running = RENT.ledger(Status.RUNNING, key_issued_at=MORNING)
    return [*opening(RENT, "pay the rent", Status.APPROVED), running, RENT.settled()]


def unknown_job() -> list[Record]:
    """The interrupted job, settled; nobody has asked the list of jobs yet."""
    return [*interrupted_job(), JOB.settled()]


def absent_job() -> list[Record]:
    """The list of jobs was asked, and it has no such job."""
    told = {"lookup": "absent", "evidence": "no job in the list has this key"}
    return [*unknown_job(), JOB.ledger(Status.UNKNOWN, DIED, **told)]


def retry_left_over() -> list[Record]:
    """A second attempt on the first one's approval, not begun."""
    return [*unknown_write(), RETRIED.ledger(Status.APPROVED, approval_of=RECOVERED.attempt)]


def attempts_spent() -> list[Record]:
    """Three processes tried, and all three died."""
    return [
        *retry_left_over(),
        RETRIED.ledger(Status.RUNNING),
        RETRIED.settled(),
        LAST_TRY.ledger(Status.APPROVED, approval_of=RETRIED.attempt),
        LAST_TRY.ledger(Status.RUNNING),
        LAST_TRY.settled(),
    ]


def said_not_happened() -> list[Record]:
    """A person looked and said that it did not happen."""
    evidence = "audit.log is not there"
    verdict = resolution_record(SENT.attempt, Outcome.NOT_HAPPENED, evidence, "person")
    return [*unknown_command(), verdict]


def unknown_published() -> list[Record]:
    """A turn that ended honestly: the outcome is unknown, and everybody was told."""
    return [
        *interrupted_command(),
        SENT.settled(),
        SENT.receipt(Status.UNKNOWN, {**DIED, "advice": DO_NOT_REPEAT}),
        spoken("assistant", "Nobody can confirm that the line was added. Please check audit.log."),
    ]


def compacted_unknown() -> list[Record]:
    """That ending, and a small turn after it; then a summary, and a new question."""
    before = [
        *unknown_published(),
        spoken("user", "what can you do?"),
        spoken("assistant", "I can read files, write files and run commands."),
    ]
    offsets = [sum(map(len, encoded(before[:n]))) for n in range(len(before))]
    summary: Record = {
        "type": "compaction",
        "summary": "The user wanted a line in audit.log; whether it was added is unknown.",
        "first_kept": 8,
        "first_kept_offset": offsets[7],
        "pinned": [_pinned(SENT)],
        "tokens_before": 240,
        "tokens_after": 170,
        "resume_line": 2,
        "resume_offset": offsets[1],
    }
    return [*before, summary, spoken("user", "so is the line in the log?")]


def _pinned(order: Order) -> str:
    """An attempt of unknown outcome, as it outlives its messages."""
    return (
        f"{UNKNOWN_HEADER} {order.name}, call {order.id}, attempt {order.attempt}: it may have "
        "happened. Do not repeat it before checking.\n"
        f"arguments: {order.request()['function']['arguments']}\n"
        f"result: {json.dumps(order.settled()['result'])}"
    )
