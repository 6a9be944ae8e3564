"""03.1a: from the bytes of a session file to its records, whatever a dying process left."""

import io
from collections.abc import Iterator
from random import Random

from lai.course.exercises.model import Case, Exercise, Wrong, slips
from lai.course.exercises.records import TEXT, model_says, user_asks
from lai.lines import Contents, repair_record
from lai.records import Record, encode

QUESTION = """
A process can die at any byte of an append. Read what it left: all records of the file, in order,
and the *torn tail*, the bytes of an append that never finished. A line holds one record (a JSON
object with a `type`) or none; what is no record is left out and stops nobody. A whole record at the
end counts, although its newline is missing.
"""

STUB = '''
import json


def my_read(data):
    """The records in these bytes, and the torn tail: b"" if nothing is torn."""
    raise NotImplementedError
'''

HINTS = """
Split the bytes, not the text: data.split(b'\\n'). The last part is what stands after the last
newline, b'' if there is nothing.

Decode and parse line by line, and catch ValueError: a cut Chinese character raises one, and so
does a cut JSON text.

Only what has no newline can be torn, and only if it is no record. A bad line that ends in its
newline is damage: leave it out and go on.
"""

SOLUTION = '''
import json


def my_read(data):
    """The records in these bytes, and the torn tail: b"" if nothing is torn."""
    *lines, tail = data.split(b"\\n")
    records = [record for line in lines for record in on_line(line)]
    last = on_line(tail)
    return records + last, b"" if last else tail


def on_line(line):
    """The record on a line, in a list; an empty list if there is none."""
    try:
        record = json.loads(line.decode("utf-8"))
    except ValueError:  # no JSON, or not UTF-8
        return []
    return [record] if isinstance(record, dict) and "type" in record else []
'''

SPLITLINES = """
import json


def my_read(data):
    records, torn = [], b""
    for line in data.decode("utf-8", "replace").splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            torn = line.encode()
    return records, torn
"""

WHOLE = "What stands whole on a line is a record, in the order of the file."
ENDS = "A line ends at byte 0x0A and nowhere else; U+2028 and U+0085 stand inside of texts."
UNENDED = "A whole record at the end counts, although its newline is missing."
TORN = "What stands after the last newline and is no record is the torn tail, byte for byte."
DAMAGE = "A bad line that ends in a newline is damage, not a torn tail, and hides no other record."

A, B, C = user_asks(TEXT), model_says("好了 🚀"), user_asks("}\u2029{")
LINES = LINE_A, LINE_B, LINE_C = encode(A), encode(B), encode(C)
CUT = LINE_A[: LINE_A.index("二".encode()) + 1]  # in the middle of a character
SEALED = CUT + b"\x18\n"
REPAIR: Record = repair_record(2, len(LINE_B), CUT)


def _written() -> list[Case]:
    rows = [
        (WHOLE, b"", ([], b"")),
        (WHOLE, LINE_B, ([B], b"")),
        (ENDS, LINE_A + LINE_C + LINE_B, ([A, C, B], b"")),
        (UNENDED, LINE_B + LINE_C[:-1], ([B, C], b"")),
        (TORN, LINE_B + LINE_C[:-2], ([B], LINE_C[:-2])),
        (TORN, LINE_B + b"{", ([B], b"{")),
        (TORN, CUT, ([], CUT)),
        (TORN, LINE_B + b"5", ([B], b"5")),
        (DAMAGE, LINE_B + CUT + b"\n", ([B], b"")),
        (DAMAGE, LINE_B + CUT + b"\n" + LINE_C, ([B, C], b"")),
        (DAMAGE, b"\n" + LINE_B + b"null\n" + LINE_C[:9], ([B], LINE_C[:9])),
        (DAMAGE, LINE_B + SEALED + encode(REPAIR), ([B, REPAIR], b"")),
    ]
    return [Case(rule, (data,), expected) for rule, data, expected in rows]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever is cut where: every whole record is found, and the rest of the tail is torn."
    for _ in range(60):
        parts = list[bytes]()
        for _ in range(chance.randrange(1, 6)):
            line = encode(user_asks(f"{chance.choice(TEXT)}{chance.choice(TEXT)}{len(parts)}"))
            bad = chance.randrange(5) == 0
            parts.append(line[: chance.randrange(len(line) - 1)] + b"\n" if bad else line)
        data = b"".join(parts)
        data = data[: chance.randrange(len(data) + 1)]
        yield Case(rule, (data,), _library(data), made=True)


def _library(data: bytes) -> tuple[list[Record], bytes]:
    contents, torn = Contents(), b""
    for line in io.BytesIO(data):
        if line.endswith(b"\n"):
            contents.feed(line)
        elif not contents.feed_tail(line):
            torn = line
    return contents.records, torn


STOPPING = """    records = []
    for line in lines:
        if not on_line(line):
            return records, line
        records += on_line(line)
"""

WRONG = (
    Wrong("splits the text with splitlines", ENDS, SPLITLINES),
    *slips(
        SOLUTION,
        (
            "stops at the first line that cannot be read",
            DAMAGE,
            ("    records = [record for line in lines for record in on_line(line)]\n", STOPPING),
        ),
        (
            "takes everything without a newline for torn",
            UNENDED,
            ('records + last, b"" if last else tail', "records, tail"),
        ),
        (
            "does not expect half a character",
            TORN,
            ("except ValueError:", "except json.JSONDecodeError:"),
        ),
        (
            "takes every JSON value for a record",
            TORN,
            (' if isinstance(record, dict) and "type" in record else []', ""),
        ),
    ),
)

EXERCISE = Exercise(
    number="03.1a",
    title="Read what a dying process left",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
