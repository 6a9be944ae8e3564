"""What is shown determines what runs, and nothing that reaches a terminal can act on it.

A push tries a few thousand random texts; with ``LAI_PROOF=1`` it is 100,000.
"""

import io
import json
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from screen import misfits, pieces, revealed
from test_attacks_claims import start
from toolkit import JSON, assistant, attempt, user, write_log

from lai import Question, arguments_sha256
from lai.__main__ import main
from lai.approval import Kind, visible
from lai.voice import Voice

PROOF = os.environ.get("LAI_PROOF") == "1"
MANY = 100_000 if PROOF else 3_000
# What an attacker would use: marks, bars, digits of marks, line ends, what hides, what acts.
SIGNS = ["⟦", "⟧", "U+", "27E6", "TAB", "NUL", "\n", "\r", "\t", "\x1b[2J", "\x9b", "\x07", "\b"]
SIGNS += ["\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\u3164", "\u2800", "\u034f", "\u00ad"]
SIGNS += [
    "\U000e0041",
    "\U000e0100",
    "\u2028",
    "\x85",
    "\u00a0",
    "\u0301",
    "书",
    "🙂",
    "a",
    " ",
    "|",
]
SIGNS += [
    "  | ",
    "  ! ",
    ": ",
    "  command: ls",
    "y = run it",
    "Approve this call?",
    "\ufeff",
    "\ud800",
]
SIGNS += ["\\n", '"', "\\", " (1 line, 2 characters):", "\ue000", "\U0010ffff", "\u0378", "\x00"]
texts = st.text(st.characters(), max_size=40) | st.lists(st.sampled_from(SIGNS)).map("".join)
relaxed = settings(max_examples=MANY // 10, deadline=None, suppress_health_check=[*HealthCheck])


def random_texts(count: int) -> Iterator[str]:
    """Texts of any characters and of signs, the same ones every time."""
    chance = random.Random(2024)  # noqa: S311 (nothing is kept secret with it)
    for _ in range(count):
        parts = [chr(chance.randrange(0x110000)) for _ in range(chance.randrange(12))]
        parts += chance.choices(SIGNS, k=chance.randrange(12))
        chance.shuffle(parts)
        yield "".join(parts)


def question(arguments: JSON, **more: Any) -> Question:
    """A question about a call with these arguments; its digest is not looked at here."""
    fields = {"kind": Kind.APPROVAL, "tool_name": "act", "call_id": "c", "sha256": "0" * 64}
    return Question(**{**fields, "key": "k", "arguments": arguments, "shown": arguments, **more})


def test_any_text_comes_back_from_the_screen() -> None:
    """Of very many random texts each is shown in the positive set and decodes to itself."""
    seen: dict[str, str] = {}
    for text in random_texts(MANY):
        shown = visible(text)
        assert revealed(shown) == text
        assert not misfits(shown, also=" "), ascii(text)
        assert seen.setdefault(shown, text) == text


@relaxed
@given(texts, texts)
def test_two_texts_have_two_questions(one: str, other: str) -> None:
    """Different arguments are told apart by what is shown of them, the digest aside."""
    first, second = (str(question({"text": text})) for text in (one, other))
    assert (first == second) is (one == other)
    assert not misfits(first)


@relaxed
@given(texts, texts, texts)
def test_every_text_of_a_question_can_be_had_back(name: str, text: str, call: str) -> None:
    """A text is whole behind its name, however it tries to look like the question around it."""
    name = name.replace("\ud800", "")
    shown = str(question({name: text, "last": "書"}, call_id=call, tool_name=call))
    assert not misfits(shown)
    head, *between, last = shown.split("\n")
    assert head == f"Approve this call? {visible(call)}, call {visible(call)}"
    assert {line[:2] for line in between} == {"  "}
    assert last.startswith("y = run it")
    assert "  last: 書" in between or text == "書"
    body = "\n".join(between)
    if "\n" not in text and len(text) <= 80:
        assert body.startswith(f"  {visible(name)}: ")
        assert revealed(between[0].removeprefix(f"  {visible(name)}: ")) == text
    else:
        [barred] = re.findall(r"^.*:\n((?:  \| .*\n)*)", body)
        lines = [line.removeprefix("  | ") for line in barred.split("\n")[:-1]]
        assert revealed("\n".join(lines)) == text


VALUES: list[Any] = [1, True, 1.0, "1", "true", "True", None, "null", "", [], {}, "[]", "{}", [1]]
VALUES += [["1"], {"a": 1}, {"a": "1"}, {"a": [1]}, 0, False, "0", " ", "\u00a0", "\u200b", "1 "]
VALUES += ["a\n", "a", "a\n\n", "⟦NUL⟧", "\x00", "⟦U+0000⟧", "é", "e\u0301", "а", 10**30, 1e30]


def test_values_of_every_kind_have_questions_of_their_own() -> None:
    """No two of these values give the same question, under the digest that the agent makes."""
    all_shown = set()
    for value in VALUES:
        arguments = {"x": value}
        all_shown.add(str(question(arguments, sha256=arguments_sha256(arguments))))
    assert len(all_shown) == len(VALUES)


def test_nothing_can_be_approved_while_a_part_of_it_is_hidden() -> None:
    """The longest command and a long file are whole in the question, at any place of a payload."""
    for place in (1, 30_000):
        for filling in ("#", " ", "\n"):
            text = filling * place + "rm -rf ~" + filling * (59_000 - place)
            shown = str(question({"command": text}))
            assert ("command", text) in pieces(shown)
            assert f"{len(text)} characters" in shown


# --- the terminal

EVIL = "x\x1b[2J\x1b]52;c;eA==\x07\u202e\x9b1A\r\b\u2066\U000e0041y"


@pytest.mark.parametrize("text", [EVIL, *SIGNS])
def test_the_voice_says_words_of_the_model_in_visible_characters(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model's text reaches the terminal with line ends, tabs and emoji, and nothing that acts."""
    voice = Voice()
    for piece in (text, *text):
        voice.speak(piece.encode("utf-8", "replace").decode())
    voice.end()
    assert not misfits(capsys.readouterr().out, also=" \n\t\u200d\ufe0f")


def evil_session(root: Path) -> Path:
    """A session in which everything that a model or a tool can choose is hostile."""
    call = (f"c{EVIL}", "run_bash", {"command": f"ls # {EVIL}"})
    gone = (f"g{EVIL}", f"tool{EVIL}", {EVIL: EVIL})
    result = {"status": EVIL, "message": EVIL, "output": EVIL, "path": EVIL}
    told = {"role": "tool", "tool_call_id": gone[0], "content": json.dumps(result)}
    records = [
        *(user(EVIL), assistant(gone, text=EVIL), {"type": "message", "message": told}),
        {"type": "compaction", "summary": EVIL, "first_kept": 1},
        {"type": f"future{EVIL}", "note": EVIL},
        *(user(EVIL), assistant(call, text=EVIL)),
        *attempt(
            call, "approved", "running", "unknown", execution_id=f"exec_{EVIL}", evidence=EVIL
        ),
    ]
    return write_log(root / ".agent_state/session-t.jsonl", *records)


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a command of the library prints on both streams."""
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())):
        assert main([str(argument) for argument in arguments]) in (0, 1, 2)
    printed = capsys.readouterr()
    assert printed.out + printed.err
    return printed.out + printed.err


NAMED = EVIL.replace("/", "")


def test_the_chat_prints_nothing_that_acts(tmp_path: Path) -> None:
    """Recovering a hostile session, asking about it and telling of it prints visible characters."""
    root = tmp_path / NAMED
    evil_session(root)
    done = start(root, "dunno\n/ledger\n/context\n/exit\n", "--workspace", root)
    assert "[unknown] left as it is" in done.stdout, done.stdout + done.stderr
    assert not misfits(done.stdout + done.stderr)


def test_the_commands_print_nothing_that_acts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Showing, checking, settling and mending a hostile and damaged session does neither."""
    path = evil_session(tmp_path).rename(tmp_path / f"session-{NAMED}.jsonl")
    told = [command(capsys, name, path) for name in ("show", "verify")]
    with path.open("ab") as file:
        file.write(f'{{"broken {EVIL}\n{EVIL}\n'.encode())
    told += [command(capsys, name, path) for name in ("verify", "repair", "verify", "show")]
    evidence = ("happened", "--evidence", EVIL)
    told += [command(capsys, "resolve", path, name, *evidence) for name in (f"exec_{EVIL}", EVIL)]
    told += [command(capsys, "show", f"{EVIL}.jsonl"), command(capsys, EVIL)]
    assert "The model is told" in told[6]
    for text in told:
        assert not misfits(text), ascii(text)
