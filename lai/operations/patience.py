"""Waiting only so long, without losing the answer that comes later.

A timeout ends the waiting, not the work: the call goes on in its thread, and the service
knows nothing of our watch. What comes after all is evidence, and is written down as such.

It does not cancel: a call that is cut off on this side is still made on the other.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from lai.operations.answers import Answer, Remote
from lai.operations.policy import Keep, schedule
from lai.operations.records import Operation
from lai.operations.store import Said, Store
from lai.operations.work import Service
from lai.records import JSON

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], late: Callable[[T], object]) -> T:
    """What ``call`` returns, if in time; else TimeoutError now, and ``late(value)`` later.

    Exactly one of the two happens for every value. An error of a late call is dropped.
    """
    value: Future[T] = Future()
    lock, given_up = threading.Lock(), False

    def run() -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001 (whoever waits raises it)
            value.set_exception(error)
            return
        with lock:
            if not given_up:
                value.set_result(found)
                return
        late(found)

    threading.Thread(target=run, daemon=True).start()
    try:
        return value.result(seconds)
    except TimeoutError:
        with lock:
            given_up = True
        if value.done():  # it came between the two lines above
            return value.result()
        raise


@dataclass(frozen=True, slots=True)
class Patient:
    """A service whose answer to a send is waited for ``seconds``; a later one is noted."""

    service: Service
    store: Store
    seconds: float

    def send(self, operation: Operation, body: JSON) -> Answer:
        """The answer, or NO_ANSWER when the time is over: the service may have acted."""
        try:
            return within(
                self.seconds,
                lambda: self.service.send(operation, body),
                lambda answer: self._came_late(operation, answer),
            )
        except TimeoutError:
            said = f"no answer within {self.seconds:g} s; the request may have been acted on"
            return Answer(Remote.NO_ANSWER, said)

    def ask(self, operation: Operation) -> Answer:
        """Pass the question on."""
        return self.service.ask(operation)

    def _came_late(self, operation: Operation, answer: Answer) -> None:
        now = self.store.get(operation.operation_id)
        by = operation.owner or ""
        self.store.note(now, Said("late", f"after the time was over: {answer.evidence}", by))
        step = schedule(now, answer, self.store.now())
        if isinstance(step, Keep) and step.alarm:
            self.store.note(now, Said("alarm", step.alarm, by))
