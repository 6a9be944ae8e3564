"""About how many tokens a text is, without a tokenizer.

What a provider reports is the truth; this is for what no provider has counted yet. It is
measured against ``o200k_base``, which cuts a text into pieces by a public rule and spells each
piece with tokens. Here the pieces are cut alike, and each costs what its kind and length cost
on average. ``tests/bench/bench_tokens.py`` prints the measurement.

Rules that live here and nowhere else:

1. Too many is the safe side: it aims at 1.16 times the count. But for rule 3, a text is at
   0.95 to 1.4 times from 300 characters on in English, Chinese, code, JSON, logs, base64, hex,
   and 0.8 to 2 times in other scripts, in digits and in long runs of one character.
2. A piece's cost depends on the piece alone: a whole costs what its parts cost, but for less
   than 24 tokens at a seam, and time is linear in the text.
3. Nothing is looked up, so a rare word costs what a common one does: lists of cryptic names,
   dense regular expressions and generated tables in minified code come out at 0.7 to 0.95,
   the newest emoji and Braille at 0.6, tables of rare characters at 0.4.
"""

import json
import re
from itertools import chain
from math import ceil
from typing import Any

from lai.records import JSON, Message

# One character many times over: a piece, and this share of a token for each character.
RUN = re.compile(r"([\0!-/:-~\t\r\n\xa0\u3000─━═—…█▄])\1{7,}|( |\r\n)\2{15,}")
RUN_SHARES = {
    " ": 1 / 100,  # one token holds up to 128 spaces
    "\r\n": 1 / 8,
    **dict.fromkeys("-=_*#./%+~", 1 / 40),  # 32 to 64 of what draws lines
    **dict.fromkeys("\t\n!:;<>?@AFX^aflox\xa0\u3000─━═—…", 1 / 10),  # 8 to 16 of these
}
RUN_SHARE = 0.45  # 2 to 4 of any other

_SIGN = r"[!-/:-@\[-`{-~]"  # ASCII that is neither letter, digit nor space
_ONE = rf"(?:{_SIGN}|\t)?"  # one sign before a word belongs to its piece

# A kind of piece, tried in this order: its first token, more for each character beyond `free`.
KINDS = [
    # pattern, first, more, free
    (rf"(?: |{_ONE})(?:[A-Z]*[a-z]{{20,}}|[A-Z]{{16,}})", 0, 0.55, 0),  # no word: 0.53 to 0.59
    (r" [A-Z]?[a-z]+(?:'(?:[stmd]|re|ve|ll)\b)?", 1.12, 0.075, 6),  # mostly one token
    (r" [A-Z]+[a-z]*", 1.05, 0.11, 4),  # THE
    (rf"{_ONE}[a-z]+", 1.22, 0.14, 4),  # without its space a word is known less often
    (rf"{_ONE}[A-Z][a-z]+", 1.12, 0.04, 4),  # a CamelCase part, mostly known
    (rf"{_ONE}[A-Z]{{2,}}[a-z]+", 1.4, 0.56, 2),  # HTTPServer, but base64 more often
    (rf"{_ONE}[A-Z]+", 1.75, 0, 0),  # CONSTANTS
    (r"[0-9]{1,3}", 1, 0, 0),  # exact: digits go by threes
    (r"[\u3000-\u303f\uff00-\uffef]+", 0, 0.96, 0),  # ，。「」: 0.83 each
    (r"[\u2e80-\uabff\uf900-\ufaff]+", 0, 0.87, 0),  # Chinese: 0.65 to 0.9 each
    (r"[\uac00-\ud7ff]+", 0.3, 0.5, 0),  # Korean: two syllables or so a token
    (r" ?[\u0370-\u052f]+", 0.4, 0.21, 0),  # Russian, Greek: two tokens a word
    (r" ?[\u0530-\u1dff]+", 0, 0.36, 0),  # Arabic 0.3, Thai 0.4 a character
    (r"[\u00c0-\u024f\u1e00-\u1eff]+", 0, 0.6, 0),  # ä, é, ł: they also cut their word in two
    (rf" ?{_SIGN}+[\r\n]{{0,4}}", 1.3, 0.4, 3),  # "): is one token, a regular expression many
    (r"[ \t\r\n\xa0]*[\r\n]+|[ \t\xa0]+(?![^ \t\xa0])|[ \t\xa0]+", 1, 0.15, 15),  # exact: indents
    (r"[‐-‧─-╿]", 1.1, 0, 0),  # quotation marks, dashes, box drawing
    (r".", 1.8, 0, 0),  # emoji: 1 to 2.5, and whatever is left
]
PIECE = re.compile("|".join(f"({pattern})" for pattern, *_ in KINDS), re.DOTALL)
_COSTS = [(0.0, 0.0, 0), *((first, more, free) for _, first, more, free in KINDS)]

# Five and more consonants in a row are no syllable of any word: more for each beyond three.
HARD = re.compile(r"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{5,}")
HARD_MORE = 0.92

PER_MESSAGE = 4  # the marks around a message, and its role
PER_CALL = PER_TOOL = 8  # the marks around a tool call, and around a tool's schema
_KNOWN = {"role", "content", "tool_calls", "tool_call_id"}


def estimate(text: str) -> int:
    """The estimated tokens of a text; 0 only for an empty one."""
    total = 0.0
    for run in RUN.finditer(text):
        total += 1 + RUN_SHARES.get(run[1] or run[2], RUN_SHARE) * (run.end() - run.start())
    rest = RUN.split(text)[::3]  # without the two groups of each run
    for piece in chain.from_iterable(map(PIECE.finditer, rest)):
        first, more, free = _COSTS[piece.lastindex or 0]
        beyond = piece.end() - piece.start() - free
        total += first + more * beyond if beyond > 0 else first
    for hard in chain.from_iterable(map(HARD.findall, rest)):
        total += HARD_MORE * (len(hard) - 3)
    return ceil(total)


def estimate_message(message: Message) -> int:
    """A chat message: its texts, its calls, and each field nobody here names as JSON text."""
    parts = message.get("content")
    texts = parts if isinstance(parts, list) else [parts]
    calls = message.get("tool_calls") or []
    other = {name: value for name, value in message.items() if name not in _KNOWN and value}
    values = chain(texts, [message.get("tool_call_id"), other or None])
    return PER_MESSAGE + sum(map(_estimate_value, values)) + sum(map(_estimate_call, calls))


def estimate_tools(schemas: list[JSON]) -> int:
    """The tool schemas of a request, as JSON text."""
    return sum(PER_TOOL + _estimate_value(schema) for schema in schemas)


def _estimate_call(call: JSON) -> int:
    function = call["function"]
    texts = call.get("id"), function.get("name"), function.get("arguments")
    return PER_CALL + sum(map(_estimate_value, texts))


def _estimate_value(value: Any) -> int:
    match value:
        case None:
            return 0
        case str():
            return estimate(value)
        case {"type": "text", "text": str(text)}:
            return estimate(text)
    return estimate(json.dumps(value, ensure_ascii=False))
