"""04.2c: the messages that the model may see, in an order that every provider accepts."""

from collections.abc import Iterator
from random import Random

from lai.context import build_prompt_view
from lai.course.exercises.model import Case, Exercise, Wrong, slips
from lai.course.exercises.records import (
    TEXT,
    attempt,
    model_calls,
    model_says,
    tool_answers,
    user_asks,
)
from lai.records import Record

QUESTION = """
The log holds everything; the *prompt view* is what the model is sent. It has the messages, in
order, and nothing of the ledger. Right after a message with calls stand exactly its results, in
the order of the calls. Until the last of them is answered, the message stays out, with the
results that are there already. A result that answers nothing is left out. (Here every id comes
once, and there is no compaction; the library minds those too.)
"""

STUB = '''
def my_build_prompt_view(records):
    """The messages to send, oldest first."""
    raise NotImplementedError
'''

HINTS = """
Providers refuse a call without its result, a result without its call, and anything between the
two.

Go through the log twice: first collect the result of each call id, the first one that comes after
its call. Then lay out the messages.

A result is laid out behind its call and nowhere else, so in the second round a message with the
role tool is passed over.
"""

SOLUTION = '''
def my_build_prompt_view(records):
    """The messages to send, oldest first."""
    messages = [r["message"] for r in records if r["type"] == "message"]
    results = {}
    for message in messages:
        for call in message.get("tool_calls", []):
            results[call["id"]] = None  # asked, not answered
        if message["role"] == "tool" and results.get(message["tool_call_id"], True) is None:
            results[message["tool_call_id"]] = message
    view = []
    for message in messages:
        answers = [results[call["id"]] for call in message.get("tool_calls", [])]
        if message["role"] != "tool" and None not in answers:
            view += [message, *answers]
    return view
'''

MESSAGES = "The view has the messages, in their order, and nothing else."
LEDGER = "The ledger never enters the view."
BATCH = (
    "A message with calls stays out until the last of them is answered, and its results with it."
)
ORDER = "The results stand in the order of the calls, whenever they came."
BEHIND = "The results stand directly behind their message, also if they came much later."
STRAY = "A result that answers no open call is left out."


def _written() -> list[Case]:
    user, later, two = user_asks(TEXT), user_asks("还在吗？"), model_calls("call_1", "call_2")
    one, done, other = model_calls("call_1"), tool_answers("call_1", "好"), tool_answers("call_2")
    again, said = tool_answers("call_1", "又一次"), model_says("在。")
    rows: list[tuple[str, list[Record], list[Record]]] = [
        (MESSAGES, [user, said], [user, said]),
        (MESSAGES, [user, one, done, said, later], [user, one, done, said, later]),
        (LEDGER, [user, one, *attempt(1, "succeeded"), done], [user, one, done]),
        (LEDGER, [user, {"type": "note", "text": "书"}, said], [user, said]),
        (BATCH, [user, one], [user]),
        (BATCH, [user, two, done], [user]),
        (BATCH, [user, two, done, later, said], [user, later, said]),
        (ORDER, [user, two, other, done], [user, two, done, other]),
        (BEHIND, [user, one, later, said, done], [user, one, done, later, said]),
        (BEHIND, [user, two, other, later, done, said], [user, two, done, other, later, said]),
        (STRAY, [other, user, one, done], [user, one, done]),
        (STRAY, [user, one, done, again, said], [user, one, done, said]),
        (STRAY, [done, user, one], [user]),
    ]
    return [Case(rule, (records,), [r["message"] for r in view]) for rule, records, view in rows]


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever the order: every call with all its results behind it, or not at all."
    for _ in range(80):
        records = list[Record]()
        ids = 0
        for _ in range(chance.randrange(1, 9)):
            match chance.randrange(6):
                case 0:
                    records.append(chance.choice([user_asks(f"{TEXT}{ids}"), model_says()]))
                case 1 | 2:
                    new = chance.randrange(1, 4)
                    records.append(model_calls(*(f"call_{ids + n}" for n in range(new))))
                    ids += new
                case 3:
                    records += attempt(ids, "unknown", f"call_{chance.randrange(ids + 1)}")
                case _:
                    content = chance.choice("书🚀好")
                    records.append(tool_answers(f"call_{chance.randrange(ids + 1)}", content))
        yield Case(rule, (records,), build_prompt_view(records), made=True)


WRONG = (
    Wrong(
        "sends all messages as they stand",
        BATCH,
        """
def my_build_prompt_view(records):
    return [record["message"] for record in records if record["type"] == "message"]
""",
    ),
    Wrong(
        "sends records of the ledger too",
        LEDGER,
        """
def my_build_prompt_view(records):
    return [record.get("message", record) for record in records]
""",
    ),
    *slips(
        SOLUTION,
        (
            "leaves out the open call only, not its message",
            BATCH,
            (" and None not in answers", ""),
            ("[message, *answers]", "[message, *(answer for answer in answers if answer)]"),
        ),
        (
            "lets the results stand in the order in which they came",
            ORDER,
            ("        answers = [results", "        answers = sorted((results"),
            (
                'message.get("tool_calls", [])]\n',
                'message.get("tool_calls", [])), key=lambda m: messages.index(m) if m else -1)\n',
            ),
        ),
        (
            "sends a result that answers nothing",
            STRAY,
            ('message["role"] != "tool" and None', "message not in results.values() and None"),
        ),
        (
            "takes the last result of a call, not the first",
            STRAY,
            (
                'results.get(message["tool_call_id"], True) is None',
                'message["tool_call_id"] in results',
            ),
        ),
    ),
)

EXERCISE = Exercise(
    number="04.2c",
    title="Lay out what the model sees",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=build_prompt_view,
    written=_written,
    generated=_generated,
)
