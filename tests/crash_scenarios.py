"""The stories that are crashed, and how they may end."""

import json

from crash_world import Scenario, World
from invariants import check
from story import Said

BOOK = {"text": "书\u2028①"}
PEN = {"text": "笔\u0085②"}
FILE = {"path": "账本.txt", "content": "第一行\u2028\n🖋"}
COMMAND = {"command": "echo 书 >> audit.log"}
WANTED = {"path": "recovery-demo.txt", "content": "recovered"}
HASH = "8889280b9146b06f667dd62a1bdb2f6bcb763b656a18214926a39dba97dc18fe"


def interrupted() -> bytes:
    """The published scene: a call, approved and running; no file, no result."""
    function = {"name": "write_file", "arguments": json.dumps(WANTED, separators=(",", ":"))}
    call = {"id": "call_recovery_demo", "type": "function", "function": function}
    user = {"role": "user", "content": "请把 recovery-demo.txt 的完整内容设置为 recovered"}
    messages = [user, {"role": "assistant", "content": "", "tool_calls": [call]}]
    records = [{"type": "message", "message": message} for message in messages]
    ledger = {
        "type": "tool_execution",
        "execution_id": "exec_interrupted_demo",
        "tool_call_id": "call_recovery_demo",
        "status": "approved",
        "tool_name": "write_file",
        "idempotency_key": f"write_file:{HASH}",
        "arguments_sha256": HASH,
    }
    records += [ledger, {**ledger, "status": "running"}]
    lines = (json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in records)
    return "".join(f"{line}\n" for line in lines).encode()


def _aloud(number: int, tool: str, about: object) -> object:
    """An answer that says a lot beside its call."""
    function = {"name": tool, "arguments": json.dumps(about)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    text = "我先说说为什么要这么做。\u2028" * 30
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def _one(name: str, *calls: tuple[str, object], refused: str = "") -> Scenario:
    tools = tuple(dict.fromkeys(tool for tool, _ in calls))
    return Scenario(name, tools, (list(calls),), frozenset({refused}))


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        _one("write", ("write_file", FILE)),
        _one("opaque", ("send", BOOK)),
        _one("no answer", ("late", BOOK)),
        _one("confirmed failure", ("broken", BOOK)),
        _one("stopped by a person", ("stopped", BOOK)),
        _one("payment stopped", ("halted", BOOK)),
        _one("queryable", ("submit", BOOK)),
        _one("inconclusive", ("ask_me", BOOK)),
        _one("keyed", ("pay", BOOK)),
        _one("refused", ("send", BOOK), refused="send"),
        _one("write and send", ("write_file", FILE), ("send", PEN)),
        _one("send and submit", ("send", BOOK), ("submit", PEN)),
        _one("the same twice", ("send", BOOK), ("send", BOOK)),
        _one("pay, refused send", ("pay", BOOK), ("send", PEN), refused="send"),
        _one("bash", ("run_bash", COMMAND)),
        _one("write and bash", ("write_file", FILE), ("run_bash", COMMAND)),
        Scenario(
            "outgrown",
            ("late", "send"),
            (_aloud(1, "late", BOOK), _aloud(2, "send", PEN)),
            window=1400,
        ),
        Scenario(
            "published scene",
            ("write_file", "read_file"),
            ([("write_file", WANTED)], [("read_file", {"path": "recovery-demo.txt"})]),
            start=interrupted(),
            before=(Said("approval", "write_file", "call_recovery_demo", None, "y"),),
        ),
    )
}

# How a call of each tool may end after two crashes, and how often it has then acted.
Ends = set[tuple[str, int]]
SURE: Ends = {("succeeded", 1)}
OPEN: Ends = {("unknown", times) for times in (0, 1)}
AGAIN: Ends = {("succeeded", times) for times in (1, 2, 3)}
ENDS: dict[tuple[str, str], Ends] = {
    ("declines", "run_bash"): SURE | OPEN,
    ("truthful", "run_bash"): SURE,
    ("declines", "send"): SURE | OPEN,
    ("truthful", "send"): SURE,
    ("mistaken", "send"): AGAIN,
    ("declines", "late"): OPEN,
    ("truthful", "late"): SURE,
    ("declines", "broken"): {("failed", 1)} | OPEN,
    ("truthful", "broken"): {("failed", 1)} | SURE,
    ("declines", "stopped"): OPEN,
    ("truthful", "stopped"): {("unknown", 1)} | SURE,
    ("declines", "halted"): OPEN,
    ("truthful", "halted"): SURE | OPEN,
    ("declines", "ask_me"): SURE | OPEN,
    ("truthful", "ask_me"): SURE,
}
MOST_ATTEMPTS = 3


def judge(world: World) -> None:
    """The invariants, and how the calls of this scenario may end."""
    story = world.story()
    check(story)
    for call in story.calls:
        if call.tool in world.scenario.refused:
            allowed: Ends = {("rejected", 0)}
        elif story.promises[call.tool] == "read_only":
            allowed = {("completed", 0), ("failed", 0)}  # failed: there is no file
        elif (world.policy, call.tool) in ENDS:
            allowed = ENDS[world.policy, call.tool]
        else:  # repeated without a question, until its attempts are used up
            started = len(list(story.ledger(tool_call_id=call.id, status="running")))
            allowed = SURE if started < MOST_ATTEMPTS else SURE | OPEN
        end = str(story.receipt_of(call)["status"]), len(story.deeds_of(call))
        if call.tool == "write_file":  # repeating it is harmless: the end state counts
            end = end[0], min(end[1], 1)
            idempotent_end_state_right(world, there=bool(end[1]))
        assert end in allowed, f"{call} ended as {end}"


def idempotent_end_state_right(world: World, *, there: bool) -> None:
    """The file holds what was wanted, if it was ever written, and nothing is left beside it."""
    wanted = WANTED if world.scenario.start else FILE
    files = {path.name: path.read_text("utf-8") for path in world.root.iterdir() if path.is_file()}
    files.pop("audit.log", None)
    assert files == ({wanted["path"]: wanted["content"]} if there else {})
