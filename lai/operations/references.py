"""Inputs and receipts: kept in files, named by their content, referred to by name and hash.

A record of an operation is read by schedulers, shown to people and copied into logs. What
was sent and what came back may be nobody's business there, so the record holds a reference
and a hash, and the text lies in a file that only its owner can read (0600).

Rules that live here and nowhere else:

1. A file's name is the SHA-256 of its bytes, so writing it again changes nothing, and a
   receipt that was swapped or damaged is noticed when it is read.
2. The bytes are the canonical JSON of ``calls.canonical``: the hash of an input here is
   the ``arguments_sha256`` of the call that it came from.
3. A file is whole or not there. It is on disk before ``put`` returns, and before any
   record may mention it.

Several machines share the folder, or each sees only what it stored itself.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from lai.calls import ArgumentsError, canonical, parse_arguments
from lai.operations.records import OperationError
from lai.records import JSON

_REF = re.compile(r"(inputs|receipts)/[A-Za-z0-9][A-Za-z0-9_-]*\.json")


class Unreadable(OperationError):
    """What a reference stands for is not there, or is not what was stored."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a text lies, and the SHA-256 of its bytes in hex."""

    ref: str
    sha256: str


@dataclass(frozen=True, slots=True)
class References:
    """A folder of inputs and receipts; made on first use, 0700."""

    folder: Path

    def put(self, kind: str, value: JSON) -> Reference:
        """Store a JSON object durably under ``inputs`` or ``receipts``."""
        data = canonical(value)
        sha256 = hashlib.sha256(data).hexdigest()
        ref = f"{kind}/{sha256}.json"
        path = self._path(ref)
        changed = [path.parent, *_make(path.parent)]
        hidden = path.with_name(f".{secrets.token_hex(8)}.tmp")
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            hidden.replace(path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        for folder in changed:
            _sync(folder)
        return Reference(ref, sha256)

    def get(self, ref: str, sha256: str) -> JSON:
        """What is stored there; raises :class:`Unreadable` if its hash is another one."""
        path = self._path(ref)
        try:
            data = _read(path)
        except OSError as error:
            raise Unreadable(f"{ref}: {error.strerror}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Unreadable(f"{ref}: its content is not what was stored (another SHA-256)")
        try:
            return parse_arguments(data.decode())
        except (ArgumentsError, ValueError) as error:
            raise Unreadable(f"{ref}: no JSON object") from error

    def _path(self, ref: str) -> Path:
        if not _REF.fullmatch(ref):
            raise Unreadable(f"{ref!r} is no reference: it names inputs/… or receipts/….json")
        return self.folder / ref


def _read(path: Path) -> bytes:
    """The bytes of a plain file; no link is followed, and no pipe waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return file.read()


def _make(folder: Path) -> list[Path]:
    """Make a folder for its owner alone, those above it too; the folders that were changed."""
    if folder.is_dir():
        return []
    changed = [*_make(folder.parent), folder.parent]
    folder.mkdir(mode=0o700, exist_ok=True)
    return changed


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
