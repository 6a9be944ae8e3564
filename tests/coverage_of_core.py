"""Every branch of the core is taken by a test, by python tests/coverage_of_core.py.

The core: the pure modules, ``session``, ``agent`` and the store of operations. The tests of
notebooks, browser, sandboxes and real disks are left out; what they reach is reached without.
It ends with 1 and the missing lines if a branch is not taken.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import coverage
from test_architecture import PURE

ROOT = Path(__file__).resolve().parents[1]
CORE = [*PURE, "session", "agent", "operations.store"]
LEFT_OUT = """
    browser course crash_runs database_crash doctor exercises figures full_disk kernels notebooks
    progress races readme real_disk run sandbox sandbox_choice selftest setup sigkill whatif
""".split()  # slow, or with processes that could not write down what they ran
SETTINGS = """
[run]
branch = true
source = lai
parallel = true
patch = subprocess
data_file = {folder}/data
[report]
exclude_also =
    if TYPE_CHECKING:
    assert_never
"""


def main() -> int:
    """Run the tests under coverage and judge the core."""
    tests = sorted(map(str, Path(ROOT, "tests").glob("test_*.py")))
    wanted = [name for name in tests if Path(name).stem.removeprefix("test_") not in LEFT_OUT]
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "settings")
        settings.write_text(SETTINGS.format(folder=folder), encoding="utf-8")
        command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}"]
        command += ["-m", "pytest", "-q", "-n", "2", *wanted]
        sample = os.environ | {"LAI_PROOF": ""}  # the sample takes every branch
        tests_failed = subprocess.run(command, cwd=ROOT, env=sample, check=False).returncode
        measured = coverage.Coverage(config_file=str(settings))
        measured.combine([folder])
        core = [str(ROOT / "lai" / f"{name.replace('.', '/')}.py") for name in CORE]
        share = measured.report(include=core, show_missing=True, skip_covered=True)
    print(f"{len(core)} modules, {share:.2f} % of lines and branches")
    return int(bool(tests_failed) or share < 100)


if __name__ == "__main__":
    sys.exit(main())
