"""A provider without a network: chat completions in this process.

The real `openai` client talks to it over an `httpx2` transport that opens no socket, so
offline lessons take the code path of a live model, streaming included. What it answers
is decided in ``prepared``, from the scripts in data/scripts; here it becomes HTTP. It
depends on the request and on nothing else: ids, pieces and token counts included.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import openai
from pydantic import ValidationError

from lai.prepared import Script, next_answer
from lai.records import JSON, LaiError, Message
from lai.tokens import estimate_message, estimate_tools

SCRIPTS = Path(__file__).resolve().parents[1] / "data" / "scripts"
PIECE = 7  # characters in one streamed piece: small, so that streaming is visible


def load_scripts(folder: Path = SCRIPTS) -> tuple[Script, ...]:
    """The scripts of a folder, in the order of their file names."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise LaiError(f"no scripts in {folder}: the course runs from its checkout, with data/")
    return tuple(_load(file) for file in files)


def _load(file: Path) -> Script:
    try:
        return Script.model_validate_json(file.read_bytes())
    except (ValidationError, OSError) as cause:
        raise LaiError(f"{file} is no script: {cause}") from cause


def offline_client(folder: Path = SCRIPTS) -> openai.OpenAI:
    """The real client, with the scripts of ``folder`` in the place of a network."""
    scripts = load_scripts(folder)

    def handle(request: httpx2.Request) -> httpx2.Response:
        if not request.url.path.endswith("/chat/completions"):
            return httpx2.Response(404, json={"error": {"message": "only chat completions here"}})
        return _respond(json.loads(request.content), scripts)

    return openai.OpenAI(
        base_url="http://offline.invalid/v1",
        api_key="offline",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle), trust_env=False),
    )


def _respond(body: JSON, scripts: Sequence[Script]) -> httpx2.Response:
    message = next_answer(body["messages"], scripts)
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    # No tokenizer: an estimate, and always the same one.
    sent = sum(map(estimate_message, body["messages"])) + estimate_tools(body.get("tools") or [])
    said = estimate_message(message)
    usage = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    base: JSON = {"id": "chatcmpl-offline", "created": 0, "model": body.get("model", "offline")}
    if not body.get("stream"):
        choice: JSON = {"index": 0, "message": message, "finish_reason": finish}
        return httpx2.Response(
            200, json={**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        )
    choices = [[{"index": 0, "delta": d, "finish_reason": None}] for d in _deltas(message)]
    chunks: list[JSON] = [{"choices": one} for one in choices]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({"choices": [], "usage": usage})
    lines = [json.dumps({**base, "object": "chat.completion.chunk", **c}) for c in chunks]
    sse = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"])
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=sse)


def _deltas(message: Message) -> Iterator[JSON]:
    yield {"role": "assistant", "content": ""}
    yield from ({"content": piece} for piece in _pieces(message["content"]))
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        start = {**call, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **start}]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[i : i + PIECE] for i in range(0, len(text), PIECE))
