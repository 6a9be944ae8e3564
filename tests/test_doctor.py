"""The two programs that a reader starts to see whether all is well: doctor and notebooks."""

from pathlib import Path

import pytest

from lai.course import doctor, run_notebooks

ROOT = Path(__file__).resolve().parents[1]
# One package for everybody, one of an extra that nobody must have, one of the tests' extra.
EXTRAS = ["pandas>=3", "smolagents; extra == 'compare'", "pytest; extra == 'test'"]


def test_notebooks_run_in_a_clean_copy(tmp_path: Path) -> None:
    """The copy has the course, without hidden folders and so without earlier sessions."""
    old = tmp_path / "course" / "notebooks"
    (old / ".agent_state").mkdir(parents=True)
    (old / "00.ipynb").touch()
    copy = run_notebooks.copy_course(tmp_path / "course", tmp_path / "copy")
    assert [path.name for path in copy.iterdir()] == ["00.ipynb"]


def test_unknown_notebook_is_named() -> None:
    """Asking for a notebook that is not there lists those that are."""
    with pytest.raises(SystemExit, match=r"starts with '09'; there are: 03_tools"):
        run_notebooks.choose([Path("03_tools.ipynb")], ["09"])


def refuse(_: Path) -> None:
    """A file system that cannot do it."""
    raise OSError("not supported")


@pytest.mark.parametrize(
    ("finding", "level", "says"),
    [
        (doctor.python_version((3, 10)), "FAIL", "install Python 3.13"),
        (doctor.python_version((3, 99)), "warn", "tested up to 3.13"),
        (doctor.packages(["pandas>=3"], {"pandas": "2.2"}.get), "FAIL", "pandas is 2.2 (needs >=3"),
        (doctor.packages(["pandas>=3"], {}.get), "FAIL", "pandas is missing"),
        (doctor.packages([], {}.get), "FAIL", "delete the folder .venv"),
        (doctor.packages(EXTRAS, {"pandas": "3.0"}.get), "FAIL", "pytest is missing"),
        (doctor.packages(EXTRAS[:2], {"pandas": "3.0"}.get), "ok", "all 1 are installed"),
        (doctor.ipykernel("7.3.0"), "FAIL", "7.4 up to 8 is needed"),
        (doctor.ipykernel(None), "FAIL", "ipykernel missing"),
        (doctor.imported("elsewhere/lai/__init__.py", ROOT), "FAIL", "gives: elsewhere"),
        (doctor.trial(ROOT / "gone", *doctor.TRIALS[0]), "FAIL", "move the course"),
        (doctor.trial(ROOT, "fsync", refuse, doctor.MOVE), "FAIL", "not supported; move the"),
        (doctor.storage(Path("/c"), "nfs4"), "warn", "network file system (nfs4); move"),
        (doctor.storage(Path("/c"), "fuse.sshfs"), "warn", "move the course"),
        (doctor.storage(Path("/c/Dropbox (me)/lai"), ""), "warn", "folder (Dropbox (me)); move"),
        (doctor.storage(Path("/c/Google Drive"), ""), "warn", "move the course"),
        (doctor.storage(Path("/c/我的坚果云/lai"), ""), "warn", "move the course"),
        (doctor.bash(None), "FAIL", "apt install bash"),
        (doctor.walls(lambda: refuse(ROOT)), "warn", "apt install bubblewrap"),
        (doctor.walls(lambda: None), "ok", "bubblewrap: works"),
    ],
)
def test_doctor_advises(finding: doctor.Finding, level: str, says: str) -> None:
    """Each thing that can be wrong is named in one line, with what to do about it."""
    assert finding.level == level
    assert says in str(finding)
    assert "\n" not in str(finding)


def test_doctor_reads_the_mount_table() -> None:
    """The deepest mount above a folder tells its file system; later mounts hide earlier ones."""
    table = "d / ext4 rw 0 0\nd /net ext4 rw 0 0\nd /net nfs4 rw 0 0\nd /my\\040disk xfs rw 0 0\n"
    kinds = [doctor.mount_type(Path(p), table) for p in ("/net/a", "/nets", "/my disk/lai")]
    assert kinds == ["nfs4", "ext4", "xfs"]


def test_doctor_never_shows_the_key() -> None:
    """The key is reported as set, and not shown."""
    assert "no key needed: offline" in str(doctor.model({}))
    shown = str(doctor.model({"OPENAI_API_KEY": "sk-secret"}))
    assert "live" in shown
    assert "secret" not in shown


@pytest.mark.parametrize("what", doctor.TRIALS, ids=lambda trial: trial[0])
def test_doctor_trusts_a_good_disk(what: tuple, tmp_path: Path) -> None:
    """On a folder that works, each trial is ok and leaves nothing behind."""
    assert doctor.trial(tmp_path, *what).level == "ok"
    assert list(tmp_path.iterdir()) == []
