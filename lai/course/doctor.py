"""Check that this machine can run the course, and say what to do where it cannot.

    python run.py doctor

Rules that live here:

1. One line a check: `ok`, `warn` or `FAIL`, what was found, and what to do about it.
2. A check judges what it is given; `look` fetches it. So a test can plant any bad input.
3. What the library promises rests on the file system: it is tried here, not assumed.
4. A missing package is a finding, not a traceback: packages are imported inside the checks.

It repairs nothing, never shows the API key, and does not import `lai`, which may be what fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
AGAIN = "delete the folder .venv, then run `python run.py doctor` again"
MOVE = "move the course to a folder of your own on a disk of this machine"
WINDOWS = "on Windows, run the course inside WSL"
# How the names of network file systems begin: nfs4, smb3, fuse.sshfs, ...
NETWORK = tuple("9p afs ceph cifs davfs drvfs fuse. glusterfs lustre nfs prl_fs smb vboxsf".split())
SYNCED = "dropbox onedrive icloud mobiledocuments googledrive nutstore 坚果云".split()


@dataclass(frozen=True)
class Finding:
    """What one check found; the advice is empty only when there is nothing to do."""

    level: Literal["ok", "warn", "FAIL"]
    found: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.level:4}  {self.found}" + (f"; {self.advice}" if self.advice else "")


def python_version(version: tuple[int, ...]) -> Finding:
    """Old Pythons cannot run the library; newer ones than were tested may."""
    found = f"Python {version[0]}.{version[1]}"
    if version[:2] < (3, 11):
        return Finding("FAIL", found, "install Python 3.13 and start run.py with it")
    if version[:2] > (3, 13):
        return Finding("warn", found, "tested up to 3.13: if something fails, try that one")
    return Finding("ok", found)


def packages(required: Iterable[str], version: Callable[[str], str | None]) -> Finding:
    """Every requirement that applies here is installed in a version that it allows."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return Finding("FAIL", "packages: even `packaging` is missing", AGAIN)
    installed = {"extra": "test"}  # what run.py installs; other extras are nobody's duty
    asked = (n for n in map(Requirement, required) if not n.marker or n.marker.evaluate(installed))
    needs = [(n, version(n.name)) for n in asked]
    wrong = [
        f"{n.name} is {have or 'missing'} (needs {n.specifier or 'any'})"
        for n, have in needs
        if not have or not n.specifier.contains(have, prereleases=True)
    ]
    if wrong or not needs:
        return Finding("FAIL", "packages: " + (", ".join(wrong) or "lai is not installed"), AGAIN)
    return Finding("ok", f"packages: all {len(needs)} are installed in versions that fit")


def ipykernel(version: str | None) -> Finding:
    """A cell can wait for a click only from ipykernel 7.4 on."""
    if version and (7, 4) <= tuple(int(n) for n in version.split(".")[:2]) < (8, 0):
        return Finding("ok", f"ipykernel {version}: a cell can wait for your answer")
    return Finding("FAIL", f"ipykernel {version or 'missing'}, 7.4 up to 8 is needed", AGAIN)


def import_origin(folder: Path) -> str:
    """Where a Python started in `folder` finds `lai`, or its last words if it does not."""
    if not folder.is_dir():
        return f"the folder {folder} is missing"
    command = [sys.executable, "-c", "import lai; print(lai.__file__)"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr or "nothing").strip().splitlines()[-1]


def imported(origin: str, root: Path) -> Finding:
    """`import lai` in a notebook must give the library that lies in this folder."""
    if origin == str(root / "lai" / "__init__.py"):
        return Finding("ok", "import lai: works in notebooks/ and is this folder's")
    return Finding("FAIL", f"import lai, from notebooks/, gives: {origin}", AGAIN)


def sync(folder: Path) -> None:
    """Make a file and its folder durable."""
    for path, flags in ((folder / "file", os.O_RDWR | os.O_CREAT), (folder, os.O_RDONLY)):
        descriptor = os.open(path, flags)
        os.fsync(descriptor)
        os.close(descriptor)


def replace(folder: Path) -> None:
    """Put a new file in an old one's place in one step."""
    (folder / "old").write_bytes(b"old")
    (folder / "new").write_bytes(b"new")
    (folder / "new").replace(folder / "old")


def lock(folder: Path) -> None:
    """Take a lock; a second one must be refused while it is held."""
    from filelock import FileLock, Timeout

    with FileLock(folder / "lock"), suppress(Timeout), FileLock(folder / "lock", timeout=0):
        raise OSError("two held it at once")


TRIALS: tuple[tuple[str, Callable[[Path], object], str], ...] = (
    ("writing a file", lambda folder: (folder / "file").write_bytes(b"x"), MOVE),
    ("fsync of a file and of its folder", sync, f"{MOVE}; {WINDOWS}"),
    ("replacing a file in one step", replace, f"{MOVE}; {WINDOWS}"),
    ("an exclusive lock", lock, MOVE),
)


def trial(folder: Path, what: str, action: Callable[[Path], object], advice: str) -> Finding:
    """Try an action in a throw-away folder inside `folder`."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".doctor-") as inside:
            action(Path(inside))
    except (OSError, ImportError, NotImplementedError) as error:
        return Finding("FAIL", f"{what} in {folder}: {error}", advice)
    return Finding("ok", f"{what}: works here")


def mount_type(folder: Path, mounts: str) -> str:
    """The file system that `folder` is on, by the text of /proc/mounts; empty if unknown."""
    best, kind = Path(), ""
    for line in mounts.splitlines():
        point = Path(line.split()[1].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, kind = point, line.split()[2]
    return kind


def storage(folder: Path, kind: str) -> Finding:
    """Network and synced folders may lose, delay or copy what was made durable."""
    if kind.startswith(NETWORK):
        return Finding("warn", f"the course is on a network file system ({kind})", MOVE)
    for part in folder.parts:
        if any(name in part.lower().replace(" ", "") for name in SYNCED):
            return Finding("warn", f"the course is in a synced folder ({part})", MOVE)
    return Finding("ok", f"storage: {kind or 'no network or synced folder seen'}")


def bash(path: str | None) -> Finding:
    """The agent's run_bash needs it."""
    if path:
        return Finding("ok", "bash: found")
    return Finding("FAIL", "bash: not found", f"install it (apt install bash); {WINDOWS}")


def walls(trial: Callable[[], object]) -> Finding:
    """Bubblewrap keeps approved commands in the workspace; the lessons do without it."""
    try:
        trial()
    except (OSError, subprocess.SubprocessError):
        advice = "commands have weaker walls or none; on Linux install it (apt install bubblewrap)"
        return Finding("warn", "bubblewrap: does not work here", advice)
    return Finding("ok", "bubblewrap: works")


def model(environment: Mapping[str, str]) -> Finding:
    """Which model answers: nobody needs a key."""
    if environment.get("OPENAI_API_KEY"):
        return Finding("ok", "OPENAI_API_KEY is set: live, calls cost money (unset: offline)")
    return Finding("ok", "no key needed: offline")


def look() -> Iterator[Finding]:
    """Every check on this machine, in the order in which to mend what is wrong."""
    yield python_version(sys.version_info[:2])
    yield packages(metadata.requires("lai") or () if version_of("lai") else (), version_of)
    yield ipykernel(version_of("ipykernel"))
    yield imported(import_origin(ROOT / "notebooks"), ROOT)
    yield bash(shutil.which("bash"))
    line = ["bwrap", "--ro-bind", "/", "/", "true"]
    yield walls(lambda: subprocess.run(line, check=True, capture_output=True, timeout=30))
    yield from (trial(ROOT, *each) for each in TRIALS)
    mounts = Path("/proc/mounts")
    table = os.fsdecode(mounts.read_bytes()) if mounts.exists() else ""
    yield storage(ROOT, mount_type(ROOT, table))
    yield model(os.environ)


def version_of(name: str) -> str | None:
    """The installed version of a package; None if it is missing."""
    return next((found.version for found in metadata.distributions(name=name)), None)


def main() -> int:
    """Print every finding; 1 if one of them is a FAIL."""
    findings = list(look())
    print(*findings, sep="\n")
    return int(any(finding.level == "FAIL" for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
