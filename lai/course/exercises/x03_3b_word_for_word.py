"""03.3b: what stays word for word, although its place in the log was cut away."""

from collections.abc import Iterator
from random import Random

from lai.actions import Compact
from lai.course.exercises.model import Case, Exercise, slips
from lai.course.exercises.records import TEXT, model_calls, model_says, tool_answers, user_asks
from lai.course.exercises.room import cut_within, size
from lai.records import Message, Record, message_record

QUESTION = """
The log is cut in front of the line `first_kept`, and a summary stands for what was before. Two
things must not be paraphrased: the instructions (`system`, in newer APIs `developer`) and the
request that is still being worked on. Give the messages before the cut that stay word for word,
in their order. (Attempts whose outcome nobody knows stay too, as quoted texts; they are left out
here.)
"""

STUB = '''
def my_pinned(records, first_kept):
    """The messages before the line first_kept that stay, in their order."""
    raise NotImplementedError
'''

HINTS = """
Split the messages at first_kept: what goes and what is kept. Of what goes, the instructions
always stay.

The active request is the last user message. It needs to be pinned only if it goes.

A turn is over when the last message of the log is an answer without tool calls. Then there is no
active request.
"""

SOLUTION = '''
def my_pinned(records, first_kept):
    """The messages before the line first_kept that stay, in their order."""
    gone, kept = [], []
    for line, record in enumerate(records, start=1):
        if record["type"] == "message":
            (gone if line < first_kept else kept).append(record["message"])
    pinned = [m for m in gone if m["role"] in ("system", "developer")]
    last = kept[-1]
    over = last["role"] == "assistant" and not last.get("tool_calls")
    if not over and not any(m["role"] == "user" for m in kept):
        pinned += [m for m in gone if m["role"] == "user"][-1:]
    return pinned
'''

SYSTEM = "Instructions stay, wherever they stood."
ACTIVE = "The request that is being worked on stays if its line is cut away."
DONE = "A request that was answered is the past, and the summary stands for it."
NEAR = "A request that is kept anyway needs no second copy, and no older one beside it."

RULES = message_record({"role": "system", "content": f"你是助手。{TEXT}"})
MORE_RULES = message_record({"role": "developer", "content": "只读 🔒"})


def _batch(name: str) -> list[Record]:
    return [model_calls(name), tool_answers(name, "页 " * 9)]


def _written() -> list[Case]:
    asked, other = user_asks("逐页念完整本账本 🧾"), user_asks("还有呢？")
    turn = [user_asks("早"), *_batch("call_1"), model_says()]
    active = [asked, *_batch("call_2"), *_batch("call_3")]
    rows: list[tuple[str, list[Record], int, list[Record]]] = [
        (SYSTEM, [RULES, other], 2, [RULES]),
        (ACTIVE, active, 4, [asked]),
        (ACTIVE, [RULES, *turn, *active], 9, [RULES, asked]),
        (DONE, [*turn, *active, model_says()], 8, []),
        (DONE, [*turn, *active, model_says()], 10, []),
        (NEAR, [*turn, *active], 5, []),
        (NEAR, [*turn, asked], 5, []),
        (SYSTEM, [RULES, *turn, MORE_RULES, *turn, other], 11, [RULES, MORE_RULES]),
    ]
    return [
        Case(rule, (records, first), [r["message"] for r in pinned])
        for rule, records, first, pinned in rows
    ]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever goes: instructions stay, and of the requests the one that is worked on."
    for _ in range(60):
        records: list[Record] = []
        for number in range(chance.randrange(2, 5)):
            rules = [RULES, MORE_RULES, *[None] * 4]
            records += [r for r in [chance.choice(rules)] if r]
            records.append(user_asks(f"第 {number} 次"))
            for batch in range(chance.randrange(4)):
                records += _batch(f"call_{number}_{batch}")
            records.append(model_says(f"完 {number}"))
        if chance.randrange(3) and records[-2]["message"]["role"] == "tool":
            records.pop()
        room = chance.randrange(1, size(records))
        action = cut_within(records, room)
        if action:
            yield Case(rule, (records, action.first_kept), _messages(action), made=True)


def _library(records: list[Record], first_kept: int) -> list[Message]:
    """The library chooses the cut itself, so the room is looked for that leads it there."""
    for room in range(1, size(records)):
        action = cut_within(records, room)
        if action and action.first_kept == first_kept:
            return _messages(action)
    raise LookupError(f"the library never cuts at line {first_kept}")


def _messages(action: Compact) -> list[Message]:
    return [pinned for pinned in action.pinned if isinstance(pinned, dict)]


WRONG = slips(
    SOLUTION,
    ("keeps the instructions only", ACTIVE, ("if not over and", "if False and")),
    ("forgets the instructions", SYSTEM, ('in ("system", "developer")', "in ()")),
    ("pins a request that was answered", DONE, ("not over and ", "")),
    (
        "pins the request of an earlier turn beside the active one",
        NEAR,
        (' and not any(m["role"] == "user" for m in kept)', ""),
    ),
    ("pins every request", ACTIVE, ("[-1:]", "")),
)

EXERCISE = Exercise(
    number="03.3b",
    title="Keep what must not be paraphrased",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
