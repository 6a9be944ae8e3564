"""What must hold of the file itself after every crash: its bytes, its attempts, its verdicts.

The other invariants, and what they are for, are in ``invariants``.
"""

import hashlib
import json
from itertools import pairwise

from story import JSON, Story
from sums import problem

LEGAL = {  # written down again here, so that the library's own table is not its judge
    (None, "approved"),
    (None, "rejected"),
    ("approved", "running"),
    ("approved", "rejected"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "unknown"),
    ("unknown", "succeeded"),
    ("unknown", "failed"),
    ("unknown", "unknown"),
}
MOST_ATTEMPTS = 3  # of one call, and one more for each time that a person sees no effect


def bytes_only_grow(story: Story) -> None:
    """What the file held at any moment is a prefix of what it holds later."""
    for before, after in pairwise((*story.earlier, story.data)):
        assert after.startswith(before), "bytes of the session file were changed or cut"


def transitions_are_legal(story: Story) -> None:
    """Each attempt goes only where the table of states allows."""
    last: dict[str, str] = {}
    for _, record in story.ledger():
        step = last.get(record["execution_id"]), record["status"]
        assert step in LEGAL, f"{record['execution_id']}: {step}"
        last[record["execution_id"]] = record["status"]


def execution_ids_unique(story: Story) -> None:
    """A new attempt has a new id: none starts twice, none belongs to two calls."""
    owner: dict[str, str] = {}
    for _, record in story.ledger():
        known = owner.setdefault(record["execution_id"], record["tool_call_id"])
        assert known == record["tool_call_id"], f"{record['execution_id']} has two calls"
    for execution_id in owner:
        for status in ("approved", "running"):
            times = len(list(story.ledger(execution_id=execution_id, status=status)))
            assert times <= 1, f"{execution_id} is {times} times {status}"


def key_stable_over_attempts(story: Story) -> None:
    """All attempts of one call carry one key and one hash, in the file and outside."""
    for call in story.calls:
        for name in ("idempotency_key", "arguments_sha256"):
            seen = {record.get(name) for _, record in story.ledger(tool_call_id=call.id)}
            assert len(seen) <= 1, f"{call.id} has {name}s {seen}"
    owners = {record["execution_id"]: record["tool_call_id"] for _, record in story.ledger()}
    for deed in story.deeds:
        assert deed.key.endswith(f":{deed.tool}:{owners.get(deed.execution_id)}"), deed


def lines_follow_each_other(story: Story) -> None:
    """Each line's checksums are right, by another program's reckoning."""
    found = problem(story.data)
    assert found is None, found


def attempts_are_at_what_was_asked(story: Story) -> None:
    """Every record of an attempt carries the hash of its call's arguments, and its tool."""
    for call in story.calls:
        asked = story.lines[call.at].record["message"]["tool_calls"]
        (given,) = (c["function"]["arguments"] for c in asked if c["id"] == call.id)
        for _, record in story.ledger(tool_call_id=call.id):
            assert record.get("arguments_sha256") in (None, _hash(given)), record
            assert record.get("tool_name") in (None, call.tool), record


def _hash(given: str | JSON) -> str:
    """SHA-256 of arguments in one form, whatever the order of their keys."""
    arguments = json.loads(given) if isinstance(given, str) else given  # some send no text
    form = {"ensure_ascii": False, "sort_keys": True, "separators": (",", ":")}
    text = json.dumps(arguments, **form)  # type: ignore[arg-type]
    return hashlib.sha256(text.encode()).hexdigest()


def attempts_are_bounded(story: Story) -> None:
    """No call is tried without end: a few times, and again where a person saw no effect."""
    for call in story.calls:
        tried = len(list(story.ledger(tool_call_id=call.id, status="running")))
        denied = sum(
            said.call_id == call.id and (said.answer or "").startswith("not happened:")
            for said in story.said
        )
        assert tried <= MOST_ATTEMPTS + denied, f"{call.id} was tried {tried} times"


def verdicts_are_a_persons(story: Story) -> None:
    """A verdict is a record of its own, about an unknown, in the words that a person said."""
    for at, (record, _) in enumerate(story.lines):
        if record["type"] != "resolution":
            continue
        mine = [r for n, r in story.ledger(execution_id=record["execution_id"]) if n < at]
        assert mine, f"a verdict on {record['execution_id']}, which was never tried"
        assert mine[-1]["status"] == "unknown", f"a verdict on what is {mine[-1]['status']}"
        answers = [
            said.answer or ""
            for said in story.said
            if (said.kind, said.execution_id) == ("verdict", record["execution_id"])
        ]
        outcome = record["outcome"].replace("_", " ")
        wanted = outcome, record["evidence"].strip()
        assert wanted in [_spoken(answer) for answer in answers], f"nobody said {wanted}"


def _spoken(answer: str) -> tuple[str, str]:
    outcome, _, evidence = answer.partition(":")
    return outcome.strip(), evidence.strip()
