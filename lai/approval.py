"""What a person is shown before saying yes, and which answers count.

Approving is agreeing to what will run, so what is shown is what will run: the whole
argument, with every character that a screen would hide, reorder or act upon written out.

Rules that live here and nowhere else:

1. Nothing is left out, whatever a tool chooses to show: every argument is there, a long
   text whole, and its length and hash beside it.
2. ``visible`` can be reversed: two different texts never have the same form. (Letters that
   look alike in every font still do.)
3. Shown text keeps to its own lines, each behind a bar, so that it cannot imitate the
   question around it.
4. Only ``y`` and ``yes`` approve. Only ``happened: …`` and ``not happened: …`` are verdicts,
   with evidence after the colon. Anything else is a no, or no verdict.

It does not ask, and it does not know who is asked.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lai.calls import Call
from lai.executions import Execution
from lai.records import JSON, Outcome

# Printable by Unicode's word, blank on the screen.
_BLANK = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x16FE4, 0x1D159}
_BLANK |= set(range(0x180B, 0x1810)) | set(range(0xFE00, 0xFE10)) | set(range(0xE0100, 0xE01F0))
_MARKS = "⟦⟧"  # so that a shown mark is never a mark in the text
_NAMES = {"\t": "TAB", "\r": "CR", "\x1b": "ESC", "\x00": "NUL"}


class Kind(StrEnum):
    """What a question asks for."""

    APPROVAL = "approval"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person; ``str()`` gives its text for a terminal.

    ``shown`` is what the tool says about the call, piece by piece; ``found`` is what is
    known of the attempt in doubt, ``execution_id``, for a verdict. ``cautions`` are
    sentences to read first, earlier attempts of unknown outcome among them. An approval
    holds for ``base_sha256``, the version of the target when the question was made.
    """

    kind: Kind
    tool_name: str
    call_id: str
    arguments: JSON
    sha256: str
    key: str
    shown: JSON
    found: JSON = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    execution_id: str | None = None
    base_sha256: str | None = None

    def __str__(self) -> str:
        head = "Approve this call?" if self.kind is Kind.APPROVAL else "Result not confirmed."
        lines = [f"{head} {visible(self.tool_name)}, call {visible(self.call_id)}"]
        for name, value in self._pieces():
            lines += _piece(visible(name), value)
        size = len(json.dumps(self.arguments, ensure_ascii=False))
        lines.append(f"  arguments: {size} characters of JSON, SHA-256 {self.sha256[:16]}…")
        lines += [f"  ! {visible(caution)}" for caution in self.cautions]
        return "\n".join([*lines, self.prompt])

    def _pieces(self) -> Iterator[tuple[str, Any]]:
        """What the tool shows, then every argument and finding that it has not shown already."""
        told = {json.dumps(value) for value in self.shown.values()}  # True is 1, but not here
        yield from self.shown.items()
        for name, value in (*self.arguments.items(), *self.found.items()):
            if json.dumps(value) not in told:
                told.add(json.dumps(value))
                yield name, value

    @property
    def prompt(self) -> str:
        """The last line: what may be answered."""
        if self.kind is Kind.APPROVAL:
            return "y = run it, anything else = refuse: "
        return (
            "Check, then answer 'happened: <evidence>' or 'not happened: <evidence>'; anything "
            "else leaves it unknown: "
        )


def doubts(call: Call, sha256: str, unresolved: Sequence[Execution]) -> list[str]:
    """What a person should know before saying yes: attempts still unknown that bear on it."""
    found = []
    for attempt in unresolved:
        if (attempt.tool_name, attempt.sha256) == (call.name, sha256):
            found.append(f"{attempt.tool_name} {attempt.id} may have done exactly this already")
        elif attempt.call is not None and attempt.call.line == call.line:
            found.append(f"{attempt.tool_name} {attempt.id}, asked for together, is still unknown")
    return found


def verdict(call: Call, arguments: JSON, execution: Execution, now: JSON) -> Question:
    """The question about an attempt whose outcome nobody knows.

    ``now`` is what the tool would show for the same call at this moment: the difference
    between what is there and what was wanted is often all the evidence there is.
    """
    hidden = ("status", "execution_id")
    known = {k: v for k, v in (execution.result or {}).items() if k not in hidden}
    told = ("lookup", "target", "key", "evidence", "sandbox")
    found = {k: v for k, v in execution.details.items() if k in told}
    return Question(
        kind=Kind.VERDICT,
        tool_name=call.name,
        call_id=call.id,
        arguments=arguments,
        sha256=execution.sha256 or "",
        key=execution.key or "",
        shown=arguments,
        found={"attempt": execution.id, **known, **found, **now},
        execution_id=execution.id,
    )


def approves(answer: str) -> bool:
    """Whether an answer approves; only these two words do."""
    return answer in ("y", "yes")


def read_verdict(answer: str) -> tuple[Outcome, str] | None:
    """The outcome and its evidence, or None: that was no verdict."""
    head, colon, evidence = answer.partition(":")
    outcomes = {"happened": Outcome.HAPPENED, "not happened": Outcome.NOT_HAPPENED}
    outcome = outcomes.get(head.strip())
    if not colon or outcome is None or not evidence.strip():
        return None
    return outcome, evidence.strip()


def visible(text: str, keep: str = "") -> str:
    """``text`` with every character that does not show itself written as ⟦name⟧.

    The characters of ``keep`` are left as they are; with none the form can be reversed.
    """
    return "".join(
        c if c in keep or _shows(c) else f"⟦{_NAMES.get(c, f'U+{ord(c):04X}')}⟧" for c in text
    )


def _shows(character: str) -> bool:
    return character.isprintable() and ord(character) not in _BLANK and character not in _MARKS


def _piece(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    lines = text.split("\n")
    if len(lines) == 1 and len(text) <= 80:
        shown = text.rstrip(" ")  # a blank at the end is part of a name, and is not seen
        return [f"  {name}: {visible(shown)}{'⟦U+0020⟧' * (len(text) - len(shown))}"]
    count = len(lines) - (lines[-1] == "")  # a line end ends a line and starts none
    size = f"{count} line{'s' * (count != 1)}, {len(text)} characters"
    return [f"  {name} ({size}):", *(f"  | {visible(line)}" for line in lines)]
