"""A reference stands for bytes that are whole, unchanged, and nobody else's business."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lai.calls import arguments_sha256
from lai.operations.references import Reference, References, Unreadable

VALUE = {"title": "书 \u2028 report", "lines": ["first 🙂", "\u0085", ""], "b": {"z": 1, "a": None}}
# Its canonical form, written out: sorted keys, no spaces, non-ASCII as it is.
BYTES = (
    '{"b":{"a":null,"z":1},"lines":["first 🙂","\u0085",""],"title":"书 \u2028 report"}'
).encode()
SHA256 = hashlib.sha256(BYTES).hexdigest()
HOSTILE = """
    ../secret.json inputs/../secret.json inputs/../../secret.json /etc/passwd inputs//x.json
    inputs/x inputs/x.json/ inputs/.hidden.json inputs/-x.json other/x.json secret.json inputs
    inputs/a/b.json inputs\\x.json INPUTS/x.json inputs/书.json ./inputs/x.json ~/x.json
    file:///etc/passwd
""".split()
HOSTILE += ["", "\0", "inputs/x\0.json", "inputs/x.json\n", "inputs/x .json", "\ninputs/x.json"]
HERE = Path(__file__).parents[1]
NEARLY = ["x", ".hidden.json", "-x.json", "x.json\n", "x .json", "书.json"]  # they are there
CHILD = """
import os, signal, sys
from pathlib import Path
from lai.operations.references import References
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
References(Path(sys.argv[1])).put("receipts", {"text": "x" * 100_000})
"""


@pytest.fixture
def kept(tmp_path: Path) -> References:
    return References(tmp_path / "kept")


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def files(folder: Path) -> dict[str, bytes]:
    """All files below, with their bytes."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("kind", ["inputs", "receipts"])
def test_a_text_is_named_by_its_content(kept: References, kind: str) -> None:
    """The file has the canonical bytes, its name is their hash, and the same again is the same."""
    stored = kept.put(kind, VALUE)
    assert stored == Reference(f"{kind}/{SHA256}.json", SHA256)
    assert files(kept.folder) == {stored.ref: BYTES}
    assert kept.put(kind, json.loads(json.dumps(VALUE))) == stored
    assert files(kept.folder) == {stored.ref: BYTES}
    assert kept.get(stored.ref, stored.sha256) == VALUE
    assert arguments_sha256(VALUE) == stored.sha256


def test_another_text_has_another_name(kept: References) -> None:
    """Two texts do not touch each other, and what was there first stays."""
    first, second = kept.put("inputs", VALUE), kept.put("inputs", VALUE | {"title": "书"})
    assert first.ref != second.ref
    assert kept.get(first.ref, first.sha256) == VALUE
    assert kept.get(second.ref, second.sha256) == VALUE | {"title": "书"}


@pytest.mark.usefixtures("open_umask")
def test_all_of_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Folders that were made have mode 0700 and files 0600, whatever the umask."""
    kept = References(tmp_path / "state" / "kept")
    for kind in ("inputs", "receipts"):
        kept.put(kind, VALUE)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in kept.folder.rglob("*")}
    modes[kept.folder] = stat.S_IMODE(kept.folder.stat().st_mode)
    assert {str(p.relative_to(tmp_path)): oct(mode) for p, mode in modes.items()} == {
        str(p.relative_to(tmp_path)): "0o700" if p.is_dir() else "0o600" for p in modes
    }


@pytest.mark.parametrize(
    "harm",
    [BYTES[:-1], BYTES + b" ", b"", BYTES.replace(b"first", b"First"), b'{"title":"other"}', None],
)
def test_what_is_not_what_was_stored_is_refused(kept: References, harm: bytes | None) -> None:
    """Damaged, swapped or missing, it raises; storing it again mends it."""
    stored = kept.put("receipts", VALUE)
    path = kept.folder / stored.ref
    path.unlink() if harm is None else path.write_bytes(harm)
    with pytest.raises(Unreadable, match=SHA256):
        kept.get(stored.ref, stored.sha256)
    kept.put("receipts", VALUE)
    assert kept.get(stored.ref, stored.sha256) == VALUE


def test_a_record_that_names_another_hash_gets_nothing(kept: References) -> None:
    """The hash of the record decides, not the name of the file."""
    stored, other = kept.put("inputs", VALUE), kept.put("inputs", {"title": "other"})
    for sha256 in (other.sha256, "", stored.sha256.upper()):
        with pytest.raises(Unreadable):
            kept.get(stored.ref, sha256)


@pytest.mark.parametrize(
    "data",
    [b"not json", b"[1]", b'"text"', b"null", b"\xff\xfe", b"[" * 100_000],
    ids=lambda data: repr(data[:9]),
)
def test_what_is_no_object_is_refused(kept: References, data: bytes) -> None:
    """Bytes with the right hash that are no JSON object are no input and no receipt."""
    kept.put("inputs", VALUE)
    (kept.folder / "inputs" / "x.json").write_bytes(data)
    with pytest.raises(Unreadable):
        kept.get("inputs/x.json", hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("ref", HOSTILE)
def test_a_hostile_reference_reads_nothing(kept: References, ref: str) -> None:
    """What does not name one file in one of the two folders is refused, its hash being right."""
    kept.put("inputs", VALUE)
    for place in ("secret.json", *(f"inputs/{name}" for name in NEARLY)):
        (kept.folder / place).write_bytes(BYTES)
    (kept.folder.parent / "secret.json").write_bytes(BYTES)
    with pytest.raises(Unreadable):
        kept.get(ref, SHA256)


@pytest.mark.parametrize("kind", ["", "..", "other", "inputs/x", "/tmp", "inputs\0", "Inputs"])  # noqa: S108
def test_there_are_two_folders(kept: References, kind: str) -> None:
    """Whatever is no input and no receipt is refused, and nothing is written."""
    with pytest.raises(Unreadable):
        kept.put(kind, VALUE)
    assert not kept.folder.exists()


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": "\ud800"}, {"x": {1, 2}}], ids=repr)
def test_what_has_no_canonical_form_is_not_stored(kept: References, value: dict[str, Any]) -> None:
    """NaN, a lone surrogate and what is no JSON raise before anything is written."""
    with pytest.raises((ValueError, TypeError)):
        kept.put("inputs", value)
    assert not kept.folder.exists()


def test_a_link_is_not_followed(kept: References, tmp_path: Path) -> None:
    """A link in the place of a file is refused, even where its target has the right bytes."""
    stored = kept.put("inputs", VALUE)
    (tmp_path / "elsewhere").write_bytes(BYTES)
    path = kept.folder / stored.ref
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unreadable):
        kept.get(stored.ref, stored.sha256)
    kept.put("inputs", VALUE)
    assert not path.is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == BYTES


@pytest.mark.parametrize("written_to", [False, True])
def test_a_pipe_is_not_waited_for(kept: References, written_to: bool) -> None:
    """A pipe in the place of a file is refused, with and without somebody who writes to it."""
    kept.put("inputs", VALUE)
    pipe, found = kept.folder / "inputs" / "pipe.json", list[Any]()
    os.mkfifo(pipe)
    writers = [os.open(pipe, os.O_RDWR)] if written_to else []
    for writer in writers:
        os.write(writer, BYTES)
    reader = Thread(target=lambda: found.append(outcome(kept, "inputs/pipe.json")))
    reader.start()
    reader.join(20.0)
    waited = reader.is_alive()
    for writer in writers or [os.open(pipe, os.O_RDWR)]:  # for a reader that waits, the end
        os.close(writer)
    reader.join()
    assert (waited, found) == (False, ["refused"])


def test_a_folder_is_no_text(kept: References) -> None:
    """A folder in the place of a file is refused."""
    (kept.folder / "inputs" / "x.json").mkdir(parents=True)
    assert outcome(kept, "inputs/x.json") == "refused"


def outcome(kept: References, ref: str) -> Any:
    """What is read, or that it was refused."""
    try:
        return kept.get(ref, SHA256)
    except Unreadable:
        return "refused"


def test_a_death_while_writing_leaves_nothing_under_the_name(tmp_path: Path) -> None:
    """Killed before the bytes are on the disk, there is no file that a reference can name."""
    ended = subprocess.run([sys.executable, "-c", CHILD, tmp_path / "kept"], check=False, cwd=HERE)
    assert ended.returncode == -9
    left = files(tmp_path)
    assert left, "it died before it wrote anything"
    assert [name for name in left if not Path(name).name.startswith(".")] == []
    kept = References(tmp_path / "kept")
    stored = kept.put("receipts", {"text": "x" * 100_000})
    assert kept.get(stored.ref, stored.sha256) == {"text": "x" * 100_000}


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_write_leaves_nothing(
    kept: References, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk is raised; what was there before is unchanged, and nothing is new."""
    stored = kept.put("inputs", VALUE)
    before = files(kept.folder)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, call) if call == "fsync" else (Path, call)), fail)
    with pytest.raises(OSError, match="space"):
        kept.put("inputs", {"title": "another"})
    assert files(kept.folder) == before
    assert kept.get(stored.ref, stored.sha256) == VALUE


def test_it_is_on_the_disk_before_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, its folder, and every folder above one that is new are synced, the file first."""
    synced: list[tuple[str, int]] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((str(path.relative_to(tmp_path)), os.fstat(descriptor).st_size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    References(tmp_path / "kept").put("inputs", VALUE)
    (name, size), *folders = synced
    assert (Path(name).parent, size) == (Path("kept/inputs"), len(BYTES))
    assert {folder for folder, _ in folders} >= {"kept/inputs", "kept", "."}
