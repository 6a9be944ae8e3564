"""The long proofs, by python run.py proof [NAME ...]: what is too long for every push.

Each proof is a command that ends with 0 or found something. Together they take a while, so
each says what it is at, and what came of all of them is written to ``.proof/proof.json``:
a list of name, command, seconds, exit code and the last line that it printed.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".proof"
LONG = {"LAI_PROOF": "1", "PYTHONUNBUFFERED": "1"}  # the tests that have more in them do it all
PROOFS: dict[str, list[str]] = {
    # Faults × crash at each step × crash in recovery × kinds of services, in memory.
    "operations": ["-m", "pytest", "-q", "tests/test_simulator.py"],
    # Two workers, a person, the clock and the service, in any order.
    "machine": ["-m", "pytest", "-q", "tests/test_operation_machine.py"],
    # Real processes on one database, killed, stopped and too late; the server killed too.
    "races": ["-m", "pytest", "-q", "tests/test_races.py", "tests/test_database_crash.py"],
    # Every pair of crashes, in memory: the second one in the recovery from the first.
    "pairs": ["-m", "pytest", "-q", "-s", "tests/test_crash.py"],
    # Power lost at every call, with every part of what was not saved; twice in a row.
    "power": ["-m", "pytest", "-q", "-s", "tests/test_power_loss.py"],
    # Real processes on a disk that kills, refuses, cuts or fills up, at every call and byte.
    "disk": ["-m", "pytest", "-q", "-s", "tests/test_real_disk.py", "tests/test_full_disk.py"],
    # Every bit of a session flipped; threads that swap folders for thirty seconds each.
    "damage": ["-m", "pytest", "-q", "tests/test_checksums.py", "tests/test_path_race.py"],
    # Sessions of 10,000, 100,000 and 1,000,000 records: seconds and bytes.
    "scale": ["tests/bench/bench_scale.py"],
    "batches": ["-m", "pytest", "-q", "tests/test_scale.py"],
    # Each way out of each sandbox alone.
    "walls": ["-m", "pytest", "-q", "tests/test_sandbox.py", "tests/test_sandbox_choice.py"],
    # The library with one fault after the other: the tests must notice each.
    "mutants": ["tests/mutate.py"],
    # Every branch of the core is taken.
    "coverage": ["tests/coverage_of_core.py"],
    # The real agent, killed at every point of a turn, with a tool for each promise.
    "crashes": ["-m", "lai.course.crashes", "--json", str(RESULTS / "crashes.json")],
    # The same, and its recovery killed at every point as well.
    "twice": ["-m", "lai.course.crashes", "--twice", "write_file", "--twice", "submit"],
}


def prove(name: str) -> dict[str, object]:
    """Run one proof; its output goes on as it comes."""
    print(f"— {name}", flush=True)
    begin, last = time.monotonic(), ""
    command = [sys.executable, *PROOFS[name]]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | LONG, **streams) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return {
        "name": name,
        "command": PROOFS[name],
        "seconds": round(time.monotonic() - begin, 1),
        "code": process.returncode,
        "said": last,
    }


def main(names: list[str]) -> int:
    """Run the named proofs, or all; 1 if any of them found something."""
    if unknown := [name for name in names if name not in PROOFS]:
        print(f"no proof {unknown[0]!r}; there are: {', '.join(PROOFS)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(exist_ok=True)
    found = []
    for name in names or PROOFS:
        found.append(prove(name))
        text = json.dumps(found, ensure_ascii=False, indent=1)
        (RESULTS / "proof.json").write_text(text + "\n", encoding="utf-8")
    for one in found:
        print(f"{'proved' if one['code'] == 0 else 'BROKEN':8} {one['name']:11} {one['said']}")
    return int(any(one["code"] for one in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
