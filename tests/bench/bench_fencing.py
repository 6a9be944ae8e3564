"""What fencing prevents and what it does not, by python tests/bench/bench_fencing.py [operations].

Four worker processes at one SQLite store, with leases that are too short: one step in twenty
sleeps through its lease, one in twenty dies. The resource checks the fencing token and has no
other rule. Counted there: how many late actions it refused, and how many operations were
done twice all the same. The same once more with UNIQUE(operation_id). Nothing fails here.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lai.course.races import RECEIPT, Resource, Rule, intent
from lai.operations.records import State
from lai.operations.store import ClaimLost, Store

WORKERS, LEASE, ASLEEP = 4, 0.2, 0.4  # processes, seconds, seconds


def work(url: str, folder: str, rule: str, seed: str) -> None:
    """A worker: claim, sometimes sleep or die, act, say so; count what was refused."""
    chance = random.Random(int(seed))  # noqa: S311 (which step sleeps is no secret)
    resource = Resource(Path(folder), Rule[rule])
    refused, late = 0, 0
    with Store(url) as store:
        while store.all((State.PLANNED, State.PENDING)):
            held = store.claim(f"worker-{seed}", LEASE)
            if held is None:
                time.sleep(LEASE / 10)
                continue
            with suppress(ClaimLost):
                if held.state is State.PLANNED:
                    held = store.change(held, State.PENDING, "begin", sent_at=store.now())
                fate = chance.random()
                if fate < 0.05:
                    continue  # it dies: the claim stays until its lease is over
                if fate < 0.10:
                    time.sleep(ASLEEP)
                refused += resource.act(held.operation_id, held.fence) == "refused"
                try:
                    store.change(held, State.SUCCEEDED, "done", **RECEIPT)
                except ClaimLost:
                    late += 1
    print(json.dumps([refused, late]))


def main(operations: int) -> None:
    """Measure both rules."""
    for rule in (Rule.FENCE, Rule.UNIQUE):
        with tempfile.TemporaryDirectory(prefix="lai-bench-") as name:
            folder = Path(name)
            url, resource = f"sqlite:///{folder / 'work.sqlite'}", Resource(folder, rule)
            with Store(url) as store:
                for number in range(operations):
                    store.plan(replace(intent(f"op-{number}"), idempotency_key=f"op-{number}"))
            command = [sys.executable, __file__, "--worker", url, name, rule.name]
            started = [
                subprocess.Popen([*command, str(seed)], stdout=subprocess.PIPE)
                for seed in range(WORKERS)
            ]
            counts = [json.loads(process.communicate()[0]) for process in started]
            refused, late = (sum(column) for column in zip(*counts, strict=True))
            twice = resource.count() - operations
            print(
                f"the resource refuses {rule}: {operations} operations, {twice} done twice; ",
                end="",
            )
            print(f"{refused} actions refused there, {late} changes refused by the store")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 400)
