"""Operations in words for a terminal: a line each, or one with all that was heard about it.

Whatever a record holds was written by other programs and by services; it is shown with its
control characters made visible. It decides nothing and changes nothing.
"""

import json
import time
from collections.abc import Mapping
from types import MappingProxyType

from lai.approval import visible
from lai.operations.policy import (
    Cancel,
    Keep,
    PersistReceipt,
    PollLater,
    Query,
    RecordRejection,
    RequireReview,
    Send,
    Step,
)
from lai.operations.records import Operation, State
from lai.operations.review import question
from lai.operations.store import Store

STEPS: Mapping[type[Step], str] = MappingProxyType(
    {
        Send: "send",
        Query: "ask",
        PersistReceipt: "store the receipt",
        RecordRejection: "rejected",
        PollLater: "wait",
        RequireReview: "person",
        Cancel: "cancelled",
        Keep: "keep",
    }
)


def everything(store: Store) -> None:
    """Print a line for each operation, those that wait for a person first."""
    found, alarms, now = store.all(), store.alarms(), store.now()
    for known in sorted(found, key=lambda one: one.state is not State.REVIEW_REQUIRED):
        mark = "  ! alarm, see show" if known.operation_id in alarms else ""
        print(visible(f"{known.operation_id}  {short(known, now)}{mark}"))
    print(f"{len(found)} operation(s)")


def one(store: Store, known: Operation) -> None:
    """Print the record, the open question if there is one, and the log."""
    print(json.dumps(known.record(), ensure_ascii=False, indent=2))
    if known.state is State.REVIEW_REQUIRED:
        print(*map(visible, question(known)), sep="\n")
    for event in store.events(known.operation_id):
        when = clock(event["at"], store.now())
        print(visible(f"  {when}  {event['kind']:<15}  {event['evidence']}  ({event['by']})"))


def short(known: Operation, now: float) -> str:
    """State, attempts, and what comes next, in one line."""
    working = known.lease_until is not None and known.lease_until > now
    ahead = {
        State.UNKNOWN: f"ask again at {clock(known.next_query_at, now)}",
        State.PLANNED: f"to be sent at {clock(known.next_query_at, now)}",
        State.PENDING: f"{known.owner} is at it" if working else "its worker is gone; to be asked",
        State.REVIEW_REQUIRED: f"missing: {known.review_reason}",
        State.SUCCEEDED: f"{known.result_ref}",
    }
    return f"{known.state:<15}  attempt {known.attempt}  {ahead.get(known.state, '')}".rstrip()


def clock(moment: float | None, now: float) -> str:
    """A time of day, with the date where that is not today."""
    if moment is None:
        return "any time"
    then, today = time.localtime(moment), time.localtime(now)
    shape = "%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(shape, then)
