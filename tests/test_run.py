"""run.py, the first thing that a reader runs: one good sentence, or a finished install."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run() -> ModuleType:
    """run.py as a fresh module."""
    spec = importlib.util.spec_from_file_location("lai_run", ROOT / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def course(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """run.py for an empty folder, with steps that are noted instead of done."""
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    env = tmp_path / ".venv"
    (env / "bin").mkdir(parents=True)
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "PYTHON", env / "bin" / "python")
    monkeypatch.setattr(run, "STAMP", env / "lai-installed")
    run.steps = []
    monkeypatch.setattr(run, "install", lambda: run.steps.append("install"))

    def make_environment() -> None:
        run.steps.append("make")
        run.PYTHON.touch()

    monkeypatch.setattr(run, "make_environment", make_environment)
    return run


def test_run_parses_on_old_pythons() -> None:
    """run.py has no syntax newer than Python 3.6 and imports only the standard library."""
    tree = ast.parse((ROOT / "run.py").read_text("utf-8"), feature_version=(3, 6))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    froms = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name.split(".")[0] for node in imports for alias in node.names}
    assert names | set(froms) <= sys.stdlib_module_names


@pytest.mark.parametrize("version", [(2, 7), (3, 6, 15), (3, 10, 13)])
def test_old_python_gets_a_sentence(run: ModuleType, version: tuple[int, ...]) -> None:
    """A Python that is too old is named, with what to do."""
    named = f"this is Python {version[0]}.{version[1]}. .*python3.13 run.py"
    with pytest.raises(SystemExit, match=named):
        run.require(version)


def test_missing_venv_gets_a_sentence(run: ModuleType) -> None:
    """A Python without its venv parts is told which Debian package brings them."""
    run.require((3, 11), parts=("venv",))
    with pytest.raises(SystemExit, match=r"lacks its module no_such.* apt install python3-venv"):
        run.require((3, 11), parts=("no_such",))


def test_second_run_installs_nothing(course: ModuleType) -> None:
    """A finished install is used as it is."""
    course.set_up()
    course.set_up()
    assert course.steps == ["make", "install"]


def test_killed_install_is_begun_again(course: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """An install that did not end leaves no stamp, so the next run starts from nothing."""

    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(course, "install", killed)
        with pytest.raises(KeyboardInterrupt):
            course.set_up()
    course.set_up()
    assert course.steps == ["make", "make", "install"]


def test_changed_pins_update_the_environment(course: ModuleType) -> None:
    """New pins are installed into the environment that is there."""
    course.set_up()
    (course.HERE / "constraints.txt").write_text("new")
    course.set_up()
    assert course.steps == ["make", "install", "install"]


@pytest.mark.parametrize("gone", ["python", "version", "place"])
def test_useless_environment_is_rebuilt(course: ModuleType, gone: str) -> None:
    """An environment whose Python is gone or another, or that was moved, is made anew."""
    course.set_up()
    place, python, digest = course.STAMP.read_text().splitlines()
    if gone == "python":
        course.PYTHON.unlink()
    elif gone == "version":
        course.STAMP.write_text(f"{place}\n3.0\n{digest}")
    else:
        course.STAMP.write_text(f"elsewhere\n{python}\n{digest}")
    course.set_up()
    assert course.steps == ["make", "install"] * 2


@pytest.mark.parametrize(
    ("words", "advice"),
    [("connection broken", "check the network"), ("no space left", "pip's own")],
)
def test_failed_install_says_what_to_do(
    run: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    advice: str,
) -> None:
    """When pip fails, its last lines are shown, with what to do next."""
    pip = tmp_path / "python"
    pip.write_text(f"#!/bin/sh\necho {words}\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(run, "PYTHON", pip)
    with pytest.raises(SystemExit, match=f"{advice}.* Then run the same command again"):
        run.install()
    assert words in capsys.readouterr().err


def test_no_argument_prints_help(run: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments run.py installs nothing and lists what it can do."""
    assert run.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"python run.py {name}" in shown for name in ("lab", *run.NAMED))
