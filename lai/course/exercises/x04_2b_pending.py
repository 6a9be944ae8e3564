"""04.2b: which tool calls of a log are still open, where ids come twice and logs are old."""

from collections.abc import Iterator
from random import Random

from lai.course.exercises.model import READS, Case, Exercise, Wrong, slips
from lai.course.exercises.records import attempt, model_calls, model_says, tool_answers, user_asks
from lai.ledger import pending_tool_calls
from lai.records import JSON, Record

QUESTION = """
Before anything else a restarted process must know which tool calls are still open. Return the
calls without a result, as the messages hold them and in their order. A result answers the
*nearest earlier call of its id that is still open*; in one message the calls of an id are taken
in their order. (Providers do use an id twice.)
"""

STUB = '''
def my_pending_tool_calls(records):
    """The calls without a result, in order."""
    raise NotImplementedError
'''

HINTS = """
Only messages count: the calls of assistant messages, and the results, whose role is tool. What
the ledger knows is no result; the model has not been told.

A set of answered ids is not enough, for an id may come twice. Keep a list of open calls for each
message, and take one out for each result.

Look through those lists from the latest message back, and in each from its first call on.
"""

SOLUTION = '''
def my_pending_tool_calls(records):
    """The calls without a result, in order."""
    batches = []
    for record in records:
        if record["type"] != "message":
            continue
        message = record["message"]
        batches.append(list(message.get("tool_calls", [])))
        if message["role"] == "tool":
            answer(batches, message["tool_call_id"])
    return [call for batch in batches for call in batch]


def answer(batches, call_id):
    """Take out the call that a result of this id answers."""
    for batch in reversed(batches):
        for place, call in enumerate(batch):
            if call["id"] == call_id:
                del batch[place]
                return
'''

BY_ID = """
def my_pending_tool_calls(records):
    calls, answered = [], set()
    for record in records:
        message = record.get("message", {})
        calls += message.get("tool_calls", [])
        if message.get("role") == "tool":
            answered.add(message["tool_call_id"])
    return [call for call in calls if call["id"] not in answered]
"""

BY_OUTCOME = """
            if record.get("status") in ("succeeded", "failed", "rejected"):
                answer(batches, record["tool_call_id"])
"""

OPEN = "A call without a result is open, and open calls are given in their order."
LEDGER = "An outcome in the ledger is no result: the model has not been told."
ANYWHERE = "A call may be open anywhere in the log, not only at its end."
STRAY = "A result that answers no open call changes nothing."
TWICE = "A second use of an id is a second call: a result answers the nearest one that is open."
IN_ORDER = "In one message the calls of an id are answered in their order."


def _written() -> list[Case]:
    user, two = user_asks(), model_calls("call_1", "call_2")
    one, other = model_calls("call_1"), model_calls("call_1", name="read")
    same = model_calls("call_1", "call_1")
    done = tool_answers("call_1")
    rows: list[tuple[str, list[Record], list[JSON]]] = [
        (OPEN, [user, model_says()], []),
        (OPEN, [user, one], _calls(one)),
        (OPEN, [user, two, tool_answers("call_2")], _calls(two)[:1]),
        (OPEN, [user, two, tool_answers("call_2"), done, model_says()], []),
        (LEDGER, [user, one, *attempt(1, "succeeded")], _calls(one)),
        (LEDGER, [user, one, *attempt(1, "rejected")], _calls(one)),
        (ANYWHERE, [user, two, done, user_asks("还在吗？"), model_says("在。")], _calls(two)[1:]),
        (TWICE, [user, one, done, other], _calls(other)),
        (TWICE, [user, one, done, other, done], []),
        (TWICE, [user, one, other, done], _calls(one)),
        (IN_ORDER, [user, same, done], _calls(same)[1:]),
        (STRAY, [user, one, tool_answers("call_9")], _calls(one)),
        (STRAY, [tool_answers("call_1"), user, one], _calls(one)),
        (STRAY, [user, two, done, done], _calls(two)[1:]),
    ]
    return [Case(rule, (records,), calls) for rule, records, calls in rows]


def _calls(record: Record) -> list[JSON]:
    calls: list[JSON] = record["message"]["tool_calls"]
    return calls


def _generated(chance: Random) -> Iterator[Case]:
    rule = "Whatever the order of calls and results: each result answers the nearest open call."
    ids = ["call_1", "call_2", "call_3"]
    for _ in range(80):
        records: list[Record] = [user_asks()]
        for number in range(chance.randrange(8)):
            name = chance.choice(ids)
            match chance.randrange(5):
                case 0 | 1:
                    made = [chance.choice(ids) for _ in range(chance.randrange(1, 4))]
                    records.append(model_calls(*made, name=f"send_{number}"))
                case 2:
                    records += attempt(number, "succeeded", name)
                case _:
                    records.append(tool_answers(name))
        yield Case(rule, (records,), pending_tool_calls(records), made=True)


WRONG = (
    Wrong("remembers the ids that were answered", TWICE, BY_ID),
    Wrong(
        "looks at the last assistant message only",
        ANYWHERE,
        """
def my_pending_tool_calls(records):
    pending = []
    for record in records:
        message = record.get("message", {})
        if message.get("role") == "assistant":
            pending = list(message.get("tool_calls", []))
        if message.get("role") == "tool":
            pending = [c for c in pending if c["id"] != message["tool_call_id"]]
    return pending
""",
    ),
    *slips(
        SOLUTION,
        (
            "takes an outcome in the ledger for a result",
            LEDGER,
            ("            continue\n", f"{BY_OUTCOME}            continue\n"),
        ),
        ("answers the oldest open call", TWICE, ("reversed(batches)", "batches")),
        (
            "takes the calls out of the records themselves",
            READS,
            ('list(message.get("tool_calls", []))', 'message.get("tool_calls", [])'),
        ),
        (
            "answers the last call of a message first",
            IN_ORDER,
            ("in enumerate(batch):", "in reversed(list(enumerate(batch))):"),
        ),
    ),
)

EXERCISE = Exercise(
    number="04.2b",
    title="Find the open calls",
    question=QUESTION,
    stub=STUB,
    hints=HINTS,
    solution=SOLUTION,
    wrong=WRONG,
    library=pending_tool_calls,
    written=_written,
    generated=_generated,
)
