"""03.2: the arguments of a tool call, read so strictly that nobody can read them otherwise."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from lai.calls import ArgumentsError, parse_arguments
from lai.course.exercises.model import Case, Exercise, Raises, Wrong, answer, slips
from lai.course.exercises.records import TEXT

QUESTION = """
A model writes the arguments of a tool call as text. A reader that shrugs would approve one thing
and run another. Return the JSON object that the text holds, or raise `ArgumentsError`, the one
error that the agent turns into a plain answer for the model. A key that stands twice, NaN and
everything else that two readers may understand differently is refused.
"""

STUB = '''
import json

from lai import ArgumentsError


def my_parse_arguments(text):
    """The arguments as a dict. Raises ArgumentsError for what is not one plain JSON object."""
    raise NotImplementedError
'''

HINTS = """
json.loads has two hooks: object_pairs_hook sees the pairs of every object, parse_constant sees
NaN, Infinity and -Infinity.

Some values pass both hooks: 1e999 is read as infinity, and '\\ud800' as half a character. Write
the value again, with allow_nan=False and in UTF-8: what cannot be written is refused.

Catch ValueError and RecursionError around all of it, and raise ArgumentsError instead.
"""

SOLUTION = '''
import json

from lai import ArgumentsError


def my_parse_arguments(text):
    """The arguments as a dict. Raises ArgumentsError for what is not one plain JSON object."""
    try:
        value = json.loads(text, object_pairs_hook=unique)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentsError("not an object")
    return value


def unique(pairs):
    """The object that these pairs make."""
    if len(dict(pairs)) < len(pairs):
        raise ArgumentsError("a key stands twice")
    return dict(pairs)
'''

PLAIN = "A JSON object is returned as it stands; blanks around it do not matter."
OBJECT = "Arguments are one JSON object; a list, a text, a number or nothing at all is refused."
JSON_ONLY = "What is not JSON is refused with ArgumentsError, the one error that the agent expects."
TWICE = (
    "A key that stands twice in one object is refused, at every depth and however it is written."
)
NUMBERS = "NaN and infinity are not JSON, also not in disguise."
HALF = "Half of a character can be read but never sent on, so it is refused."
DEEP = "Nesting without end is refused like anything else that cannot be read."
NO = Raises(ArgumentsError)


def _written() -> list[Case]:
    rows: list[tuple[str, str, Any]] = [
        (PLAIN, "{}", {}),
        (PLAIN, ' {"路": "书\u2028\u0085🚀"}\n', {"路": "书\u2028\u0085🚀"}),
        (PLAIN, '{"a": {"x": 1}, "b": {"x": [1e2, true, null]}}',
         {"a": {"x": 1}, "b": {"x": [100.0, True, None]}}),
        (PLAIN, '{"a": "\\ud83d\\ude80"}', {"a": "🚀"}),
        (OBJECT, "[1]", NO), (OBJECT, '"书"', NO), (OBJECT, "null", NO), (OBJECT, "5", NO),
        (JSON_ONLY, "", NO),
        (JSON_ONLY, '{"path": "笔记', NO),
        (JSON_ONLY, '{"a": 1} {"b": 2}', NO),
        (JSON_ONLY, "{'a': 1}", NO),
        (JSON_ONLY, '{"a": "\n"}', NO),
        (JSON_ONLY, '\ufeff{"a": 1}', NO),
        (JSON_ONLY, '{"a": ' + "9" * 5_000 + "}", NO),
        (TWICE, '{"path": "a.txt", "path": "b.txt"}', NO),
        (TWICE, '{"x": [{"a": 1, "a": 1}]}', NO),
        (TWICE, '{"a": 1, "\\u0061": 2}', NO),
        (NUMBERS, '{"a": NaN}', NO),
        (NUMBERS, '{"a": [-Infinity]}', NO),
        (NUMBERS, '{"a": {"b": 1e999}}', NO),
        (HALF, '{"a": "\\ud800"}', NO),
        (HALF, '{"\\udfff": 1}', NO),
        (DEEP, '{"a":' * 100_000 + "1" + "}" * 100_000, NO),
    ]  # fmt: skip
    return [Case(rule, (text,), expected) for rule, text, expected in rows]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever the object: its text gives it back, and a doubled key or a cut is refused."
    for _ in range(60):
        text = json.dumps(_some_object(chance, 3), ensure_ascii=chance.choice([True, False]))
        match chance.randrange(4):
            case 0:
                text = text[: chance.randrange(len(text))]
            case 1:
                text = text.replace('"k1"', '"k0"')
        yield Case(rule, (text,), answer(parse_arguments, text), made=True)


def _some_object(chance: Random, depth: int) -> dict[str, Any]:
    def value() -> Any:
        kind = chance.randrange(5 if depth else 3)
        if kind < 3:
            return [chance.choice(TEXT) * 2, chance.randrange(-9, 99), None][kind]
        return _some_object(chance, depth - 1) if kind == 3 else [value() for _ in range(2)]

    return {chance.choice(["k", "书", "\u2028"]) + str(n): value() for n in range(2)}


WRONG = (
    Wrong(
        "is content with json.loads",
        TWICE,
        """
import json

from lai import ArgumentsError


def my_parse_arguments(text):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(str(error)) from error
    if not isinstance(value, dict):
        raise ArgumentsError("not an object")
    return value
""",
    ),
    *slips(
        SOLUTION,
        (
            "goes on with nothing if it cannot read",
            JSON_ONLY,
            ('raise ArgumentsError(f"not JSON: {error}") from error', "return {}"),
        ),
        ("takes any JSON value", OBJECT, ("not isinstance(value, dict)", "False")),
        ("lets NaN and infinity pass", NUMBERS, ("allow_nan=False, ", "")),
        (
            "refuses NaN, but not 1e999 or half a character",
            NUMBERS,
            ("=unique)", "=unique, parse_constant=refuse)"),
            (
                '        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")\n',
                "",
            ),
            ("def unique", "def refuse(name):\n    raise ArgumentsError(name)\n\n\ndef unique"),
        ),
        (
            "lets Python's own errors out",
            JSON_ONLY,
            ("(ValueError, RecursionError)", "ArgumentsError"),
        ),
    ),
)

EXERCISE = Exercise(
    number="03.2",
    title="Read arguments strictly",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=parse_arguments,
    written=_written,
    generated=_generated,
)
