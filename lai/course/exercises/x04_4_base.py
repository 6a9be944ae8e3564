"""04.4: may this attempt write? It must not destroy what somebody else has written meanwhile."""

import hashlib
from collections.abc import Iterator
from itertools import product
from random import Random

from lai.calls import Call
from lai.course.exercises.model import Case, Exercise, slips
from lai.course.exercises.records import ledger_line
from lai.executions import after
from lai.outcome import bases, obstacle
from lai.records import JSON, Record
from lai.tools import Arguments, Effect, Tool

QUESTION = """
An attempt is about to replace a file. The ledger's record of it says which version it may
replace: `base_sha256`, the hash of the bytes that a person saw before the yes, `None` for no
file. On a retry the earlier attempt may have written already, so the wanted content is fine too.
A record without the field (an older file) knows no version: then only a missing file, or one that
holds the wanted content already, may pass unasked. `found` and `wanted` are bytes; `found` is
None where there is no file.
"""

STUB = '''
import hashlib


def my_may_write(found, wanted, record, retry):
    """Whether an attempt with this record may put wanted in the place of found."""
    raise NotImplementedError
'''

HINTS = """
Make a list of the versions that may be replaced, and see whether the version that is there is
among them. A version is a hash, or None for no file.

No file (None) and an empty file (b'') are different, and so are a base of None and no base: ask
whether the field is in the record, not what get() gives.

First attempt: the base alone. Retry: the base and the wanted content. No base on record: no file
and the wanted content, whichever attempt it is.
"""

SOLUTION = '''
import hashlib


def my_may_write(found, wanted, record, retry):
    """Whether an attempt with this record may put wanted in the place of found."""
    if "base_sha256" not in record:
        accepted = [None, version(wanted)]
    elif retry:
        accepted = [record["base_sha256"], version(wanted)]
    else:
        accepted = [record["base_sha256"]]
    return version(found) in accepted


def version(content):
    """The hash of a file's bytes, None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
'''

FIRST = "A first attempt replaces the version that a person saw, and no other."
RETRY = "A retry may find the base, or what the attempt before it has written already."
MOVED = "What somebody else wrote meanwhile is never destroyed unasked."
ABSENT = "A base of None means that there was no file; an empty file is a file."
OLD = "Without a base on record only a missing file, or the wanted content, passes unasked."

WANTED, BASE, OTHER = "新的".encode(), "旧的".encode(), "别人的".encode()
NO_BASE = "none"


def _hash(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _record(base: bytes | str | None) -> Record:
    known: JSON = {} if isinstance(base, str) else {"base_sha256": _hash(base)}
    return ledger_line("exec_1", "call_1", "running", **known)


def _said(found: bytes | None, wanted: bytes, base: bytes | str | None) -> str:
    words = [
        value if isinstance(value, str) else "no file" if value is None else repr(value.decode())
        for value in (found, wanted, base)
    ]
    return "in words: found {}, wanted {}, base on record {}".format(*words)


def _written() -> list[Case]:
    first, retry = False, True
    rows: list[tuple[str, bytes | None, bytes | str | None, bool, bool]] = [
        (FIRST, BASE, BASE, first, True),
        (FIRST, WANTED, BASE, first, False),
        (FIRST, None, BASE, first, False),
        (RETRY, BASE, BASE, retry, True),
        (RETRY, WANTED, BASE, retry, True),
        (MOVED, OTHER, BASE, first, False),
        (MOVED, OTHER, BASE, retry, False),
        (MOVED, OTHER, None, retry, False),
        (MOVED, None, BASE, retry, False),
        (ABSENT, None, None, first, True),
        (ABSENT, b"", None, first, False),
        (ABSENT, WANTED, None, first, False),
        (ABSENT, WANTED, None, retry, True),
        (ABSENT, None, b"", first, False),
        (OLD, None, NO_BASE, first, True),
        (OLD, WANTED, NO_BASE, first, True),
        (OLD, OTHER, NO_BASE, first, False),
        (OLD, BASE, NO_BASE, retry, False),
        (OLD, WANTED, NO_BASE, retry, True),
    ]
    return [
        Case(rule, (found, WANTED, _record(base), again), may, _said(found, WANTED, base))
        for rule, found, base, again, may in rows
    ]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever is there, wanted and on record: only an expected version is replaced."
    del chance  # all combinations are few enough
    contents = (None, b"", BASE, WANTED)
    wanted = ("", "新的\u2028🚀")
    for found, base, text, retry in product(contents, (*contents, NO_BASE), wanted, (False, True)):
        given = (found, text.encode(), _record(base), retry)
        note = _said(found, text.encode(), base)
        yield Case(rule, given, _library(*given), note, made=True)


def _library(found: bytes | None, wanted: bytes, record: Record, retry: bool) -> bool:
    """A tool that sees this file; both ways in which the library looks at a target must agree."""
    tool = Tool(
        name="write_file",
        description="",
        arguments=Arguments,
        run=lambda *_: {},
        effect=Effect.IDEMPOTENT,
        version=lambda _: _hash(found),
        wanted=lambda _: str(_hash(wanted)),
    )
    execution = after(record, 1, None, Call(1, 0, "call_1", "write_file", "{}"))
    accepted = bases(tool, {}, execution, retry=retry) or {None, _hash(wanted)}
    may = _hash(found) in accepted
    if retry and may is not (obstacle(tool, {}, execution, 0.0) == {}):
        raise AssertionError("the library looks at the same file in two ways")
    return may


WRONG = slips(
    SOLUTION,
    ("never looks", FIRST, ("return version(found) in accepted", "return True")),
    (
        "lets a retry write whatever is there",
        MOVED,
        ("return version(found) in accepted", "return retry or version(found) in accepted"),
    ),
    (
        "takes no base on record for a base of no file",
        OLD,
        ('if "base_sha256" not in record', "if False"),
        ('[record["base_sha256"], version', '[record.get("base_sha256"), version'),
        ('[record["base_sha256"]]', '[record.get("base_sha256")]'),
    ),
    (
        "takes a base of no file for no base on record",
        ABSENT,
        ('"base_sha256" not in record', 'record.get("base_sha256") is None'),
    ),
    ("takes an empty file for no file", ABSENT, ("content is None", "not content")),
    (
        "stops a retry whose first attempt has written",
        RETRY,
        ('    elif retry:\n        accepted = [record["base_sha256"], version(wanted)]\n', ""),
    ),
    ("lets a first attempt pass over what it wants", FIRST, ("elif retry:", "elif True:")),
)

EXERCISE = Exercise(
    number="04.4",
    title="Do not destroy what has moved",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
