"""Prepared answers: what the offline model says next.

Rules that live here and nowhere else:

1. The next answer depends on the messages of the request and on nothing else, ids and
   token counts included. That is why it goes on rightly after a crash.
2. Bad news first: after a tool result that is unknown, rejected, in conflict or failed
   it says so and stops. It repeats nothing, whatever the script had in mind.
3. Then the script of the last user message; its answers are counted off by the assistant
   messages since. Where a script ends, or none fits, `_by_rule` has the last word.
4. A summary is an extract, and it counts the answers that it hides.

It does not know the session, the ledger or the tools; it sees what any provider sees.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from lai.extract import answers_of_turn, extract
from lai.records import JSON, Message
from lai.summary import read_request

# What it says by itself, in the language of the prompt.
WORDS = {
    "zh": {
        "unknown": "`{tool}` 的结果是 unknown：它可能已经生效，所以我不会重复执行。"
        "请先检查 `{target}` 的实际状态。",
        "rejected": "`{tool}` 没有获得批准（rejected），我就此停下。请确认是否还需要 `{target}`。",
        "conflict": "`{tool}` 的账本与这次调用不一致（conflict），这次没有执行，"
        "但更早的尝试可能已经生效。请对照会话文件检查 `{target}`。",
        "failed": "`{tool}` 失败了（failed）。{why} "
        "继续之前请检查 `{target}`：执行过的部分可能留有影响。",
        "done": "`{tool}` 已经执行（{status}）：`{target}`。",
        "read": "我读取了 `{target}`，内容是：`{content}`",
        "empty": "我读取了 `{target}`，它是空的。",
        "lost": "我处于离线状态，没有为这句话准备答案。我认识的提示有：{prompts}",
    },
    "en": {
        "unknown": "The outcome of `{tool}` is unknown: it may have taken effect, so I do not "
        "repeat it. Check the real state of `{target}` first.",
        "rejected": "`{tool}` was not approved (rejected), so I stop here. "
        "Check whether `{target}` is still wanted.",
        "conflict": "The ledger does not agree with this call of `{tool}` (conflict). It was not "
        "run now, but an earlier attempt may have acted: compare the session with `{target}`.",
        "failed": "`{tool}` failed. {why} Check `{target}` before you go on: "
        "what did run may have left traces.",
        "done": "`{tool}` did run ({status}): `{target}`.",
        "read": "I read `{target}`; it holds: `{content}`",
        "empty": "I read `{target}`; it is empty.",
        "lost": "I am offline and have no answer prepared for this. The prompts I know:{prompts}",
    },
}
BAD_NEWS = ("unknown", "rejected", "conflict", "failed")


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptCall(_Data):
    """A tool call of a scripted answer."""

    name: str
    arguments: JSON


class Answer(_Data):
    """What the assistant says next: text, calls, or both."""

    content: str = ""
    calls: tuple[ScriptCall, ...] = ()


class Script(_Data):
    """One prepared turn: the wordings it answers to, and its answers in order."""

    name: str
    prompts: tuple[str, ...] = Field(min_length=1)
    answers: tuple[Answer, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class _Result:
    """A tool result that no assistant message has answered yet, with the call it belongs to."""

    tool: str
    arguments: JSON
    result: JSON

    @property
    def target(self) -> str:
        told = {**self.result, **self.arguments}
        return str(told.get("path") or told.get("command") or told)


def next_answer(messages: Sequence[Message], scripts: Sequence[Script]) -> Message:
    """The assistant message that follows ``messages``. Pure: the same in, the same out."""
    task = read_request(messages)
    if task is not None:
        return {"role": "assistant", "content": extract(task)}
    last_user = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    prompt = _text(messages[last_user]) if last_user >= 0 else ""
    words = WORDS["zh" if any("\u4e00" <= c <= "\u9fff" for c in prompt) else "en"]
    results = _results(messages)
    done = sum(message.get("role") == "assistant" for message in messages[last_user + 1 :])
    done += answers_of_turn(messages, last_user)
    answer = (
        _bad_news(results, words)
        or _scripted(prompt, done, scripts)
        or _by_rule(results, words, scripts)
    )
    return _message(answer, messages)


def _text(message: Message) -> str:
    content = message.get("content")
    return content.strip() if isinstance(content, str) else ""


def _results(messages: Sequence[Message]) -> list[_Result]:
    """The tool results at the end of the request."""
    end = len(messages)
    while end and messages[end - 1].get("role") == "tool":
        end -= 1
    asked = messages[end - 1].get("tool_calls") or [] if end else []
    calls = {call.get("id"): call.get("function") or {} for call in asked}
    found = []
    for message in messages[end:]:
        function = calls.get(message.get("tool_call_id"), {})
        arguments, result = _object(function.get("arguments")), _object(message.get("content"))
        found.append(_Result(function.get("name", "?"), arguments, result))
    return found


def _object(text: object) -> JSON:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _bad_news(results: list[_Result], words: dict[str, str]) -> Answer | None:
    if not any(one.result.get("status") in BAD_NEWS for one in results):
        return None
    said = []
    for one in results:
        status = one.result.get("status")
        why = one.result.get("message") or ""
        text = words[status if status in BAD_NEWS else "done"]
        told = text.format(tool=one.tool, target=one.target, why=why, status=status)
        said.append(told.replace("  ", " "))
    return Answer(content="\n".join(said))


def _scripted(prompt: str, done: int, scripts: Sequence[Script]) -> Answer | None:
    for script in scripts:
        if done < len(script.answers) and any(_asks(prompt, known) for known in script.prompts):
            return script.answers[done]
    return None


def _asks(prompt: str, known: str) -> bool:
    """Whether the prompt is a known one, perhaps with the note of a verdict in front of it."""
    note = prompt.casefold().removesuffix(known.casefold())
    if len(note) == len(prompt.casefold()):
        return False
    return not note.rstrip()[-1:].isalnum()  # "do not append a line …" is another wish


def _by_rule(results: list[_Result], words: dict[str, str], scripts: Sequence[Script]) -> Answer:
    for one in results:
        match one.tool:
            case "write_file":
                return Answer(calls=(ScriptCall(name="read_file", arguments={"path": one.target}),))
            case "read_file":
                content = str(one.result.get("content") or "")
                text = words["read" if content else "empty"]
                return Answer(content=text.format(target=one.target, content=content))
    prompts = "".join(f"\n- {prompt}" for script in scripts for prompt in script.prompts)
    return Answer(content=words["lost"].format(prompts=prompts))


def _message(answer: Answer, messages: Sequence[Message]) -> Message:
    """The answer in chat form. A call's id is a hash of what it answers, and of its place."""
    canonical = json.dumps(messages, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    calls = []
    for index, call in enumerate(answer.calls):
        digest = hashlib.sha256(f"{canonical}{index}".encode()).hexdigest()
        text = json.dumps(call.arguments, ensure_ascii=False)
        function = {"name": call.name, "arguments": text}
        calls.append({"id": f"call_{digest[:24]}", "type": "function", "function": function})
    message: Message = {"role": "assistant", "content": answer.content}
    return {**message, "tool_calls": calls} if calls else message
