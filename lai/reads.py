"""What the model knows of a file, and in which lines that differs from what is there.

A whole file is replaced by one call, written by a model that read it some time ago. Whoever
changed it in between would lose that change without a word; so a person is shown it first.

Rules that live here and nowhere else:

1. The model knows what stands in the conversation as it has it now: the pages of its last
   reading, or what it wrote itself. What a compaction took away it has not read.
2. Pages that follow on each other are one reading. A page from elsewhere begins another.
3. What differs is said with its lines, and where lines cannot be compared, why not.

It does not open files: ``workspace`` does, and says what is there now.
"""

import difflib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lai.calls import ArgumentsError, parse_arguments
from lai.records import JSON

DIFF_LIMIT = 128 * 1024  # finding differences takes time with the square of the length
DIFF_WORK = 4_000_000  # lines times lines: comparing takes that long at worst


@dataclass(frozen=True, slots=True)
class Known:
    """Bytes of a file that the model has seen, from ``start`` on; ``whole``: all of them."""

    data: bytes
    start: int
    whole: bool

    def of(self, now: bytes) -> bytes:
        """The same place of the file as it is now."""
        return now if self.whole else now[self.start :][: len(self.data)]


def known(messages: Iterable[JSON], path: str) -> Known | None:
    """What the model last read or wrote of the file; None if nothing."""
    found = None
    for arguments, result in _answered(messages):
        if result.get("path") != path:
            continue
        match arguments, result:
            case {"content": str(text)}, {"bytes_written": int()}:
                found = Known(text.encode(), 0, whole=True)
            case _, {"content": str(text), "truncated": bool(more)}:
                found = _read_on(found, text.encode(), arguments.get("offset", 0), more=more)
    return found


def since(seen: Known | None, now: bytes | None, path: str) -> JSON:
    """What a person should know before the file is replaced; empty if there is nothing.

    ``now`` is the file as it is, or its beginning as far as it is needed; None if there is
    none. ``read`` says what the model has not read, ``changed_since_read`` what has changed.
    """
    if seen is None:
        return {} if now is None else {"read": "the model has not read what it would replace"}
    told = {}
    if not seen.whole:
        end = seen.start + len(seen.data)
        told["read"] = f"the model has read bytes {seen.start} to {end} alone"
    if now is None:
        told["changed_since_read"] = "the file is gone"
    elif seen.of(now) != seen.data:
        told["changed_since_read"] = difference(seen.data, seen.of(now), path, ("read", "now"))
    return told


def difference(old: bytes, new: bytes, path: str, names: tuple[str, str]) -> str:
    """The lines that differ, as a unified diff; or why it was not computed."""
    if max(len(old), len(new)) > DIFF_LIMIT:
        return f"(not computed: a side is longer than {DIFF_LIMIT} bytes)"
    try:
        # Split at "\n" only: other characters that look like line ends are content.
        before, after = (part.decode("utf-8").split("\n") for part in (old, new))
    except UnicodeDecodeError:
        return f"(not computed: the {len(old)} bytes that are there now are not UTF-8)"
    if len(before) * len(after) > DIFF_WORK:
        return f"(not computed: {len(before)} and {len(after)} lines are too many to compare)"
    old_name, new_name = (f"{path} ({name})" for name in names)
    lines = difflib.unified_diff(before, after, old_name, new_name, lineterm="")
    return "\n".join(lines) or "(no difference)"


def _read_on(found: Known | None, data: bytes, start: int, *, more: bool) -> Known:
    if found and not found.whole and start == found.start + len(found.data):
        start, data = found.start, found.data + data
    return Known(data, start, whole=start == 0 and not more)


def _answered(messages: Iterable[JSON]) -> Iterator[tuple[JSON, JSON]]:
    """The arguments and the result of each answered call, in the order of the answers."""
    asked: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = call["function"].get("arguments", "")
        arguments = asked.pop(message.get("tool_call_id", ""), None)
        if message["role"] == "tool" and arguments is not None:
            yield from _pair(arguments, message["content"])


def _pair(arguments: str, content: Any) -> Iterator[tuple[JSON, JSON]]:
    try:
        result = json.loads(content)
        if isinstance(result, dict):
            yield parse_arguments(arguments), result
    except (ArgumentsError, TypeError, ValueError):
        return
