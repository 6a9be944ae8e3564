"""03.1b: a line that is not one record. What can be saved, and what may be lost."""

from collections.abc import Iterator
from random import Random

from lai.course.exercises.model import Case, Exercise, Wrong, slips
from lai.course.exercises.records import TEXT, model_says, user_asks
from lai.lines import SEAL, Contents
from lai.records import Record, encode

QUESTION = """
Not every line holds one record. Two appends may be glued together, a lost write leaves NULs, a
torn tail was sealed with byte 0x18. Save every whole record from the line, and say whether a
record may have been *lost* there: then no tool may run until a person has looked. The line comes
without its newline.
"""

STUB = '''
import json


def my_read_line(line):
    """The records on a line, and whether a record may have been lost there."""
    raise NotImplementedError
'''

HINTS = """
json.JSONDecoder().raw_decode(text, at) reads one value that begins at a place and says where it
ends. Go on from there, and step over blanks and NULs in between.

Stop at the first thing that is no record. What comes behind it may be a piece of a text, so it is
not searched.

Decode with 'surrogateescape' and let value_text.encode('utf-8') refuse bytes that are not UTF-8.
Absurdly deep nesting raises RecursionError, which is no ValueError.
"""

SOLUTION = r'''
import json


def my_read_line(line):
    """The records on a line, and whether a record may have been lost there."""
    sealed = line.endswith(b"\x18")
    text = line.removesuffix(b"\x18").decode("utf-8", "surrogateescape")
    records, at = [], 0
    while True:
        while at < len(text) and text[at] in " \t\r\0":
            at += 1
        if at == len(text):
            return records, not records and not sealed
        try:
            record, end = json.JSONDecoder().raw_decode(text, at)
            text[at:end].encode("utf-8")  # bytes that are not UTF-8 make no record
        except (ValueError, RecursionError):
            return records, not sealed
        if not isinstance(record, dict) or "type" not in record:
            return records, not sealed
        records.append(record)
        at = end
'''

ONE = "A line that holds one record has lost nothing."
GLUED = "All whole records of a line count, also if they are glued; then nothing is lost."
FILLER = "Blanks and NULs around whole records are filler and no loss."
NOTHING = "A line without any record may have lost one, also if it is empty."
BROKEN = "What is no record may have been one: what stands in front of it is saved, the rest lost."
INSIDE = "An object inside of a broken one is never a record: it may be a piece of a text."
SEALING = "A sealed tail was never a record that anybody relied on, so nothing is lost there."
NOT_UTF8 = "Bytes that are not UTF-8 make no record."
DEEP = "No line may stop the reader, however deep it is nested."

A, B = user_asks(TEXT), model_says("好了 🚀 }{")
ONE_A, ONE_B = encode(A)[:-1], encode(B)[:-1]


def _written() -> list[Case]:
    rows = [
        (ONE, ONE_A, ([A], False)),
        (GLUED, ONE_A + ONE_B, ([A, B], False)),
        (FILLER, b" " + ONE_A + b"\r", ([A], False)),
        (FILLER, b"\0\0" + ONE_A + b"\0\0\0" + ONE_B, ([A, B], False)),
        (NOTHING, b"", ([], True)),
        (NOTHING, b"\0" * 40, ([], True)),
        (BROKEN, ONE_A[:-1], ([], True)),
        (BROKEN, ONE_A[: ONE_A.index("二".encode()) + 1], ([], True)),
        (BROKEN, ONE_B + ONE_A[:-1], ([B], True)),
        (BROKEN, ONE_B + b"}", ([B], True)),
        (BROKEN, b"5", ([], True)),
        (BROKEN, ONE_A + b"null" + ONE_B, ([A], True)),
        (INSIDE, b'{"type":"x","v":' + ONE_B, ([], True)),
        (INSIDE, ONE_A[:-1] + ONE_B, ([], True)),
        (SEALING, ONE_A[:30] + SEAL, ([], False)),
        (SEALING, ONE_B + ONE_A[:30] + SEAL, ([B], False)),
        (NOT_UTF8, b'{"type":"note","v":"\xff"}', ([], True)),
        (NOT_UTF8, ONE_A + b"\xff", ([A], True)),
        (DEEP, b'{"type":' * 100_000, ([], True)),
    ]
    return [Case(rule, (line,), expected) for rule, line, expected in rows]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "However a line is put together: whole records from its start, then a loss or its end."
    junk = [b"\0", b"\0\0 ", b"\r", b"\t", b"}", b'"', b"[]", b"\xe4\xb9", b'{"type":"x","v":']
    for _ in range(80):
        line = b""
        for _ in range(chance.randrange(1, 5)):
            record = encode(user_asks(chance.choice(TEXT) + str(len(line))))[:-1]
            cut = record[: chance.randrange(1, len(record))]
            line += chance.choice([record, record, record, cut, chance.choice(junk)])
        line += chance.choice([b"", b"", b"", SEAL])
        yield Case(rule, (line,), _library(line), made=True)


def _library(line: bytes) -> tuple[list[Record], bool]:
    contents = Contents()
    contents.feed(line + b"\n")
    return contents.records, bool(contents.lost_lines)


SEARCHING = """except ValueError:
            at = text.find("{", at + 1)
            continue
        except RecursionError:"""

WRONG = (
    Wrong(
        "knows only lines of one record",
        GLUED,
        """
import json


def my_read_line(line):
    try:
        return [json.loads(line)], False
    except (ValueError, RecursionError):
        return [], True
""",
    ),
    *slips(
        SOLUTION,
        (
            "searches the broken rest for objects",
            INSIDE,
            ("    while True:", "    while at >= 0:"),
            ("except (ValueError, RecursionError):", SEARCHING),
            ("        at = end\n", "        at = end\n    return records, not sealed\n"),
        ),
        ("sees a loss in a sealed tail", SEALING, ('line.endswith(b"\\x18")', "False")),
        ("sees a loss in NULs", FILLER, (r'" \t\r\0"', r'" \t\r"')),
        ("sees no loss where nothing stands", NOTHING, ("not records and not sealed", "False")),
        ("repairs what is not UTF-8", NOT_UTF8, ('"surrogateescape"', '"replace"')),
        (
            "does not expect an error from deep nesting",
            DEEP,
            ("except (ValueError, RecursionError)", "except ValueError"),
        ),
    ),
)

EXERCISE = Exercise(
    number="03.1b",
    title="Say what a line may have lost",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
