"""What a command sees of this machine: its folders, and its environment.

Rules that live here and nowhere else:

1. The environment is this process's own, except what looks like a secret by its name, or
   by a password in an address (so that ``env`` prints no key into the session; proxies
   stay), and what would run something else than was shown: ``BASH_ENV``, shell functions.
2. In a sandbox the home folder is out of sight, and with it keys, settings (git's too) and
   histories. Of it stay the programs: the folders of PATH with what usually lies beside
   them, and this Python. HOME and TMPDIR are a folder made for the one command.
3. Where others listen on sockets or leave files (/run, /var/tmp), bubblewrap shows nothing.
"""

import os
import pwd
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from lai.storage import STATE

WITHHELD = re.compile(
    r"(API|ACCESS|PRIVATE|OPENAI|ACCOUNT|ENCRYPTION|SIGNING|AUTH)_?KEY|TOKEN|SECRET|CREDENTIAL"
    r"|PASSW|PASSPHRASE|(_|^)(PASS|PAT|DSN)$|^MYSQL_PWD$|^OPENAI_BASE_URL$"
    r"|^SHELLOPTS$|^BASHOPTS$|^PS4$|^ENV$|^BASH_ENV$|^BASH_FUNC_|^FORCE_COLOR$|^CLICOLOR_FORCE$",
    re.IGNORECASE,
)
IN_ADDRESS = re.compile(r"://[^/@\s]*:[^/@\s]+@")  # postgresql://user:password@host
PLAIN = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}  # no colours, no paging
HOME = ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
TMP = "/tmp"  # noqa: S108 (a folder of its own lies there)
ROOMS = ("/var/tmp", "/run", "/var/run")  # noqa: S108 (hidden)
BESIDE = ("lib", "lib64", "libexec", "include", "plugins", "versions", "version", "pyvenv.cfg")


def environment(home: str | None) -> dict[str, str]:
    """What a command finds in its environment; with a ``home`` of its own, or with the person's."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not WITHHELD.search(name)
        and (name.lower().endswith("_proxy") or not IN_ADDRESS.search(value))
    }
    return {**kept, **PLAIN, **(dict.fromkeys(HOME, home) if home else {})}


def bubblewrapped(root: Path, temporary: Path) -> list[str]:
    """The command line of bubblewrap. A later mount lies on top of an earlier one."""
    here, homes = str(root.resolve()), _homes()
    hidden = [*homes, *(Path(r) for r in ROOMS if Path(r).is_dir() and not Path(r).is_symlink())]
    told = "bwrap --unshare-all --cap-drop ALL --die-with-parent --ro-bind / /".split()
    told += ["--dev", "/dev", "--proc", "/proc", "--bind", str(temporary), TMP]
    told += [word for path in hidden for word in ("--tmpfs", str(path))]
    for path in _programs([*hidden, Path(TMP)]):
        told += ["--ro-bind", str(path), str(path)]
    told += ["--dir", here]  # before what is around it is closed
    told += [word for path in hidden for word in ("--remount-ro", str(path))]
    state = f"{here}/{STATE}"
    return [*told, "--bind", here, here, "--tmpfs", state, "--remount-ro", state, "--chdir", here]


def landlocked(root: Path, temporary: Path, program: str) -> list[str]:
    """The command line of the program that asks the kernel for landlock."""
    homes = _homes()
    told = [f"--read={path}" for path in _programs(homes)]
    told += [f"--hide={home}" for home in homes]
    told += [f"--write={path}" for path in (root.resolve(), temporary)]
    return [sys.executable, "-I", "-S", program, *told]


def _homes() -> list[Path]:
    """The person's home folder, by the environment and by the system."""
    found = {Path("~").expanduser().resolve(), Path(pwd.getpwuid(os.getuid()).pw_dir).resolve()}
    return sorted(path for path in found if path.is_dir() and path != Path("/"))


def _programs(hidden: Sequence[Path]) -> list[Path]:
    """What programs need of the folders that are hidden."""
    found = {Path(sys.prefix), Path(sys.base_prefix)}
    for folder in map(Path, os.get_exec_path()):
        found.add(folder)
        found |= {folder.parent / name for name in BESIDE if folder.parent not in hidden}
    placed = {path.parent.resolve() / path.name for path in found if path.is_absolute()}
    inside = [path for path in placed if any(above in path.parents for above in hidden)]
    return sorted(path for path in inside if path.exists())
