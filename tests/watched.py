"""The store, the files and the client of a simulated worker: the real ones, with points around.

A worker that gets these (``simulator.World.worker``) can be cut before and after each step.
What the store hands out and what it refuses is noted for the judges.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from promises_o import Stale

from lai.faults import crash
from lai.operations.records import Operation, State
from lai.operations.store import ClaimLost

if TYPE_CHECKING:
    from simulator import World

# What a worker does, in order; a life may end before and after each.
STEPS = "input plan claim pending send ask alarm receipt outcome".split()


@dataclass(slots=True)
class Cut:
    """Where lives are cut, once for each name, and what happens there."""

    left: list[str] = field(default_factory=list)
    then: Callable[[], object] = crash
    reached: list[str] = field(default_factory=list)

    def point(self, name: str) -> None:
        """A place where a life may end."""
        if name in self.left:
            self.left.remove(name)
            self.reached.append(name)
            self.then()


@dataclass(frozen=True, slots=True)
class Watched:
    """The steps of a worker, each with a point before and after it."""

    world: "World"
    cut: Cut

    def step(self, name: str, action: Callable[[], Any]) -> Any:
        """Do it, and see what is committed then."""
        self.cut.point(f"before {name}")
        value = action()
        self.world.look()
        self.cut.point(f"after {name}")
        return value


class WatchedStore(Watched):
    """The store; what it hands out and what it refuses is noted."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.bench.store, name)

    def plan(self, intent: Operation) -> Operation:
        """As the store does."""
        stored: Operation = self.step("plan", lambda: self.world.bench.store.plan(intent))
        return stored

    def claim(
        self, owner: str, lease: float, name: str | None = None, scope: str | None = None
    ) -> Operation | None:
        """As the store does."""

        def act() -> Operation | None:
            held = self.world.bench.store.claim(owner, lease, name, scope)
            if held:
                self.world.of(held.operation_id).claims.append(held.fence)
            return held

        held: Operation | None = self.step("claim", act)
        return held

    def change(self, held: Operation, to: State, evidence: str, **values: Any) -> Operation:
        """As the store does."""

        def act() -> Operation:
            before = self.world.row(held.operation_id) or {}
            try:
                return self.world.bench.store.change(held, to, evidence, **values)
            except ClaimLost:
                after = self.world.row(held.operation_id) or {}
                self.world.of(held.operation_id).stale.append(Stale(held, before, after))
                raise

        changed: Operation = self.step("pending" if to is State.PENDING else "outcome", act)
        return changed

    def note(self, about: Operation, said: Any) -> None:
        """As the store does."""
        self.step("alarm", lambda: self.world.bench.store.note(about, said))


class WatchedFiles(Watched):
    """The files of inputs and receipts."""

    def put(self, kind: str, value: Any) -> Any:
        """As the references do."""
        name = {"inputs": "input", "receipts": "receipt"}[kind]
        return self.step(name, lambda: self.world.bench.references.put(kind, value))

    def get(self, ref: str, sha256: str) -> Any:
        """As the references do."""
        return self.world.bench.references.get(ref, sha256)


class WatchedService(Watched):
    """The client; whom a request is about is known at the moment when it goes out."""

    def send(self, held: Operation, body: Any) -> Any:
        """As the client does."""
        return self.step("send", lambda: self._about(held).send(held, body))

    def ask(self, held: Operation) -> Any:
        """As the client does."""
        return self.step("ask", lambda: self._about(held).ask(held))

    def _about(self, held: Operation) -> Any:
        self.world.about = held.operation_id
        return self.world.client
