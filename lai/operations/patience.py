"""Waiting only so long, without losing the answer that comes later.

A timeout ends the waiting, not the work: the call goes on in its thread, and the service
knows nothing of our watch. What comes after all is evidence (``Worker.heard_late`` keeps it).

It does not cancel: a call that is cut off on this side is still made on the other.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lai.operations.answers import Answer, Remote
from lai.operations.records import Operation
from lai.operations.waiting import within
from lai.operations.work import Service
from lai.records import JSON


@dataclass(frozen=True, slots=True)
class Patient:
    """A service whose answer to a send is waited for ``seconds``; ``late`` gets a later one."""

    service: Service
    seconds: float
    late: Callable[[Operation, Answer], object]

    def send(self, operation: Operation, body: JSON) -> Answer:
        """The answer, or NO_ANSWER when the time is over: the service may have acted."""
        try:
            return within(
                self.seconds,
                lambda: self.service.send(operation, body),
                lambda answer: self.late(operation, answer),
            )
        except TimeoutError:
            said = f"no answer within {self.seconds:g} s; the request may have been acted on"
            return Answer(Remote.NO_ANSWER, said)

    def ask(self, operation: Operation) -> Answer:
        """Pass the question on."""
        return self.service.ask(operation)
