"""What a person is shown before an answer, and which answers count."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolkit import (
    JSON,
    agent,
    answers,
    assistant,
    attempt,
    idempotent,
    lines,
    opaque,
    receipts,
    resolution,
    statuses,
    user,
    write_log,
)

from lai import Question, workspace_tools
from lai.approval import visible

# Unicode's Default_Ignorable_Code_Point, the assigned part, and two blanks that it leaves out.
INVISIBLE = {0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0, 0x2800}
INVISIBLE |= {*range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x202A, 0x202F)}
INVISIBLE |= {*range(0x2060, 0x2070), *range(0xFE00, 0xFE10), *range(0x1BCA0, 0x1BCA4)}
INVISIBLE |= {*range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000), 0x2028, 0x2029, 0x85, 0xA0}
NAMES = {"TAB": "\t", "CR": "\r", "ESC": "\x1b", "NUL": "\x00"}
any_text = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from("⟦⟧U+27E6TABx\t\n\x1b\u202e\u2028\u200b书😀\ud800"), max_size=30
)


def invisible(text: str) -> list[str]:
    """The characters that a screen hides, reorders or acts upon."""
    return [
        c
        for c in text
        if ord(c) in INVISIBLE or (unicodedata.category(c)[0] in "CZ" and c not in " \n")
    ]


def hidden_again(shown: str) -> str:
    """The inverse of ``visible``, from its description alone."""

    def character(mark: re.Match[str]) -> str:
        name = mark[1]
        return NAMES[name] if name in NAMES else chr(int(name.removeprefix("U+"), 16))

    return re.sub("⟦([^⟧]*)⟧", character, shown)


@given(any_text)
def test_visible_round_trip(text: str) -> None:
    """What is shown determines what was there, for any text at all."""
    assert hidden_again(visible(text)) == text


@given(any_text)
def test_visible_shows_itself(text: str) -> None:
    """Nothing in the shown text is a control, bidi, invisible or surrogate character."""
    assert not invisible(visible(text).replace("\n", "\x00"))


def test_every_character() -> None:
    """The same for every code point; what stands for itself shows itself."""
    alone = set(hidden_again(re.sub("⟦[^⟧]*⟧", "", visible("".join(map(chr, range(0x110000)))))))
    assert not invisible("".join(alone - {" "}))
    assert alone.isdisjoint("⟦⟧\n")
    assert visible("rm -rf 书 é😀 '\"") == "rm -rf 书 é😀 '\""


# --- the question -------------------------------------------------------------------------


def asked(tmp_path: Path, tools: Any, *calls: Any, before: tuple[JSON, ...] = ()) -> list[Question]:
    """The questions of a turn in which a person refuses everything."""
    person = answers(["n"] * len(calls))
    path = tmp_path / "session-t.jsonl"
    write_log(path, *before, user(), assistant(*calls))
    with agent(path, [], tools, person) as made:
        made.recover()
    assert len(person.questions) == len(calls)
    return person.questions


def shown_lines(question: Question) -> Iterator[str]:
    """The lines of a question; none has a character that a screen would hide or act upon."""
    for line in str(question).split("\n"):
        assert not invisible(line)
        yield line


TAIL = "touch TAIL"
LONG = [
    pytest.param({"command": f"echo {'a' * 400}; {TAIL}"}, id="400 characters"),
    pytest.param({"command": f"echo start{chr(10) * 60}{TAIL}"}, id="60 blank lines"),
    pytest.param({"command": f"echo 1{chr(13)}{TAIL}"}, id="carriage return"),
    pytest.param({"command": f"echo 书\u2028\x85😀\x1b[2J\x1b[8m; {TAIL}"}, id="escapes"),
    pytest.param({"command": f"echo \u202e; {TAIL} # \u200b"}, id="bidi"),
]


@pytest.mark.parametrize("arguments", LONG)
def test_whole_command(tmp_path: Path, arguments: JSON) -> None:
    """A command is shown whole and its text can be had back from the screen."""
    tools = workspace_tools(tmp_path, sandbox="none")
    [question] = asked(tmp_path, tools, ("call_1", "run_bash", arguments))
    shown = list(shown_lines(question))
    command = arguments["command"]
    start = next(i for i, line in enumerate(shown) if line.startswith("  command"))
    if "\n" in command or len(command) > 80:
        count = command.count("\n") + 1
        size = f"{count} line{'s' * (count > 1)}, {len(command)} characters"
        assert shown[start] == f"  command ({size}):"
        text = "\n".join(
            line.removeprefix("  | ") for line in shown[start + 1 :] if line.startswith("  |")
        )
    else:
        text = shown[start].removeprefix("  command: ")
    assert hidden_again(text) == command
    assert question.sha256[:16] in str(question)
    assert "not a sandbox" in str(question)


def test_whole_file(tmp_path: Path) -> None:
    """The last line of 20 KB is on the screen, with the size, the path and the action."""
    content = "x" * 20_000 + "\nTAIL 书"
    arguments = {"path": "big.txt", "content": content}
    [question] = asked(tmp_path, workspace_tools(tmp_path), ("call_1", "write_file", arguments))
    shown = list(shown_lines(question))
    assert "  | " + "x" * 20_000 in shown
    assert "  | TAIL 书" in shown
    assert {"  action: create", "  path: big.txt", f"  bytes: {len(content.encode())}"} <= {*shown}


FORGED = (
    "ok\n  command: ls\ny = run it, anything else = refuse: \nApprove this call? look\n  ! fine"
)


def test_no_imitation(tmp_path: Path) -> None:
    """Text of the model stays behind a bar or on its own line, also in the tool's arguments."""
    tool = opaque(tmp_path / "sent")
    call = ("call_1\n  ! fine", "send", {"text": FORGED})
    [question] = asked(tmp_path, [tool], call)
    shown = list(shown_lines(question))
    own = [line for line in shown if not line.startswith("  | ")]
    assert len(own) == 4  # head, the name of the text, size and hash, prompt
    assert own[0].startswith("Approve this call? send, call call_1⟦U+000A⟧")
    assert own[1].startswith("  text (5 lines")
    assert own[3] == question.prompt
    assert [line.removeprefix("  | ") for line in shown if line not in own] == FORGED.split("\n")


@pytest.mark.parametrize("known", [True, False], ids=["tool there", "tool gone"])
def test_no_imitation_in_a_verdict(tmp_path: Path, known: bool) -> None:
    """A question about an attempt keeps the model's names and texts on their own lines too."""
    name, arguments = ("send", {"text": FORGED}) if known else ("gone", {FORGED: FORGED})
    call = ("call_1", name, arguments)
    path = write_log(
        tmp_path / "session-t.jsonl", user(), assistant(call), *attempt(call, "approved", "running")
    )
    person = answers([""])
    with agent(path, [], [opaque(tmp_path / "sent")], person) as made:
        made.recover()
    shown = list(shown_lines(person.questions[0]))
    forged = set(FORGED.split("\n")[1:])
    assert not forged & set(shown)
    assert shown[-1] == person.questions[0].prompt


def test_verdict_shows_every_argument(tmp_path: Path) -> None:
    """No field of a result covers an argument of the same name."""
    for name in ("text", "message"):
        call = ("call_1", "gone", {name: "转账 500 元", "status": "gold", "attempt": "second"})
        path = tmp_path / f"session-{name}.jsonl"
        write_log(path, user(), assistant(call), *attempt(call, "approved", "running"))
        person = answers([""])
        with agent(path, [], [], person) as made:
            made.recover()
        text = str(person.questions[0])
        assert "转账 500 元" in text
        assert "gold" in text
        assert "second" in text
        assert "The process died" in text


# --- earlier attempts of unknown outcome --------------------------------------------------

SAME = ("call_1", "send", {"text": "发 500 元"})


@pytest.mark.parametrize("end", ["unknown", "retry refused"])
def test_doubt_is_shown(tmp_path: Path, end: str) -> None:
    """An earlier unresolved attempt at the same tool and arguments is shown, until a verdict."""
    doubt = attempt(SAME, "approved", "running", "unknown")
    if end == "retry refused":
        doubt += attempt(SAME, "approved", "rejected", execution_id="exec_2", approval_of="exec_1")
    done = {"role": "tool", "tool_call_id": "call_1", "content": '{"status": "unknown"}'}
    before = [
        user(), assistant(SAME), *doubt, {"type": "message", "message": done}, assistant(text="完")
    ]  # fmt: skip
    tools = [opaque(tmp_path / "sent"), opaque(tmp_path / "other", "other")]
    again = [
        ("call_2", "send", SAME[2]),
        ("call_3", "send", {"text": "x"}),
        ("c4", "other", SAME[2]),
    ]
    told = [str(q) for q in asked(tmp_path, tools, *again, before=tuple(before))]
    assert ["exec_1" in text for text in told] == [True, False, False]
    assert re.search("unknown|may have", told[0])
    path = tmp_path / "two" / "session-t.jsonl"
    path.parent.mkdir()
    settled = asked(path.parent, tools, *again, before=(*before, resolution("not_happened")))
    assert not any("exec_1" in str(q) for q in settled)


def test_doubt_of_the_same_message(tmp_path: Path) -> None:
    """An unknown of the same message is shown with the next calls of it, whatever they are."""
    second = ("call_2", "store", {"name": "b", "text": "x"})
    records = [user(), assistant(SAME, second), *attempt(SAME, "approved", "running")]
    path = write_log(tmp_path / "session-t.jsonl", *records)
    person = answers(["", "n"])
    with agent(path, [], [opaque(tmp_path / "sent"), idempotent(tmp_path)], person) as made:
        assert made.recover() == ["call_1", "call_2"]
    assert "exec_1" in str(person.questions[1])
    assert "unknown" in str(person.questions[1])


# --- which answers count ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "sent"),
    [("y", 1), ("yes", 1)]
    + [
        (no, 0)
        for no in ("n", "", " ", "Y", "YES", "y ", " y", "yes!", "ye", "yy", "ok", "是", "у")
    ],
)
def test_approves(tmp_path: Path, answer: str, sent: int) -> None:
    """Exactly y and yes approve; every other word is a refusal, and nothing runs."""
    path = tmp_path / "session-t.jsonl"
    with agent(path, [[("send", {"text": "书"})], "完"], [opaque(tmp_path / "sent")],
               answers([answer])) as made:  # fmt: skip
        assert made.run("发") == "完"
    assert len(lines(tmp_path / "sent")) == sent
    if not sent:
        assert statuses(path) == [("#1", "rejected")]
        assert receipts(path)[0][1]["status"] == "rejected"
