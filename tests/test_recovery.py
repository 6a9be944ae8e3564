"""``decide``: the policy table cell by cell, on logs that are written here."""

import itertools
from typing import Any

import pytest
from decisions import ARGUMENTS, CALL, LOST, NOW, OLD, history, story, told, tool, tries
from toolkit import JSON, assistant, attempt, resolution, user

from lai import Ask, Effect, Publish, decide
from lai.recovery import POLICY, Standing, standing

NEVER = "ask exec_1: it was approved before and never started"
AGAIN = "ask exec_2: it was approved before and never started"
MAYBE = "ask exec_1: a line of the session after this call cannot be read: it may have run already"
DENIED = "ask exec_1: an earlier attempt did not happen: 看过日志"
UNKNOWN = attempt(CALL, "approved", "running", "unknown")
# Where the call stands, its records, who wrote them, and what must follow for a tool that
# is read-only, idempotent, keyed, queryable, opaque.
ROWS: list[tuple[Standing, list[JSON], str, tuple[str, str, str, str, str]]] = [
    (Standing.NEW, [], OLD, ("attempt", *["ask"] * 4)),
    (Standing.APPROVED, tries("approved"), NOW, ("attempt start exec_1",) * 5),
    (Standing.LEFT_APPROVED, tries("approved"), OLD, ("attempt start exec_1", *[NEVER] * 4)),
    (Standing.LEFT_RETRY, tries("unknown", "approved"), OLD,
     (*["attempt start exec_2"] * 3, AGAIN, AGAIN)),
    (Standing.LEFT_IN_DOUBT, tries("approved"), LOST,
     ("attempt start exec_1", MAYBE, *["Settle exec_1"] * 3)),
    (Standing.RUNNING, tries("running"), OLD, ("Settle exec_1",) * 5),
    (Standing.UNKNOWN, UNKNOWN, OLD,
     (*["attempt after exec_1"] * 3, "LookUp exec_1", "AskVerdict exec_1")),
    (Standing.UNDECIDED, tries("unknown", lookup="inconclusive"), OLD,
     ("attempt after exec_1", *["AskVerdict exec_1"] * 4)),
    (Standing.ABSENT, tries("unknown", lookup="absent"), OLD,
     ("attempt after exec_1", "ask exec_1", "ask exec_1", "attempt after exec_1", "ask exec_1")),
    (Standing.NOT_HAPPENED, [*UNKNOWN, resolution("not_happened")], OLD,
     ("attempt after exec_1", *[DENIED] * 4)),
    (Standing.REJECTED, tries("rejected"), OLD, ("publish rejected exec_1",) * 5),
    (Standing.CONCLUDED, tries("failed"), OLD, ("publish failed exec_1",) * 5),
]  # fmt: skip
CELLS = [
    pytest.param(where, records, when, effect, expected, id=f"{where.name}-{effect}")
    for where, records, when, row in ROWS
    for effect, expected in zip(Effect, row, strict=True)
]


@pytest.mark.parametrize(("where", "records", "when", "effect", "expected"), CELLS)
def test_cell(
    where: Standing, records: list[JSON], when: str, effect: Effect, expected: str
) -> None:
    """A cell of the table gives this action with these fields."""
    made, acting = story(*records, when=when), tool(effect)
    call = made.ledger.first_open()
    assert call is not None
    assert standing(call, acting, made)[0] is where
    said = told(decide(made, [acting]))
    if where is Standing.ABSENT and said.startswith("ask"):
        said = said.partition(":")[0]
    assert said == expected


def test_every_cell_is_there() -> None:
    """The rows above and the library's table have every standing and every promise, once."""
    pairs = [(cell.values[0], cell.values[3]) for cell in CELLS]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == set(itertools.product(Standing, Effect))
    assert {(where, effect) for where, row in POLICY.items() for effect in row} == set(pairs)


MORE: list[tuple[str, Effect, list[JSON], str]] = [
    ("succeeded", Effect.OPAQUE, tries("succeeded"), "publish succeeded exec_1"),
    ("2 of 3", Effect.IDEMPOTENT, tries("unknown", "unknown"), "attempt after exec_2"),
    ("3 of 3", Effect.IDEMPOTENT, tries(*["unknown"] * 3), "AskVerdict exec_3"),
    ("3 of 3, keyed", Effect.KEYED, tries(*["unknown"] * 3), "AskVerdict exec_3"),
    ("3 of 3, queryable", Effect.QUERYABLE, tries(*["unknown"] * 3), "AskVerdict exec_3"),
    ("3 of 3, absent", Effect.QUERYABLE, tries(*["unknown"] * 3, lookup="absent"),
     "AskVerdict exec_3"),
    ("never started, not counted", Effect.IDEMPOTENT,
     tries("unknown", "approved", "unknown"), "attempt after exec_3"),
    ("one more by a person's word", Effect.IDEMPOTENT,
     [*tries(*["unknown"] * 3), resolution("not_happened", "exec_3"),
      *attempt(CALL, "approved", "running", "unknown", execution_id="exec_4")],
     "AskVerdict exec_4"),
    ("word after the first, then 3", Effect.IDEMPOTENT,
     [*UNKNOWN, resolution("not_happened"), *tries(*["unknown"] * 3)[3:]], "attempt after exec_3"),
    ("a person's word after 3 of 3", Effect.IDEMPOTENT,
     [*tries(*["unknown"] * 3), resolution("not_happened", "exec_3")],
     "ask exec_3: an earlier attempt did not happen: 看过日志"),
    ("interrupted by a person", Effect.IDEMPOTENT, tries("unknown", cause="interrupt"),
     "AskVerdict exec_1"),
    ("interrupted by a crash", Effect.IDEMPOTENT, tries("unknown", cause="crash"),
     "attempt after exec_1"),
    ("target moved", Effect.IDEMPOTENT, tries("unknown", target="moved"), "AskVerdict exec_1"),
    ("key expired", Effect.KEYED, tries("unknown", key="expired"), "AskVerdict exec_1"),
    ("interrupted, queryable", Effect.QUERYABLE, tries("unknown", cause="interrupt"),
     "AskVerdict exec_1"),
    ("a person says it happened", Effect.OPAQUE, [*UNKNOWN, resolution("happened")],
     "publish succeeded exec_1"),
    ("rejected after an unknown", Effect.IDEMPOTENT, tries("unknown", "rejected"),
     "AskVerdict exec_1"),
    ("rejected after two unknown", Effect.QUERYABLE, tries("unknown", "unknown", "rejected"),
     "AskVerdict exec_2"),
    ("rejected after a resolved one", Effect.OPAQUE,
     [*UNKNOWN, resolution("not_happened"),
      *attempt(CALL, "rejected", execution_id="exec_2")], "publish rejected exec_2"),
    ("succeeded after an unknown", Effect.IDEMPOTENT, tries("unknown", "succeeded"),
     "publish succeeded exec_2"),
    ("retry interrupted", Effect.IDEMPOTENT, tries("unknown", "running"), "Settle exec_2"),
    ("approved retry, target moved meanwhile", Effect.IDEMPOTENT,
     [*tries("unknown", "approved"), *tries("unknown", target="moved")[-1:]], "AskVerdict exec_1"),
    ("the same, and a person says it did not happen", Effect.IDEMPOTENT,
     [*tries("unknown", "approved"), *tries("unknown", target="moved")[-1:],
      resolution("not_happened")], "ask"),
    ("approved retry, key expired, did not happen", Effect.KEYED,
     [*tries("unknown", "approved"), *tries("unknown", key="expired")[-1:],
      resolution("not_happened")], "ask"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "records", "expected"), [pytest.param(*row[1:], id=row[0]) for row in MORE]
)
def test_row(effect: Effect, records: list[JSON], expected: str) -> None:
    """Where a row of the table has several causes, each of them leads to it."""
    said = told(decide(story(*records), [tool(effect)]))
    assert said.split()[0] == "ask" if expected == "ask" else said == expected


@pytest.mark.parametrize("effect", [e for e in Effect if e is not Effect.READ_ONLY])
@pytest.mark.parametrize("last", ["unknown", "rejected"])
def test_declined_verdict(effect: Effect, last: str) -> None:
    """A verdict that this process was not given is not asked for again: unknown is published."""
    records = tries("unknown", cause="interrupt")
    if last == "rejected":
        records += attempt(CALL, "rejected", execution_id="exec_2")
    made = story(*records)
    assert told(decide(made, [tool(effect)])) == "AskVerdict exec_1"
    made.declined.add("exec_1")
    action = decide(made, [tool(effect)])
    assert told(action) == "publish unknown exec_1"
    assert isinstance(action, Publish)
    assert "may have" in str(action.result)
    assert "Do not repeat" in str(action.result)


@pytest.mark.parametrize("cell", [*ROWS, *MORE], ids=lambda cell: str(cell[0]))
def test_pure(cell: Any) -> None:
    """The same history gives the same answer twice, and is not changed by it."""
    made = story(*next(part for part in cell if isinstance(part, list)))
    parts = (made, made.ledger, made.view, made.ledger._pairing, made.view._pairing)
    before = repr([vars(part) for part in parts])
    for effect in Effect:
        tools = [tool(effect)]
        assert decide(made, tools) == decide(made, tools)
    assert repr([vars(part) for part in parts]) == before


def test_order() -> None:
    """Calls are taken in their order, one at a time, and no model is called meanwhile."""
    calls = [(f"call_{n}", "act", ARGUMENTS) for n in (1, 2, 3)]
    records = [user(), assistant(*calls)]
    for call_id, *_ in calls:
        action = decide(history(*records), [tool(Effect.OPAQUE)])
        assert isinstance(action, Ask)
        assert action.call.id == call_id
        message = {"role": "tool", "tool_call_id": call_id, "content": "{}"}
        records.append({"type": "message", "message": message})
    assert told(decide(history(*records), [])) == "CallModel"
    records.append(assistant(text="完"))
    assert str(decide(history(*records), [])) == "Done(text='完')"
    assert str(decide(history(), [])) == "Done(text='')"
