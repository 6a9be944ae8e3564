"""Lines of a session with their checksums, made and followed without the library."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

JSON = dict[str, Any]
NOTHING = "0" * 12  # what the first line names as the line before it
BOTH = re.compile(rb'"sum":"([0-9a-f]{12})-([0-9a-f]{12})"\}$')
OWN = re.compile(rb'"sum":"[0-9a-f]{12}-([0-9a-f]{12})"\}$')


def line_of(record: JSON) -> bytes:
    """A line without a checksum, as older sessions have them and people write them."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def digest(data: bytes) -> str:
    """Twelve hex digits that no other bytes are likely to have."""
    return hashlib.sha256(data).hexdigest()[:12]


def names(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Each whole line, and what it has to name as the line before it; last, b"" and the next."""
    name, begun = NOTHING, False
    for line in data.split(b"\n")[:-1]:
        yield line, name
        sealed = line.endswith(b"\x18")
        body = line[:-1] if sealed else line.strip(b" \r\0")
        own = OWN.search(body)
        if own:
            name, begun = own[1].decode(), True
        else:
            name = digest((name.encode() if begun else b"") + body)
    yield b"", name


def name_of_last(data: bytes) -> str:
    """What the line behind these lines has to name; every line is taken to be sound."""
    return list(names(data))[-1][1]


def problem(data: bytes) -> str | None:
    """What is wrong with the checksums of a file in which nothing was lost; None if nothing."""
    begun = False
    for number, (line, name) in enumerate(names(data), start=1):
        found = BOTH.search(line)
        if found is None and begun and line and not line.endswith(b"\x18"):
            return f"line {number} has no checksum"
        if found is not None:
            begun = True
            head = line[: found.start(2)]
            if (found[1].decode(), found[2].decode()) != (name, digest(head)):
                return f"line {number} has a wrong checksum"
    return None


def chained(record: JSON, before: str) -> tuple[bytes, str]:
    """A record's line behind the one of that name, and its own name."""
    head = line_of(record)[:-2] + f',"sum":"{before}-'.encode()
    own = digest(head)
    return head + own.encode() + b'"}\n', own


def added(data: bytes, *records: JSON) -> bytes:
    """The file ``data`` after the library has appended these records."""
    name = name_of_last(data)
    for record in records:
        line, name = chained(record, name)
        data += line
    return data


def without(record: JSON) -> JSON:
    """A record as it is handed out."""
    return {name: value for name, value in record.items() if name != "sum"}


def summed_again(data: bytes) -> bytes:
    """The same records with checksums that are right, as if they had been written like this."""
    return added(b"", *(without(json.loads(line)) for line in data.split(b"\n")[:-1]))
