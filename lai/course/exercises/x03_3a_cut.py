"""03.3a: where to cut a conversation that has become too long."""

from collections.abc import Iterator
from random import Random

from lai.course.exercises.model import Case, Exercise, slips
from lai.course.exercises.records import attempt, model_calls, model_says, tool_answers, user_asks
from lai.course.exercises.room import cut_within, size
from lai.records import Record

QUESTION = """
A summary is to take the place of the older messages. Say from which line on messages are kept; a
line is a record, counted from 1, and the ledger's lines are no messages. The newest messages
stay, as many as `room` tokens hold (`estimate_message` says what a message takes). Never cut
between a call and its results. Of the places whose rest fits, take the earliest in front of a user
message, or the earliest of all if there is none; keep at least the last message, with its results.
If nothing has to go or may go, or a call is still open, answer `None`.
"""

STUB = '''
from lai.tokens import estimate_message


def my_cut(records, room):
    """The first line to keep, or None if there is nothing to cut."""
    raise NotImplementedError
'''

HINTS = """
First make batches: a message that is no tool result, with the results that follow it. Each has
its first line and its tokens. A call that is still open means None.

Walk over the batches from the newest to the oldest and add up. Of those that fit, remember the
oldest, and apart from it the oldest that begins with a user message.

When the sum exceeds the room: answer with the user message if there was one, else with the oldest
that fitted, else with the batch that was too large. The very first batch is no cut.
"""

SOLUTION = '''
from lai.tokens import estimate_message


def my_cut(records, room):
    """The first line to keep, or None if there is nothing to cut."""
    batches, waiting = [], 0  # a batch: its first line, its tokens, whether a user speaks
    for line, record in enumerate(records, start=1):
        if record["type"] != "message":
            continue
        message = record["message"]
        if message["role"] == "tool":
            waiting -= 1
            batches[-1][1] += estimate_message(message)
        else:
            waiting += len(message.get("tool_calls", []))
            batches.append([line, estimate_message(message), message["role"] == "user"])
    if waiting or sum(tokens for _, tokens, _ in batches) <= room:
        return None
    kept, turn, batch = 0, None, None
    for line, tokens, asked in reversed(batches[1:]):
        kept += tokens
        if kept > room:
            return turn or batch or line
        batch, turn = line, line if asked else turn
    return turn or batch
'''

FITS = "As long as everything fits, nothing is cut."
OPEN = "While a call is open nothing is cut: it is settled first."
TURNS = "The cut is in front of a user message, and the kept turns fit into the room."
LEDGER = "Lines of the ledger are no messages, but they count as lines."
BATCH = "A call and its results stay together, however small the room is."
LONG_TURN = "If not even the last turn fits, it is cut between two batches."
LAST = "The last message stays, with its results, also if it alone is too large."
FIRST = "A cut in front of the very first message would cut nothing."

SMALL, LARGE = "页 🧾", "逐字念出来\u2028 🧾 " * 20


def _turn(number: int, calls: int = 1, text: str = SMALL) -> list[Record]:
    """A finished turn, of 3 + calls records."""
    ids = [f"call_{number}_{n}" for n in range(calls)]
    results = [tool_answers(i, text) for i in ids]
    return [user_asks(f"第 {number} 页"), model_calls(*ids), *results, model_says()]


def _written() -> list[Case]:
    three = [*_turn(1), *_turn(2), *_turn(3)]  # turns begin on the lines 1, 5, 9
    paid = [*three[:6], *attempt(1, "succeeded", "call_2_0"), *three[6:]]  # and here on 1, 5, 12
    last, long = three[8:], [user_asks(), *_turn(1)[1:3], *_turn(2)[1:3], *_turn(3)[1:3]]
    many = [*_turn(1), user_asks(), *_turn(2, calls=4)[1:-1]]
    large = [*_turn(1), user_asks(LARGE)]
    whole, late = size(three), size(three[4:])
    rows: list[tuple[str, list[Record], int, int | None]] = [
        (FITS, three, whole, None),
        (TURNS, three, whole - 1, 5),
        (TURNS, three, late, 5),
        (TURNS, three, late - 1, 9),
        (LEDGER, paid, size(last), 12),
        (LEDGER, paid, whole, None),
        (OPEN, three[:-2], 1, None),
        (OPEN, [*three[:-2], *attempt(1, "succeeded", "call_3_0")], 1, None),
        (LAST, large, 10, 5),
        (LAST, three, 1, 12),
        (BATCH, many, size(many[-2:]), 6),
        (BATCH, long, size(long[-1:]), 6),
        (LONG_TURN, long, size(long[-4:]), 4),
        (LONG_TURN, long, size(long[-4:]) - 1, 6),
        (FIRST, [user_asks(LARGE)], 10, None),
        (FIRST, [], 1, None),
    ]
    return [
        Case(rule, (records, room), first, _tokens(records)) for rule, records, room, first in rows
    ]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever the conversation and the room: whole turns if they fit, else whole batches."
    for _ in range(80):
        records: list[Record] = []
        for number in range(chance.randrange(1, 6)):
            text = chance.choice([SMALL, SMALL * 9, LARGE])
            records += _turn(number, chance.randrange(1, 4), text)
        records = records[: len(records) - chance.randrange(4)]
        room = chance.randrange(1, size(records) + 20)
        first = _library(records, room)
        yield Case(rule, (records, room), first, _tokens(records), made=True)


def _library(records: list[Record], room: int) -> int | None:
    action = cut_within(records, room)
    return action.first_kept if action else None


def _tokens(records: list[Record]) -> str:
    sizes = [str(size([record])) for record in records if record["type"] == "message"]
    return f"tokens of the messages, in order: {' '.join(sizes)}"


WRONG = slips(
    SOLUTION,
    (
        "cuts between a call and its results",
        BATCH,
        (
            "            batches[-1][1] += estimate_message(message)\n",
            "            batches.append([line, estimate_message(message), False])\n",
        ),
    ),
    ("cuts while a call is open", OPEN, ("if waiting or sum", "if sum")),
    ("tears turns apart", TURNS, ("return turn or batch or line", "return batch or line")),
    (
        "lets the last message go if it is too large",
        LAST,
        ("return turn or batch or line", "return turn or batch"),
    ),
    (
        "cuts although everything fits",
        FITS,
        (" or sum(tokens for _, tokens, _ in batches) <= room", ""),
    ),
)

EXERCISE = Exercise(
    number="03.3a",
    title="Find the place to cut",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=_library,
    written=_written,
    generated=_generated,
)
