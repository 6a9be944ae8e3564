"""What a command printed: as much as is worth keeping, and the truth about the rest.

A command may print more than memory, disk and context can hold. So nothing is collected
whole: bytes go from a pipe to an artifact file, and what memory keeps of them has a fixed
size.

Rules that live here and nowhere else:

1. The artifact, ``.agent_state/artifacts/<execution_id>.log``, keeps the first 64 MiB. It
   is for reading on, not evidence: a full disk costs the artifact, not the command.
2. The result shows the first 4 KiB and the last 16 KiB of all that was printed, less where
   the model's window is small, with a line between them that says how many bytes are left
   out and where to find them.
3. The rest is read and dropped, because a full pipe that nobody reads stops the command.
4. Bytes that are not UTF-8 are shown as U+FFFD, but our own cuts never make any.

It does not know commands, processes or time.
"""

import os
import select
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lai import bounds, paths
from lai.records import JSON

HEAD, TAIL = 4 * 1024, 16 * 1024
BESIDE = (  # what else stands in a result, as long as it gets
    '{"status": "unknown", "execution_id": "exec_0123456789abcdef0123456789abcdef", "message": '
    '"the command was killed after 60 s; what it did until then stays done", "exit_code": null, '
    '"output": "", "omitted_bytes": 12345678, "truncated": true, "artifact_path": "", '
    '"timed_out": true, "children_left": 10, "sandbox": "bubblewrap", '
    '"may_still_run": [' + ", ".join(["1234567"] * 10) + "]}"
)
DISK_LIMIT = 64 * 1024 * 1024
CONTINUATION = range(0x80, 0xC0)  # goes on with a UTF-8 character, never starts one
PIPE = 64 * 1024  # what a pipe holds: one read takes all that an ended writer left in it


@dataclass(slots=True)
class Output:
    """A pipe to print into, and what came through it. The one mutable thing of this tool."""

    source: int
    sink: int
    file: int
    path: str
    stored: int = 0
    total: int = 0
    head: bytes = b""
    tail: bytes = b""
    full: bool = False

    @classmethod
    def create(cls, root: Path, execution_id: str) -> "Output":
        """A new artifact and an empty pipe. Raises OSError or ToolError."""
        (name,) = paths.split(f"{execution_id}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with paths.folder(root, paths.ARTIFACTS, make=0o700) as (here, _):
            file = os.open(name, flags, 0o600, dir_fd=here)
        source, sink = os.pipe()
        return cls(source, sink, file, "/".join((*paths.ARTIFACTS, name)))

    def copy(self, seconds: float) -> bool:
        """Take what is printed, waiting at most so long. False: nobody can print any more."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        if not poll.poll(max(0.0, seconds) * 1000):
            return True
        chunk = os.read(self.source, PIPE)
        self._add(chunk)
        return bool(chunk)

    def copy_to_the_end(self) -> None:
        """For a thread of its own: read on for processes that outlive the call."""
        while self.copy(60):
            pass
        self.close()

    def close(self) -> None:
        """Stop reading. Who prints from now on is told so by the system."""
        os.close(self.source)
        with suppress(OSError):  # some disks tell only now that they were full
            os.close(self.file)

    def _add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self.head += chunk[: HEAD - len(self.head)]
        self.tail = (self.tail + chunk)[-TAIL:]
        if self.full:
            return
        fitting = chunk[: DISK_LIMIT - self.stored]
        if len(fitting) < len(chunk):
            self.full, fitting = True, whole_characters(fitting)
        try:
            while fitting:
                written = os.write(self.file, fitting)
                self.stored, fitting = self.stored + written, fitting[written:]
        except OSError:
            self.full = True

    def shown(self, room: bounds.Room = bounds.RESULT) -> JSON:
        """The fields of a result that tell what was printed, in the ``room`` for a result."""
        space = room.beside(BESIDE + self.path + self._between(self.total))
        head, tail = self._ends(space)
        omitted = self.total - len(head) - len(tail)
        between = self._between(omitted) if omitted else ""
        return {
            "output": head.decode("utf-8", "replace") + between + tail.decode("utf-8", "replace"),
            "omitted_bytes": omitted,
            "truncated": omitted > 0,
            "artifact_path": self.path,
        }

    def _between(self, omitted: int) -> str:
        where = f"the first {self.stored} bytes are" if self.full else "everything is"
        return f"\n[... {omitted} bytes left out here; {where} in {self.path} ...]\n"

    def _ends(self, space: bounds.Room) -> tuple[bytes, bytes]:
        """What is shown of the beginning and of the end; all at once if nothing is left out."""
        before_tail = self.total - len(self.tail)
        if self.total <= HEAD + TAIL:
            whole = self.head[:before_tail] + self.tail
            if space.share(_text(whole)) <= 1:
                return whole, b""
        head = whole_characters(self.head)
        tail = _from_a_character(self.tail[max(0, len(head) - before_tail) :])
        if space.share(_text(head)) + space.share(_text(tail)) > 1:
            head = _bytes(bounds.head(_text(head), space.part(1 / 5)))
            rest = _from_a_character(self.tail[max(0, len(head) - before_tail) :])
            tail = _bytes(bounds.tail(_text(rest), space.part(4 / 5)))
        return head, tail


def whole_characters(data: bytes) -> bytes:
    """``data`` without a UTF-8 character that begins but does not end in it."""
    for back, byte in enumerate(reversed(data[-4:]), start=1):
        if byte not in CONTINUATION:
            needed = 1 + sum(byte >= first for first in (0xC0, 0xE0, 0xF0))
            return data if needed <= back else data[:-back]
    return data


def _text(data: bytes) -> str:
    """``data`` with a character for each byte that is none, so that no byte is lost."""
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _from_a_character(data: bytes) -> bytes:
    starts = (n for n, byte in enumerate(data[:4]) if byte not in CONTINUATION)
    return data[next(starts, 0) :]
