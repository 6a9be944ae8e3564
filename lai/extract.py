"""A summary without a model, for the offline course and for scripts in tests.

It takes the first words of what was asked and answered, and what became of each call. Its
last line counts answers, so that a script finds its place again behind a compaction.

It knows messages alone, so the same conversation always gives the same summary.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from lai.records import JSON, Message
from lai.summary import Task
from lai.tokens import estimate
from lai.wire import SUMMARY_HEADER, text_of

WIDTH = 60  # characters of a line
_COUNT = re.compile(r"\n\[answers so far: (\d+), in the turn that goes on: (\d+)\]")


def extract(task: Task) -> str:
    """The summary that is asked for."""
    lines: list[str] = []
    answers = turn = 0
    for message in task.said:
        text = text_of(message)
        match message:
            case {"role": "earlier summary"}:  # summary.EARLIER
                answers, turn = _counts(text)
                lines += _COUNT.sub("", text).splitlines()
            case {"role": "user"}:
                turn = 0
            case {"role": "assistant"}:
                answers, turn = answers + 1, turn + 1 if "calls" in message else 0
        lines += _lines(message)
    kept = _newest(lines, task.words)
    return "\n".join(kept) + f"\n[answers so far: {answers}, in the turn that goes on: {turn}]"


def answers_before(messages: Sequence[Message]) -> int:
    """How many answers a request no longer shows."""
    return next((_counts(text)[0] for text in map(text_of, messages) if _is_summary(text)), 0)


def answers_of_turn(messages: Sequence[Message], request: int) -> int:
    """How many answers to the user message at ``request`` are no longer shown."""
    before = text_of(messages[request - 1]) if request > 0 else ""
    return _counts(before)[1] if _is_summary(before) else 0


def _is_summary(text: str) -> bool:
    return text.startswith(SUMMARY_HEADER)


def _newest(lines: list[str], words: int) -> list[str]:
    """The last lines that fit, and how many stood before them."""
    sizes = accumulate(map(estimate, reversed(lines)))
    fitting = max(sum(size <= words for size in sizes), 1)
    left_out = len(lines) - fitting
    return [f"({left_out} lines before these)", *lines[-fitting:]] if left_out > 0 else lines


def _counts(text: str) -> tuple[int, int]:
    found = _COUNT.search(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _lines(message: JSON) -> Iterator[str]:
    match message:
        case {"role": "user" | "assistant" as role} if text_of(message):
            yield f"- {role}: {_short(text_of(message))}"
        case {"role": "tool"}:
            yield f"- {_result(text_of(message))}"


def _result(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return f"a tool: {_short(text)}"
    what = found.get("path") or found.get("execution_id") or "a tool"
    return f"{_short(str(what))}: {found.get('status', 'no status')}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
