"""The append-only session file: durable appends, torn tails, damage, one writer.

Rules that live here and nowhere else:

1. Append = encode, write, fsync, and only then memory. What memory holds, the disk holds.
2. After a failed write or fsync this process appends nothing more: a second fsync may
   report success for bytes that were dropped. Reopening reads what is really there.
3. Nothing is ever cut from the file or rewritten in it. A torn tail is sealed where it
   stands; a damaged line stays, is reported with its place, and waits for a person.
4. One writer. The lock is held by the operating system, so a process that dies lets it
   go; a local disk is assumed (network file systems keep no such promise).

It does not know what records mean: any object of a known shape is as good as another.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from lai.checksums import KEY, chained
from lai.lines import SEAL, repair_record
from lai.logfile import LogFile
from lai.records import Record, RecordError, encode
from lai.storage import (
    SessionError,
    SessionFailed,
    SessionLocked,
    claim,
    lock,
    make_folder,
    open_own,
    require_own,
    sync_names,
)


class Session(LogFile):
    """One conversation = one file: what it holds, and the one way to add to it.

    Use ``Session.open(path)`` as a context manager, or ``Session.read(path)``.
    ``records`` are the objects as on disk, in order; ``damage`` is what is not one.
    """

    def __init__(self, path: Path, fsync: Callable[[int], None] = os.fsync) -> None:
        super().__init__(path)
        self._fsync = fsync
        self._fd: int | None = None
        self._lock_fd: int | None = None
        self._refuses: str | None = "it is not open for appending"
        self._process = 0
        self._busy = threading.Lock()

    @classmethod
    def open(cls, path: Path | str, *, fsync: Callable[[int], None] = os.fsync) -> Self:
        """Open for appending: create if missing, take the lock, mend a torn tail.

        Raises :class:`SessionLocked` if another process has it, :class:`SessionError` for
        whatever the file system refuses. Damage is no error here; see ``damage``.
        """
        session = cls(Path(path), fsync)
        session.start()
        return session

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read without lock and without changing a byte; such a session takes no appends."""
        session = cls(Path(path))
        try:
            tail = session._load(everything=True)
        except OSError as cause:
            raise SessionError(f"cannot read {path}: {cause.strerror or cause}") from cause
        if tail:
            session.recent.feed_tail(tail)
        return session

    def append(self, record: Record) -> int:
        """Make ``record`` durable and return its line.

        Raises RecordError, with nothing written, for what has no JSON form, and
        :class:`SessionFailed` when the disk refuses: then nothing more is appended.
        """
        return self._write(b"", self._line(record))

    def acknowledge(self, line: int) -> None:
        """Record that a person knows of the damage on ``line``; nothing of it is removed."""
        self.append(repair_record(line, *self.raw(line)))

    @contextmanager
    def working(self) -> Iterator[None]:
        """One thread at a time, and none within another: ``running`` is to mean interrupted."""
        if not self._busy.acquire(blocking=False):
            raise SessionLocked(
                f"the session {self.path} is at work in this process, in another thread or around "
                "this very call; wait until that has returned"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _require_same_file(self, descriptor: int) -> None:
        """What is written must be found again, and must follow what this process has read."""
        status = os.fstat(descriptor)
        if status.st_nlink == 0:
            self._refuses = "its file was removed or replaced"
        elif status.st_size != self.recent.end:
            self._refuses = "somebody else wrote to its file"
        elif os.getpid() != self._process:
            self._refuses = "it was opened by the process before the fork"
        self.require_writable()

    def require_writable(self) -> None:
        """Raise :class:`SessionFailed` if nothing more can be appended here."""
        if self._refuses or self._fd is None:
            raise SessionFailed(
                f"{self.path}: line {self.last_line + 1} was not written: {self._refuses}; "
                "open the session again"
            )

    def distrust(self, reason: str) -> None:
        """Take no further appends: somebody's memory may be behind the file."""
        self._refuses = reason

    def close(self) -> None:
        """Let the file and the lock go. Closing twice is harmless."""
        for fd in (self._fd, self._lock_fd):
            if fd is not None:
                with suppress(OSError):  # what was promised is on the disk already
                    os.close(fd)
        self._fd = self._lock_fd = None
        self._refuses = "it is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Take the lock, read the file, mend its tail. ``open`` calls this; nobody else need."""
        try:
            self._open()
        except (OSError, ValueError) as cause:
            self.close()
            why = getattr(cause, "strerror", None) or cause
            raise SessionError(
                f"cannot open the session {self.path}: {why}; check that it "
                "is a file in a folder that exists, is yours and has room"
            ) from cause
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        make_folder(self.path.parent, self._fsync)
        require_own(self.path.parent)
        self._lock_fd = lock(self.path)
        self._fd = open_own(self.path, os.O_APPEND)
        claim(self._fd, self.path, "")  # another name of the same file has another lock beside it
        tail = self._load(everything=False)
        self._process = os.getpid()
        # The process before may have died ahead of its fsync: what was read here, and the
        # names it was read under, must not be able to vanish once something is done about it.
        self._fsync(self._fd)
        sync_names(self.path, self._fsync)
        self._refuses = None
        if tail:
            self._mend(tail)

    def _mend(self, tail: bytes) -> None:
        if self.recent.feed_tail(tail):
            self._write(b"\n", b"")
            return
        torn = self.recent.damage[-1]
        record = repair_record(torn.line, torn.offset, tail)
        self._write(SEAL + b"\n", self._line(record))

    def _line(self, record: Record) -> bytes:
        line = encode(record)
        if KEY in record:
            raise RecordError(f"this record cannot be written: {KEY!r} is the file's own key")
        return chained(line, self.recent.chain.last)

    def _write(self, mend: bytes, line: bytes) -> int:
        """Bytes first, then memory; whatever stops this in between stops all later appends."""
        self.require_writable()
        assert self._fd is not None
        self._require_same_file(self._fd)
        self._refuses = "an earlier append did not finish"
        try:
            rest = memoryview(mend + line)
            while rest:  # a regular file takes all at once unless the disk is full
                rest = rest[os.write(self._fd, rest) :]
            self._fsync(self._fd)
        except OSError as cause:
            raise SessionFailed(
                f"{self.path}: line {self.last_line + 1} may not be on disk: "
                f"{cause.strerror or cause}; nothing more is written until the session is opened "
                "again"
            ) from cause
        self._remember(mend, line)
        self._refuses = None
        self._require_same_file(self._fd)  # where locks mean nothing: nobody came in between
        return self.last_line
