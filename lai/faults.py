"""Crash here: the points at which tests and notebooks end a run.

The loop itself has no hooks. A run is made of appends, model calls, effects and
look-ups; this module wraps each of them, counts the places before, during and after, and
ends the run at one of them:

* ``crash`` raises :class:`Crash`, which no ``except Exception`` can swallow: the fake, fast;
* ``kill`` is SIGKILL for the process that reaches the point: the real thing.

Run once with ``Fault()`` to learn the points of a scenario, then once for each of them.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Self

from lai.records import JSON, Message
from lai.session import Session
from lai.tools import Tool


class Crash(BaseException):
    """The run ends here, as if the process had died."""


def crash() -> NoReturn:
    """End the run by an exception that nothing in the library handles."""
    raise Crash


def kill() -> NoReturn:
    """End this process as a power switch would: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable: SIGKILL cannot be handled")


@dataclass(slots=True)
class Fault:
    """Counts the points of a run and ends it at number ``at`` (from 0); None only counts."""

    at: int | None = None
    die: Callable[[], NoReturn] = crash
    points: list[str] = field(default_factory=list)

    def point(self, name: str, first: Callable[[], object] = lambda: None) -> None:
        """A place where a run may end; ``first`` is what still happens if it ends here."""
        self.points.append(name)
        if len(self.points) - 1 == self.at:
            first()
            self.die()

    def around(self, name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        """``action`` with a point before it and one after it."""

        def wrapped(*args: Any) -> Any:
            self.point(f"before {name}")
            value = action(*args)
            self.point(f"after {name}")
            return value

        return wrapped

    def model(self, model: Callable[..., Any]) -> Callable[[list[Message], list[JSON]], Any]:
        """A model whose calls are points."""
        return self.around("model call", model)

    def tools(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """Tools whose effects and look-ups are points."""
        return tuple(
            replace(
                tool,
                run=self.around(f"effect of {tool.name}", tool.run),
                lookup=tool.lookup and self.around(f"look-up of {tool.name}", tool.lookup),
            )
            for tool in tools
        )


class FaultySession(Session):
    """A session whose appends are points, also half-way: half of the bytes are on disk."""

    fault: Fault

    @classmethod
    def under(cls, path: Path | str, fault: Fault) -> Self:
        """Open ``path`` under a fault; mending a torn tail is an append like any other."""
        session = cls(Path(path))
        session.fault = fault
        session.start()
        return session

    def _write(self, mend: bytes, line: bytes) -> int:
        name = "append" if line else "newline"
        self.fault.point(f"before {name}")
        self.fault.point(f"during {name}", lambda: self._write_half(mend + line))
        number = super()._write(mend, line)
        self.fault.point(f"after {name}")
        return number

    def _write_half(self, data: bytes) -> None:
        assert self._fd is not None
        os.write(self._fd, data[: len(data) // 2])
