"""The files that say what gets installed are exact, agree, and name no machine.

Nothing here installs anything or reaches a network; the patterns are written so that this
file does not match them itself.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PINS = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
HOSTS = (
    r"py[p]i\.org|pythonho[s]ted\.org|npm[j]s\.(org|com)|ana[c]onda\.(org|com)|crate[s]\.io"
    r"|deb\.d[e]bian\.org|golan[g]\.org|[t]una\.|mirrors?\.[a-z]+\.(com|edu|org)"
)
HOMES = r"(?<![\w.~/-])/(r[o]ot|h[o]me|U[s]ers)/\w|[A-Z]:\\\\?U[s]ers"


def committed() -> list[Path]:
    """Every file that git knows here."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout, so which files belong to the project is not known")
    return [ROOT / name for name in done.stdout.decode().split("\0") if name]


def packed(pins: list[str]) -> str:
    """The lines of constraint-dependencies that pyproject.toml should hold."""
    lines = [" "]
    for item in (f' "{pin}",' for pin in pins):
        if len(lines[-1] + item) > 100:
            lines.append(" ")
        lines[-1] += item
    return "\n".join(["pyproject.toml should hold:", "constraint-dependencies = [", *lines, "]"])


def test_every_pin_is_exact_and_without_address() -> None:
    """Each line of constraints.txt is one exact version, without address, hash or option."""
    for pin in map(Requirement, PINS):
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), pin
        assert pin.url is None


@pytest.mark.parametrize("python", ["3.11.0", "3.11.7", "3.12.1", "3.13.0"])
def test_every_dependency_has_one_fitting_pin(python: str) -> None:
    """For each Python, constraints.txt pins every dependency once, in a version it allows."""
    here = {"python_full_version": python, "python_version": python[:4]}
    pins: dict[str, list[str]] = {}
    for pin in map(Requirement, PINS):
        if pin.marker is None or pin.marker.evaluate(here):
            version = str(pin.specifier).removeprefix("==")
            pins.setdefault(canonicalize_name(pin.name), []).append(version)
    assert all(len(versions) == 1 for versions in pins.values())
    project = PYPROJECT["project"]
    for line in sum(project["optional-dependencies"].values(), project["dependencies"]):
        need = Requirement(line)
        assert need.specifier.contains(pins[canonicalize_name(need.name)][0]), need


def test_uv_gets_the_tested_versions() -> None:
    """The pins that uv reads are those of constraints.txt."""
    assert PYPROJECT["tool"]["uv"]["constraint-dependencies"] == PINS, packed(PINS)


def test_conda_gets_the_tested_versions() -> None:
    """environment.yml leaves everything but Python to pip, with the arguments of run.py."""
    python, pip, part = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert (pip, part["pip"]) == ("pip", ["-c constraints.txt", "-e .[test]"])
    assert "install --no-input -e .[test] -c constraints.txt" in (ROOT / "run.py").read_text()
    assert python.split(",")[0] == "python" + PYPROJECT["project"]["requires-python"]


@pytest.mark.parametrize("pattern", [HOSTS, HOMES, re.escape(f"{ROOT}/")])
def test_files_name_no_registry_and_no_machine(pattern: str) -> None:
    """No committed file names a package registry's host or a folder of somebody's machine."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in committed()
        if path.is_file() and (match := re.search(pattern, path.read_text("utf-8", "replace")))
    ]
    assert found == []
