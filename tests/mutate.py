"""Are the tests any good? The library with one fault after the other, by python tests/mutate.py.

With names, only the faults whose name holds one of them. Each fault of ``mutants`` is put into a
copy of the project and its few tests are run there; one of them has to fail. Beforehand they
have to pass without it. It ends with 1 and the names if one is not noticed, and what came of
each is in ``.proof/mutants.json``: name, file, promise, verdict, the test that failed, seconds.
"""

import compileall
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode
from queue import SimpleQueue

from mutant import ROOT, Mutant
from mutants import MUTANTS

WORKERS = 2
NEEDED = ("lai", "tests", "data", "notebooks", "pyproject.toml", "README.md")
SECONDS = 120.0  # for the tests of one fault; what hangs is noticed too
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
QUIET = ["-x", "-q", "-p", "no:cacheprovider", "--tb=no"]
JSON = dict[str, object]


def copied(folder: Path) -> Path:
    """The project in a folder of its own. Its bytecode is checked by content, not by time."""
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            hidden = shutil.ignore_patterns("__pycache__", ".agent_state", ".ipynb_checkpoints")
            shutil.copytree(source, folder / name, ignore=hidden)
        elif source.exists():
            shutil.copy(source, folder / name)
    by_content = PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "lai", quiet=1, invalidation_mode=by_content)
    return folder


def run(folder: Path, tests: list[str], seconds: float) -> tuple[int | None, str]:
    """What pytest ends with in a copy, None if it does not end; and what it says."""
    # CI: hypothesis tries the same each time, and has no time limit. LAI_PROOF: only samples.
    alone = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1", "LAI_PROOF": ""}
    command = [sys.executable, "-m", "pytest", *QUIET, *tests]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(  # type: ignore[call-overload]
        command, cwd=folder, env=os.environ | alone, start_new_session=True, **streams
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
    return process.returncode, said


@contextmanager
def seeded(folder: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with the fault in it, and afterwards without."""
    path = folder / "lai" / mutant.file
    whole = path.read_bytes()
    path.write_text(mutant.mutated(folder), encoding="utf-8")
    try:
        yield
    finally:
        path.write_bytes(whole)


def judged(folder: Path, mutant: Mutant) -> JSON:
    """One fault: its verdict, and what failed because of it."""
    begin = time.monotonic()
    with seeded(folder, mutant):
        code, said = run(folder, list(mutant.arguments), SECONDS)
    verdict, by = "BROKEN", said.strip().rpartition("\n")[2]  # e.g. it cannot even be imported
    match code, FAILED.search(said):
        case None, _:
            verdict, by = "killed", "not ending"
        case 0, _:
            verdict, by = "SURVIVED", ""
        case 1, failed if failed is not None:
            verdict, by = "killed", failed[1]
    seconds = round(time.monotonic() - begin, 1)
    about: JSON = {"name": mutant.name, "file": f"lai/{mutant.file}", "breaks": mutant.breaks}
    return {**about, "verdict": verdict, "by": by, "seconds": seconds}


def sound(folder: Path, mutants: list[Mutant]) -> str:
    """What is wrong with the tests themselves; empty if they pass where nothing is changed."""
    tests = sorted({test for mutant in mutants for test in mutant.arguments})
    whole = [test for test in tests if "::" not in test]
    parts = [test for test in tests if test.partition("::")[0] not in whole]
    code, said = run(folder, [*whole, *parts], SECONDS * 10)
    return "" if code == 0 else said


def main(names: list[str]) -> int:
    """Judge the faults of these names, or all; 1 if one is not noticed."""
    mutants = [m for m in MUTANTS if not names or any(name in m.name for name in names)]
    if not mutants:
        print(f"no fault has a name with {' or '.join(names)} in it", file=sys.stderr)
        return 2
    begin, results = time.monotonic(), list[JSON]()
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(WORKERS) as pool:
        folders = SimpleQueue[Path]()
        for number in range(WORKERS):
            folders.put(copied(Path(made, str(number))))

        def with_a_copy(mutant: Mutant) -> JSON:
            folder = folders.get()
            try:
                return judged(folder, mutant)
            finally:
                folders.put(folder)

        first = folders.get()
        if problem := sound(first, mutants):
            print(f"{problem}\nthe tests fail without any fault", file=sys.stderr)
            return 2
        folders.put(first)
        for result in pool.map(with_a_copy, mutants):
            results.append(result)
            by = str(result["by"]).removeprefix("tests/")
            told = f"{len(results):3}/{len(mutants)} {result['seconds']:5} s  {result['name']}"
            print(f"{told}: {result['verdict']} {f'by {by}' if by else ''}", flush=True)
    (ROOT / ".proof").mkdir(exist_ok=True)
    text = json.dumps(results, ensure_ascii=False, indent=1)
    (ROOT / ".proof" / "mutants.json").write_text(text + "\n", encoding="utf-8")
    left = [str(result["name"]) for result in results if result["verdict"] != "killed"]
    told = f"{len(results) - len(left)} of {len(results)} faults noticed"
    print(f"{told} in {time.monotonic() - begin:.0f} s{''.join(f'; not {name}' for name in left)}")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
