"""04.2a: one form for arguments, so that one hash says whether two requests are the same."""

import hashlib
import math
from collections.abc import Iterator
from random import Random
from typing import Any

from lai.calls import arguments_sha256
from lai.course.exercises.model import Case, Exercise, Raises, answer, slips
from lai.course.exercises.records import TEXT

QUESTION = """
`arguments_sha256` is the check that what was approved is what runs. The order of the keys must
not count and everything else must. Write the arguments in one fixed form: JSON with sorted keys
at every level, no blanks, non-ASCII characters as they are, in UTF-8. The hash is SHA-256 in hex.
What has no such form (NaN, half of a character) raises `ValueError`.
"""

STUB = '''
import hashlib
import json


def my_arguments_sha256(arguments):
    """SHA-256, in hex, of the arguments in their canonical form."""
    raise NotImplementedError
'''

HINTS = """
json.dumps has a setting for each part of the form: sort_keys, separators, ensure_ascii.

By default json.dumps puts a blank behind every comma and colon, writes 书 as \\u4e66, and writes
NaN although JSON has none (allow_nan).

Encoding half of a character in UTF-8 raises UnicodeEncodeError, which is a ValueError.
"""

SOLUTION = '''
import hashlib
import json


def my_arguments_sha256(arguments):
    """SHA-256, in hex, of the arguments in their canonical form."""
    text = json.dumps(
        arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
'''

KNOWN = "The hash is taken of the canonical form, as published."
ORDER = "The order of the keys does not count, at any level."
AS_IT_IS = "Non-ASCII characters stand in the form as they are, in UTF-8."
DIFFERENT = "Nothing is normalised: what a tool would see as different has another hash."
NO_FORM = "What has no canonical form raises ValueError; it gets no hash."
HELLO = '{"content":"hello ledger","path":"ledger-demo.txt"}'  # 316b7a5c…, as published


def _written() -> list[Case]:
    """The arguments, and their form written out by hand; the hash is taken of that."""
    rows = [
        (KNOWN, {"content": "hello ledger", "path": "ledger-demo.txt"}, HELLO),
        (KNOWN, {}, "{}"),
        (ORDER, {"path": "ledger-demo.txt", "content": "hello ledger"}, HELLO),
        (ORDER, {"b": 1, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":1}'),
        (ORDER, {"n": [{"b": 1, "a": 2}]}, '{"n":[{"a":2,"b":1}]}'),
        (AS_IT_IS, {"路": "书\u2028\u0085🚀"}, '{"路":"书\u2028\u0085🚀"}'),
        (DIFFERENT, {"v": "\u00e9"}, '{"v":"\u00e9"}'),
        (DIFFERENT, {"v": "e\u0301"}, '{"v":"e\u0301"}'),
        (DIFFERENT, {"v": "1"}, '{"v":"1"}'),
        (DIFFERENT, {"v": [1, 1.0, True, None]}, '{"v":[1,1.0,true,null]}'),
        (DIFFERENT, {"v": 2**64 + 1}, '{"v":18446744073709551617}'),
    ]
    cases = [
        Case(rule, (given,), _sha256(form), f"its form: {form!r}") for rule, given, form in rows
    ]
    none: list[dict[str, Any]] = [
        {"v": math.nan}, {"v": [-math.inf]}, {"v": "\ud800"}, {"\udc00": 1}
    ]  # fmt: skip
    return cases + [Case(NO_FORM, (given,), Raises(ValueError)) for given in none]


def _sha256(form: str) -> str:
    return hashlib.sha256(form.encode("utf-8")).hexdigest()


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever the arguments: one form, and its hash."
    for _ in range(60):
        arguments = _some_object(chance, 2)
        yield Case(rule, (arguments,), answer(arguments_sha256, arguments), made=True)


def _some_object(chance: Random, depth: int) -> dict[str, Any]:
    names = [f"{chance.choice('aAzé书🚀')}{n}" for n in range(chance.randrange(4))]
    return {name: _value(chance, depth) for name in names}


def _value(chance: Random, depth: int) -> Any:
    if depth and chance.randrange(2):
        return _some_object(chance, depth - 1)
    plain = [chance.choice(TEXT), "", 'a"\\/\n\x7f', True, None, 2**64 + 1, -0.0, 1e22, math.nan]
    return plain[chance.randrange(len(plain))]


WRONG = slips(
    SOLUTION,
    ("lets the order of the keys count", ORDER, ("sort_keys=True, ", "")),
    ("leaves the blanks in", KNOWN, ('separators=(",", ":"), ', "")),
    ("writes everything in ASCII", AS_IT_IS, ("ensure_ascii=False, ", "")),
    ("hashes NaN", NO_FORM, (", allow_nan=False", "")),
    (
        "sorts the outer keys only",
        ORDER,
        ("        arguments, ", "        dict(sorted(arguments.items())), "),
        ("sort_keys=True, ", ""),
    ),
    (
        "normalises the text first",
        DIFFERENT,
        ("import json\n", "import json\nimport unicodedata\n"),
        ("text.encode", 'unicodedata.normalize("NFC", text).encode'),
    ),
    ("replaces what UTF-8 cannot hold", NO_FORM, ('"utf-8"', '"utf-8", "replace"')),
)

EXERCISE = Exercise(
    number="04.2a",
    title="One form, one hash",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=arguments_sha256,
    written=_written,
    generated=_generated,
)
