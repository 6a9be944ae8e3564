"""Where answers come from: the `openai` client, live or offline, or a script.

A model is a function: messages and tool schemas in, one :class:`Reply` out. The loop
knows nothing else about it.

Rules that live here and nowhere else:

1. Whatever goes wrong with a provider is a :class:`ModelError`, which says where, what
   was said, and what to check. Nothing of a failed answer is kept.
2. An error holds no piece of the API key, whoever wrote the text.
3. A person who presses Ctrl-C is no error of the model: the interrupt passes.

How the pieces of an answer become a reply is in ``replies``. It does not know sessions,
tools or recovery: whether a call makes sense is for the agent to say.
"""

import codecs
import copy
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import Any

import httpx2
import openai

from lai.budget import Budget
from lai.calls import arguments_text
from lai.extract import answers_before, extract
from lai.offline import offline_client
from lai.records import JSON, LaiError, Message
from lai.replies import Answer, Reply
from lai.summary import read_request

OnText = Callable[[str], None]
DEFAULT_MODEL = "gpt-5-mini"
DEFAULT_WINDOW = 128_000  # tokens: less than today's large models have, more than most need
SHORT = 300  # characters quoted of what a provider said
TIMEOUT = httpx2.Timeout(120, connect=10)  # seconds; 120 between two pieces of an answer
FAILURES = (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError)
# What to check, by what went wrong; the first row that fits.
ADVICE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((openai.AuthenticationError, openai.PermissionDeniedError), "Check OPENAI_API_KEY. "),
    (openai.NotFoundError, "Check OPENAI_BASE_URL and OPENAI_MODEL. "),
    (openai.RateLimitError, "Wait a little, or check the limits of the account. "),
    (openai.APIConnectionError, "Check OPENAI_BASE_URL and the network. "),
    (openai.InternalServerError, "The trouble is on the other side: wait a little. "),
    (openai.APIStatusError, "Check OPENAI_MODEL and how long the session has grown. "),
    (ValueError, "If this repeats, check that OPENAI_BASE_URL speaks chat completions. "),
)


class ModelError(LaiError):
    """The model gave no usable answer. Nothing of it is recorded; the turn can go on later."""


Model = Callable[[list[Message], list[JSON]], Reply]


def openai_model(client: openai.OpenAI, name: str, on_text: OnText | None = None) -> Model:
    """The model ``name`` of a chat completions provider.

    ``on_text`` gets text as it comes; a summary is not said to anyone.
    """

    def model(messages: list[Message], tools: list[JSON]) -> Reply:
        answer, tell = Answer(), on_text if read_request(messages) is None else None
        with closing(_pieces(client, name, messages, tools, answer)) as pieces:
            for piece in pieces:  # outside of _pieces: an error of on_text is not the provider's
                if tell and piece:
                    tell(piece)
        return answer.reply()

    return model


def _pieces(
    client: openai.OpenAI, name: str, messages: list[Any], tools: list[Any], answer: Answer
) -> Generator[str, None, None]:
    # A pair of surrogates may arrive in two pieces: the decoder holds the first one back.
    text = codecs.getincrementaldecoder("utf-16-le")("replace")
    try:
        with client.chat.completions.create(
            model=name,
            messages=messages,
            tools=tools or openai.omit,  # some providers refuse an empty list
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            for chunk in _chunks(stream):
                yield text.decode(answer.add(chunk).encode("utf-16-le", "surrogatepass"))
        yield text.decode(b"", final=True)
        answer.reply()
    except FAILURES as error:
        failure = _failure(client, name, error)
    else:
        return
    raise failure  # out here, so that no traceback shows the provider's own words


def _chunks(stream: openai.Stream[Any]) -> Iterator[Any]:
    response = stream.response
    plain = "json" in response.headers.get("content-type", "")
    if plain and response.read().lstrip().startswith(b"{"):  # a server that cannot stream
        yield response.json()
        return
    for chunk in stream:
        yield chunk.to_dict(warnings=False) if hasattr(chunk, "to_dict") else chunk


def _failure(client: openai.OpenAI, name: str, error: Exception) -> ModelError:
    url = client.base_url
    address = f"{url.scheme}://{url.netloc.decode()}{url.path.rstrip('/')}"
    kind = "" if type(error) is ValueError else f"{type(error).__name__}:"  # else our own words
    body = getattr(error, "body", None)  # openai quotes no body that is not JSON
    parts = (kind, error, error.__cause__, body if isinstance(body, str) else "")
    said = " ".join(str(part) for part in parts if part)[:20_000]
    said = "".join(c if c.isprintable() else " " for c in said)
    said = " ".join(_redact(said, client.api_key).split())
    short = said if len(said) <= SHORT else f"{said[:SHORT]}…"
    advice = next((text for kinds, text in ADVICE if isinstance(error, kinds)), "")
    return ModelError(
        f"no usable answer from {_redact(f'{name} at {address}', client.api_key)}: {short}. "
        f"{advice}Nothing of the answer was recorded; the turn is kept and can go on later."
    )


def _redact(text: str, key: str) -> str:
    """``text`` without the key, and without any piece of it of 8 characters or more."""
    size = min(len(key), 8)
    pieces = {key[i : i + size] for i in range(len(key) - size + 1)} if size else set()
    starts = [i for i in range(len(text)) if text[i : i + size] in pieces]
    hidden = {i + k for i in starts for k in range(size)}
    runs = groupby(range(len(text)), key=hidden.__contains__)
    return "".join("[key]" if secret else "".join(text[i] for i in run) for secret, run in runs)


Prepared = Message | str | Sequence[tuple[str, JSON | str]] | Reply


def scripted(replies: Sequence[Prepared]) -> Model:
    """A model that answers from a list: a text, ``(tool, arguments)`` pairs, or a whole message.

    The number of assistant messages in the request selects the answer, so that the
    script goes on rightly after a crash; asked for a summary, it gives an extract that
    counts the answers it hides. Calls are named ``call_1``, ``call_2``, … over
    the whole script. Past its end it raises :class:`ModelError`.
    """
    replies = copy.deepcopy(list(replies))
    numbers, made = [], 0  # how many calls stand before each reply
    for reply in replies:
        numbers.append(made + 1)
        made += len(_scripted_reply(reply, 0).message.get("tool_calls") or ())

    def model(messages: list[Message], _tools: list[JSON]) -> Reply:
        task = read_request(messages)
        if task is not None:
            return _scripted_reply(extract(task), 0)
        number = sum(message.get("role") == "assistant" for message in messages)
        number += answers_before(messages)
        if number >= len(numbers):
            raise ModelError(
                f"the script has {len(numbers)} answers, and answer number {number + 1} was asked "
                "for: make the script longer, or check why the turn goes on"
            )
        return _scripted_reply(replies[number], numbers[number])  # made anew: it is the caller's

    return model


def _scripted_reply(reply: Prepared, number: int) -> Reply:
    if isinstance(reply, Reply):
        return copy.deepcopy(reply)
    match reply:
        case str():
            message: Message = {"role": "assistant", "content": reply}
        case dict():
            message = copy.deepcopy(reply)
        case _:
            calls = [_call(f"call_{number + i}", *pair) for i, pair in enumerate(reply)]
            message = {"role": "assistant", "content": "", "tool_calls": calls}
    return Reply(message, "tool_calls" if message.get("tool_calls") else "stop", None)


def _call(call_id: str, name: str, arguments: JSON | str) -> JSON:
    function = {"name": name, "arguments": arguments_text(arguments)}
    return {"id": call_id, "type": "function", "function": function}


def offline_model(on_text: OnText | None = None) -> Model:
    """The model that needs no key and no network: scripts in data/, through the real client."""
    return openai_model(offline_client(), "offline", on_text)


def model_from_environment(on_text: OnText | None = None) -> tuple[Model, str]:
    """The model that OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL name, and its description."""
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        return (
            offline_model(on_text),
            "offline: scripted answers from data/ (set OPENAI_API_KEY to go live)",
        )
    name = os.environ.get("OPENAI_MODEL", "").strip() or DEFAULT_MODEL
    address = os.environ.get("OPENAI_BASE_URL", "").strip() or "https://api.openai.com/v1"
    if "@" in address.partition("//")[2].partition("/")[0] or "//" not in address:
        raise ModelError(
            "OPENAI_BASE_URL is an address like https://host/v1, without user and password: "
            "they would stand in logs. The key belongs into OPENAI_API_KEY"
        )
    try:
        client = openai.OpenAI(api_key=key, base_url=address, timeout=TIMEOUT, max_retries=2)
    except httpx2.InvalidURL as error:
        raise ModelError(f"OPENAI_BASE_URL is no address: {error}") from None
    except (OSError, ValueError, ImportError, openai.OpenAIError) as error:
        said = _redact(str(error), key)
        raise ModelError(f"no client can be made with this environment: {said}") from None
    host = client.base_url.netloc.decode()
    return openai_model(client, name, on_text), f"live: {name} at {host}"


def budget_from_environment() -> Budget:
    """The budget for the window that AGENT_CONTEXT_WINDOW gives in tokens, 128,000 without it."""
    text = os.environ.get("AGENT_CONTEXT_WINDOW", "").strip() or str(DEFAULT_WINDOW)
    try:
        return Budget(window=int(text.replace(",", "").replace("_", "")))
    except (ValueError, LaiError):
        raise LaiError(
            f"AGENT_CONTEXT_WINDOW is {text!r}; give the model's window as a number of tokens, "
            f"like {DEFAULT_WINDOW}"
        ) from None
