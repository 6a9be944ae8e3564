"""Set up and run the course. Needs Python 3.11, 3.12 or 3.13 and nothing else.

    python run.py lab                open the notebooks in JupyterLab
    python run.py test [ARGS]        run the tests; ARGS go to pytest
    python run.py notebooks [NAMES]  run the notebooks, or those named, without a browser
    python run.py proof [NAMES]      the long proofs; their results go to .proof/
    python run.py doctor             check this machine and say what to do about it
    python run.py lai [ARGS]         the agent in the terminal; the same as python -P -m lai
    python run.py COMMAND ...        run any command in the environment

The first run makes the folder .venv beside this file and installs the tested versions of
everything into it; nothing else on the machine changes. Later runs start at once.

Rules of this file, which knows nothing of what `lai` does:
1. Only the standard library is imported, because this runs before anything is installed.
2. The stamp in .venv is the last thing an install writes. Without it the install never
   finished, so .venv is built anew: what a killed install left behind is never mended.
3. It parses on Python 3.6, so that an old Python gets a sentence, not a syntax error.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

try:
    import fcntl
except ImportError:  # Windows: start only one first run at a time there
    fcntl = None

HERE = Path(__file__).resolve().parent
ENV = HERE / ".venv"
BIN = ENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = ENV / "lai-installed"
NAMED = {
    "test": ["-m", "pytest", "-n", "auto", "--maxprocesses", "4"],  # -n 0: one after the other
    "proof": [str(Path("tests", "proof.py"))],
    "notebooks": ["-m", "lai.course.run_notebooks"],
    # By path, and -P keeps its folder off sys.path: it must start where `import lai` fails.
    "doctor": ["-P", str(Path("lai", "course", "doctor.py"))],
}
OFFLINE = ("connection", "resolve host", "resolution", "timed out", "from versions: none")


def require(version: Tuple[int, ...], parts: Tuple[str, ...] = ()) -> None:
    """Stop with a sentence if this Python is too old, or lacks a part."""
    if version[:2] < (3, 11):
        sys.exit(
            "run.py: lai needs Python 3.11, 3.12 or 3.13; this is Python {}.{}. Install a newer "
            "one and name it, for example: python3.13 run.py".format(*version)
        )
    for name in parts:
        if importlib.util.find_spec(name) is None:
            sys.exit(
                f"run.py: this Python lacks its module {name}. On Debian and Ubuntu: apt install "
                "python3-venv (as root or with sudo). Elsewhere: install a complete Python."
            )


def tell(text: str) -> None:
    """Speak to the reader; on standard error, so that a COMMAND's output stays its own."""
    print(text, file=sys.stderr, flush=True)


def wanted() -> List[str]:
    """What the stamp of a good install says: which folder, which Python, which packages."""
    text = (HERE / "pyproject.toml").read_bytes() + (HERE / "constraints.txt").read_bytes()
    return [str(HERE), "{}.{}".format(*sys.version_info), hashlib.sha256(text).hexdigest()]


def installed() -> List[str]:
    """What the stamp in .venv says; nothing if the stamp or the Python there is gone."""
    whole = STAMP.exists() and PYTHON.exists()
    return os.fsdecode(STAMP.read_bytes()).splitlines() if whole else []


def set_up() -> None:
    """Bring .venv to what is wanted; nothing to do when it is there already."""
    if installed() == wanted():
        return
    start = time.time()
    with (HERE / ".venv.lock").open("w") as lock:
        if fcntl:  # the lock lasts until this process and pip, which inherits it, have ended
            os.set_inheritable(lock.fileno(), True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if installed() == wanted():
            return  # another run did it while this one waited
        if installed()[:2] == wanted()[:2]:
            tell("The list of packages has changed: updating .venv ...")
            STAMP.unlink()  # an update that is killed leaves no stamp
        else:
            make_environment()
        install()
        STAMP.write_bytes(os.fsencode("\n".join(wanted())))
    tell(f"Ready after {time.time() - start:.0f} s.".ljust(72))  # over what pip was at


def make_environment() -> None:
    """Make .venv, empty but for pip, whatever was there before."""
    require(sys.version_info, parts=("venv", "ensurepip"))
    import venv  # not above: Debian's Python may lack it

    tell("Setting up the course in .venv. This happens once and takes about a minute ...")
    try:
        venv.EnvBuilder(clear=True, with_pip=True, symlinks=os.name != "nt").create(ENV)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"run.py: cannot make {ENV}: {error}\nMend that, then run this again.")


def install() -> None:
    """Let pip install the tested versions, naming on a terminal the package it is at."""
    command = [str(PYTHON), *"-m pip install --no-input -e .[test] -c constraints.txt".split()]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "errors": "replace"}
    lines = []
    with subprocess.Popen(command, cwd=HERE, env=environment(), close_fds=False, **how) as pip:
        for line in pip.stdout:
            lines.append("  " + line.rstrip())
            if sys.stderr.isatty() and line.startswith(("Collecting", "Installing")):
                print(f"{line.strip():72.72}", end="\r", file=sys.stderr, flush=True)
    if pip.returncode == 0:
        return
    cause = "The lines above are pip's own."
    if any(sign in line.lower() for sign in OFFLINE for line in lines):
        cause = "The package index was not reached: check the network and the proxy."
    tell("\n" + "\n".join([line for line in lines if "error" in line.lower()][-4:] or lines[-8:]))
    sys.exit(f"run.py: the install failed. {cause} Then run the same command again.")


def environment() -> Dict[str, str]:
    """The variables under which commands find .venv first, as after `activate`."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return dict(os.environ, VIRTUAL_ENV=str(ENV), PATH=path)


def run(command: List[str], folder: Optional[Path] = None, **more: str) -> int:
    """Run a command to its end; Ctrl-C is the command's to answer, a `kill` is passed on."""
    child = subprocess.Popen(command, cwd=folder, env=dict(environment(), **more))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    code = child.wait()
    return code if code >= 0 else 128 - code


def lab(arguments: List[str]) -> int:
    """JupyterLab on the notebooks; the note it leaves in its own folder tells its address."""
    command = [str(PYTHON), "-m", "jupyterlab", "notebooks", "--Application.log_level=WARN"]
    command.append("--ServerApp.answer_yes=True")  # Ctrl-C stops it, without a question
    command.append("--KernelManager.transport_encryption=auto")  # else each kernel warns
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        command.append("--no-browser")
    with tempfile.TemporaryDirectory(prefix="lai-lab-") as notes:
        threading.Thread(target=print_address, args=(Path(notes),), daemon=True).start()
        more = {"JUPYTER_RUNTIME_DIR": notes, "JUPYTER_TOKEN": secrets.token_hex(24)}
        return run(command + arguments, HERE, **more)


def print_address(notes: Path) -> None:
    """Wait until the server has noted where it listens, then say so plainly."""
    while True:
        time.sleep(0.2)
        for note in notes.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError):  # until it is written to its end
                server = json.loads(note.read_text(encoding="utf-8"))
                address = f"{server['url']}lab?token={server['token']}"
                return print(f"Open this address in a browser: {address}", flush=True)


def main(arguments: List[str]) -> int:
    """Do what the arguments say, in the environment."""
    require(sys.version_info)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__.split("\n\nRules")[0])
        return 0
    set_up()
    name, rest = arguments[0], arguments[1:]
    if name == "lab":
        return lab(rest)
    if name in NAMED:
        return run([str(PYTHON), *NAMED[name], *rest], HERE)
    if name == "lai":  # where the reader is, and as the process that the reader may kill
        # -P: no module that lies there, put by whomever, is taken for one of a library.
        command = [str(PYTHON), "-P", "-m", "lai", *rest]
        return run(command) if os.name == "nt" else os.execve(command[0], command, environment())  # noqa: S606
    program = shutil.which(name, path=environment()["PATH"])
    if program:
        return run([program, *rest])
    sys.exit(f"run.py: no command '{name}'. `python run.py` lists what there is.")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # only set_up can be interrupted; commands answer for themselves
        sys.exit("run.py: stopped during the set-up. Run the same command again to go on.")
