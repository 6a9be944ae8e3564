"""Callers of a remote service, and what each costs when the first answer is lost.

Three that people write, and four steps from the first of them to one that asks before it
acts. All want one report made; how many were made is counted at the service.

==============  ======================================================================
``hopeful``     tries again on any error, and every try is a new action
``forgetful``   keeps a note, and a ``finally`` takes it away
``decided``     calls the silence "cancelled"; whoever orders again is right to
``recorded``    step 1: a record first, so all tries have one identity
``scheduled``   step 2: what is open is handed to the scheduler, which asks
``narrowed``    step 3: no blind tries are left; the record says what may happen next
==============  ======================================================================

Nothing of the library uses this. It shows sources, so the steps differ by as little as
they can, and a notebook prints the difference.
"""

from collections.abc import Callable
from itertools import count

from lai.operations.changes import crossing
from lai.operations.records import Operation
from lai.operations.work import Worker
from lai.records import JSON

Post = Callable[[str, JSON], JSON]  # one POST under a key; raises for all that is no report
TOOL, TRIES = "create_report", 2
_NUMBERS = count(1)


def hopeful(post: Post, body: JSON) -> JSON | None:
    """Any exception means: again."""
    for _ in range(TRIES):
        try:
            return post(_new_key(), body)
        except Exception:  # noqa: BLE001, S112 (this is what is wrong with it)
            continue
    return None


def forgetful(post: Post, body: JSON, notes: dict[str, str]) -> JSON | None:
    """Whatever happens, clean up."""
    key = _new_key()
    notes[key] = "pending"
    try:
        return post(key, body)
    except Exception:  # noqa: BLE001 (the silence is dropped with the note)
        return None
    finally:
        del notes[key]


def decided(post: Post, body: JSON, notes: dict[str, str]) -> JSON | None:
    """No answer means: it did not happen."""
    key = _new_key()
    notes[key] = "pending"
    try:
        return post(key, body)
    except Exception:  # noqa: BLE001 (nobody said "cancelled")
        notes[key] = "cancelled"
        return None


def recorded(post: Post, body: JSON, worker: Worker, name: str) -> JSON | None:
    """Step 1. Any exception means: again, under the key of the record."""
    operation = _pending(worker, name, body)
    for _ in range(TRIES):
        try:
            return post(operation.idempotency_key, body)
        except Exception:  # noqa: BLE001, S112 (still)
            continue
    return None


def scheduled(post: Post, body: JSON, worker: Worker, name: str) -> JSON | None:
    """Step 2. What is still open then is handed to the scheduler, which asks."""
    return recorded(post, body, worker, name) or worker.receipt(worker.work_on(name))


def narrowed(body: JSON, worker: Worker, name: str) -> JSON | None:
    """Step 3. The record says what may happen: send once, then ask."""
    worker.plan(name, body, run_id="run-demo", tool_name=TOOL)
    return worker.receipt(worker.work_on(name))


def _pending(worker: Worker, name: str, body: JSON) -> Operation:
    """A record that says "may have been sent", before anything is."""
    worker.plan(name, body, run_id="run-demo", tool_name=TOOL)
    held = worker.store.claim(worker.owner, worker.lease, name)
    assert held is not None, "a new operation is free"
    change = crossing(held, worker.contract, worker.store.now())
    return worker.store.change(held, change.to, change.evidence, **change.values)


def _new_key() -> str:
    return f"request-{next(_NUMBERS)}"
