"""What a step costs in a long session, by python tests/bench/bench_length.py.

A step is one append and one decision, at 100 records and at 100,000. Both sessions are open in
one process and take the seven steps of a turn one after the other; the ratio of the medians
counts. It prints figures and targets and never fails: time is no test. Opening a long session
is printed for information.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

from lai import Agent, Arguments, Effect, Session, Tool, arguments_sha256, scripted
from lai.records import Record, Status, execution_record, message_record, result_message

SHORT, LONG = 100, 100_000
TURNS = 100
TARGET = 1.2


class Text(Arguments):
    """One text."""

    text: str


def turn(number: int) -> list[Record]:
    """The seven records of a turn with one call."""
    arguments = {"text": f"第 {number} 次"}
    call_id, execution_id = f"call_{number}", f"exec_{number:032x}"
    function = {"name": "send", "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    ledger = [
        execution_record(
            execution_id,
            call_id,
            status,
            result={} if status is Status.SUCCEEDED else None,
            tool_name="send",
            key=f"send:{call_id}",
            sha256=arguments_sha256(arguments),
        )
        for status in (Status.APPROVED, Status.RUNNING, Status.SUCCEEDED)
    ]
    return [
        message_record({"role": "user", "content": f"再来一次 {number}"}),
        message_record({"role": "assistant", "content": "", "tool_calls": [call]}),
        *ledger,
        message_record(result_message(call_id, {"status": "succeeded"})),
        message_record({"role": "assistant", "content": "完了"}),
    ]


def agent_at(path: Path, length: int) -> Agent:
    """An agent on a session of about that many records, in whole turns."""
    records = [record for number in range(length // 7) for record in turn(number)]
    lines = (json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in records)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    start = time.perf_counter()
    session = Session.open(path, fsync=lambda _: None)  # the disk's share hides the rest
    tool = Tool(
        name="send",
        description="",
        arguments=Text,
        run=lambda arguments, _run: arguments,
        effect=Effect.OPAQUE,
    )
    agent = Agent(session, scripted([]), [tool], ask=None)
    print(f"opening {length:7,} records: {time.perf_counter() - start:.3f} s")
    return agent


def steps(agent: Agent, records: list[Record]) -> float:
    """The mean time of an append and a decision, in seconds."""
    start = time.perf_counter()
    for record in records:
        agent.journal.append(record)
        agent.next_action()
    return (time.perf_counter() - start) / len(records)


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agents = {n: agent_at(folder / f"session-{n}.jsonl", n) for n in (SHORT, LONG)}
        times: dict[int, list[float]] = {SHORT: [], LONG: []}
        for number in range(LONG, LONG + TURNS):
            for length, agent in agents.items():
                times[length].append(steps(agent, turn(number)))
        short, long = (statistics.median(times[length]) * 1e6 for length in (SHORT, LONG))
        print(
            f"append and decide: {short:.1f} µs at {SHORT} records, {long:.1f} µs at {LONG:,}, "
            f"ratio {long / short:.2f} (target: at most {TARGET})"
        )
        for agent in agents.values():
            agent.journal.session.close()


if __name__ == "__main__":
    main()
