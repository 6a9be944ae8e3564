"""What is out of reach of a command, agreed or not: the walls around ``run_bash``.

Approval asks whether a person agrees; a sandbox holds whether or not anybody was deceived.
Three are known. ``bubblewrap`` gives the command a view of the system in which only the
workspace can be written. ``landlock`` asks the kernel to refuse what is not allowed.
``none`` is no wall, and says so.

Rules that live here and nowhere else:

1. ``TABLE`` says what each keeps and what it does not. The question to a person, the
   documents and the course are made of it, so that nobody promises more.
2. A sandbox works here when it was tried here: a small command wrote into a workspace and
   could not write beside it. That is done once in a process.
3. Who names a sandbox gets that one or an error before anything runs, never a weaker one.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType

from lai import landlock, view
from lai.records import LaiError
from lai.storage import STATE


class Sandbox(StrEnum):
    """The walls there are, the strongest first."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


def _row(*cells: str) -> Mapping[Sandbox, str]:
    return MappingProxyType(dict(zip(Sandbox, cells, strict=True)))


_YOURS = "whatever you may do"
_WRITES = "the workspace, also what you will run later (hooks, scripts), and a temporary folder"
TABLE: Mapping[str, Mapping[Sandbox, str]] = MappingProxyType(
    {
        #                   bubblewrap, landlock, none
        "it can write": _row(
            _WRITES,
            f"{_WRITES}; modes and times of files everywhere",
            "wherever you can",
        ),
        f"{STATE}, the agent's records": _row("hidden", "not protected", "not protected"),
        "your home folder": _row(
            "hidden, but for programs and the workspace",
            "names only, but for programs and the workspace",
            "open",
        ),
        "the rest of the system": _row("can be read", "can be read", _YOURS),
        "network": _row("none", "no TCP from Linux 6.7 on; UDP and local sockets are open", "open"),
        "other processes": _row(
            "out of reach", "seen, not traced; not signalled from Linux 6.12 on", _YOURS
        ),
        "what it leaves running": _row("ends with it", "goes on", "goes on"),
    }
)
FIXES = {
    Sandbox.BUBBLEWRAP: "install it (apt install bubblewrap) and allow user namespaces",
    Sandbox.LANDLOCK: "it takes Linux 5.13 or later, with landlock among its security modules",
}


def described(sandbox: Sandbox) -> str:
    """The column of a sandbox as a sentence."""
    return "; ".join(f"{about}: {cells[sandbox]}" for about, cells in TABLE.items()) + "."


def available() -> tuple[Sandbox, ...]:
    """The sandboxes that work on this machine, the strongest first."""
    return tuple(kind for kind in Sandbox if _works(kind, shutil.which("bwrap")))


def chosen(name: str | None) -> Sandbox:
    """The sandbox of that name, without one the strongest. Raises LaiError where it fails."""
    if name is None:
        return next(kind for kind in Sandbox if _works(kind, shutil.which("bwrap")))
    if name not in list(Sandbox):
        raise LaiError(f"there is no sandbox {name!r}; there are {', '.join(Sandbox)}")
    if not _works(Sandbox(name), shutil.which("bwrap")):
        raise LaiError(
            f"the sandbox {name} does not work here: {FIXES[Sandbox(name)]}, or choose another: "
            f"{', '.join(available())}. Nothing was run."
        )
    return Sandbox(name)


def from_environment() -> Sandbox:
    """The sandbox that AGENT_SANDBOX requires, without it the strongest. Raises LaiError."""
    try:
        return chosen(os.environ.get("AGENT_SANDBOX", "").strip() or None)
    except LaiError as error:
        raise LaiError(f"AGENT_SANDBOX: {error}") from None


@cache
def _works(sandbox: Sandbox, bwrap: str | None) -> bool:
    if sandbox is Sandbox.NONE:
        return True
    if sandbox is Sandbox.BUBBLEWRAP and bwrap is None:
        return False
    with suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as place:
        inside, beside = Path(place, "in"), Path(place, "beside")
        (inside / STATE).mkdir(parents=True)
        with scratch(sandbox) as temporary:
            trial = ["/bin/sh", "-c", ': > seen; : > "$1"', "sh", str(beside)]
            line = command(sandbox, inside, temporary, trial)
            subprocess.run(line, cwd=inside, timeout=30, check=False, capture_output=True)
        return (inside / "seen").exists() and not beside.exists()
    return False


@contextmanager
def scratch(sandbox: Sandbox) -> Iterator[Path]:
    """A folder for the temporary files of one command. Without a sandbox: the system's own."""
    if sandbox is Sandbox.NONE:
        yield Path(tempfile.gettempdir())
        return
    with tempfile.TemporaryDirectory(prefix="lai-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def environment(sandbox: Sandbox, temporary: Path) -> dict[str, str]:
    """What a command finds in its environment."""
    homes = {Sandbox.BUBBLEWRAP: view.TMP, Sandbox.LANDLOCK: str(temporary)}
    return view.environment(homes.get(sandbox))


def command(
    sandbox: Sandbox, root: Path, temporary: Path, line: Sequence[str | bytes]
) -> list[str | bytes]:
    """The program and arguments that run ``line`` in the sandbox. Start it in ``root``."""
    match sandbox:
        case Sandbox.BUBBLEWRAP:
            return [*view.bubblewrapped(root, temporary), "--", *line]
        case Sandbox.LANDLOCK:
            return [*view.landlocked(root, temporary, str(landlock.__file__)), "--", *line]
        case Sandbox.NONE:
            return list(line)
