"""What the memory of another library holds after a timeout: ``smolagents``, the real package.

An optional part: without the package, ``remembered`` says so and nothing else is lost.

The agent's one tool posts to the report service and loses the answer. Its model is a
script. What is looked at afterwards is what the library itself offers: the steps of its
memory, what ``replay`` prints, and the files that ``save`` writes. Nothing here says that
they are bad at what they are for, which is looking at a run, and sharing an agent.
"""

import contextlib
import importlib.util
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSTALL = "smolagents is not installed, so this part is left out: pip install 'lai[compare]'"


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was found where, each as plain text."""

    steps: str  # the memory, as JSON
    replay: str  # what was printed
    saved: str  # all files that were written
    answer: str  # the agent's own last word


def available() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("smolagents") is not None


def remembered(url: str, folder: Path) -> Remembered:
    """Run an agent of ``smolagents`` whose tool posts to ``url``, and look at what is kept.

    ``folder`` gets the files of ``save``. The tool is told the address by the environment,
    because ``save`` wants tools that stand by themselves.
    """
    import smolagents  # optional, like what it brings: only here
    from rich.console import Console
    from smolagents.monitoring import AgentLogger

    class CreateReport(smolagents.Tool):  # type: ignore[misc]
        name = "create_report"
        description = "Have a report made."
        inputs = {"title": {"type": "string", "description": "Its title."}}  # noqa: RUF012
        output_type = "string"

        def forward(self, title: str) -> str:
            import os

            import httpx2

            with httpx2.Client(timeout=0.3, trust_env=False) as http:
                reply = http.post(
                    os.environ["REPORTS_URL"] + "/reports",
                    json={"title": title, "lines": []},
                    headers={"Idempotency-Key": "smol-1", "Api-Version": "v1"},
                )
            return str(reply.text)

    with _environment("REPORTS_URL", url):
        printed = io.StringIO()
        logger = AgentLogger(console=Console(file=printed, force_jupyter=False, width=120))
        agent = smolagents.ToolCallingAgent([CreateReport()], _script(smolagents), logger=logger)
        answer = str(agent.run("一份测试报告"))
    steps = json.dumps(agent.memory.get_full_steps(), ensure_ascii=False, default=str)
    printed.truncate(0)  # what was printed while it ran is not what is asked about
    agent.replay(detailed=True)
    agent.save(folder)
    files = [path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.is_file()]
    return Remembered(steps, printed.getvalue(), "\n".join(files), answer)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def _script(library: Any) -> Any:
    """A model that asks for the report, hears the error, and ends."""
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

    plan = [
        ("create_report", {"title": "测试报告"}),
        ("final_answer", {"answer": "no answer came"}),
    ]

    class Script(library.Model):  # type: ignore[misc]
        def generate(self, *_: Any, **__: Any) -> Any:
            name, arguments = plan.pop(0)
            function = ChatMessageToolCallFunction(name=name, arguments=arguments)
            call = ChatMessageToolCall(id=f"call_{len(plan)}", type="function", function=function)
            return library.ChatMessage(role="assistant", content="", tool_calls=[call])

    return Script()
