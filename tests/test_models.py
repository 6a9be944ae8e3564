"""Answers come whole or not at all, and the offline model takes the road of a live one."""

import json
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lai.calls import arguments_sha256
from lai.models import (
    ModelError,
    model_from_environment,
    offline_model,
    openai_model,
    scripted,
)
from lai.offline import load_scripts, offline_client
from lai.prepared import next_answer
from lai.records import LaiError, encode, message_record, result_message
from lai.replies import Reply

CASES = Path(__file__).parent / "data" / "cases"
KEY = "sk-proj-geheim-8f2c41d7aa90"
USER = {"role": "user", "content": "你好，世界"}
WRITE = "请调用 write_file 工具，在当前 Workspace 创建 ledger-demo.txt，内容必须恰好是 hello ledger。不要使用 run_bash。"  # noqa: E501
RECOVER = "请把 recovery-demo.txt 的完整内容设置为 recovered"
Handler = Callable[[httpx2.Request], httpx2.Response]


class Pieces(httpx2.SyncByteStream):
    """A body that arrives in the given pieces; an exception among them breaks the connection."""

    def __init__(self, *pieces: bytes | BaseException) -> None:
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, BaseException):
                raise piece
            yield piece


def client(handler: Handler, key: str = KEY) -> openai.OpenAI:
    """The real client over a transport that answers in this process."""
    http = httpx2.Client(transport=httpx2.MockTransport(handler), trust_env=False)
    return openai.OpenAI(
        base_url="http://model.invalid:8080/v1", api_key=key, max_retries=0, http_client=http
    )


def reply_to(response: httpx2.Response, on_text: Callable[[str], None] | None = None) -> Reply:
    """What the model makes of one response."""
    return openai_model(client(lambda _: response), "prov/模型", on_text)([USER], [])


def streamed(*pieces: bytes | BaseException) -> httpx2.Response:
    """An SSE response."""
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, stream=Pieces(*pieces)
    )


def chunk(delta: Any, finish: Any = None) -> bytes:
    """One SSE event with a delta."""
    body = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(body)}\n\n".encode()


def answer(*deltas: Any, finish: str = "stop") -> httpx2.Response:
    """A whole stream: the deltas, the end, the usage."""
    usage = b'data: {"choices": [], "usage": {"total_tokens": 7}}\n\n'
    return streamed(*map(chunk, deltas), chunk({}, finish), usage, b"data: [DONE]\n\n")


def call(index: int | None, name: str | None, arguments: Any, call_id: str | None = None) -> Any:
    """A delta with one piece of a tool call; None leaves a field out."""
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": call_id, "type": "function" if call_id else None}
    kept = {k: v for k, v in piece.items() if v is not None}
    return {"tool_calls": [{**kept, "function": {k: v for k, v in function.items() if v}}]}


def calls(reply: Reply) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls of a reply."""
    made = reply.message["tool_calls"]
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in made]


def error_of(response: httpx2.Response) -> str:
    """The text of the ModelError that a response leads to."""
    with pytest.raises(ModelError) as caught:
        reply_to(response)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return str(caught.value)


# --- reading an answer ------------------------------------------------------------------


def test_text() -> None:
    """Text is handed on as it comes and joined in the reply, with reason and usage."""
    seen: list[str] = []
    reply = reply_to(answer({"role": "assistant"}, {"content": "一\u2028"}, {"content": "二\x85"}),
                     seen.append)  # fmt: skip
    assert seen == ["一\u2028", "二\x85"]
    message = {"role": "assistant", "content": "一\u2028二\x85"}
    assert reply == Reply(message, "stop", {"total_tokens": 7})


def test_calls_in_pieces() -> None:
    """A call whose name, id and arguments come in pieces is put together by its index."""
    reply = reply_to(
        answer(
            {"role": "assistant", "content": None},
            call(0, "write_", '{"path": "日', "call_a"),
            call(1, "read_file", "{", "call_b"),
            call(0, "file", '记.txt"'),
            call(1, None, '"path": "b"}'),
            call(0, None, "}"),
            finish="tool_calls",
        )
    )
    assert json.dumps(reply.message, ensure_ascii=False) == (
        '{"role": "assistant", "content": "", "tool_calls": ['
        '{"id": "call_a", "type": "function", "function": '
        '{"name": "write_file", "arguments": "{\\"path\\": \\"日记.txt\\"}"}}, '
        '{"id": "call_b", "type": "function", "function": '
        '{"name": "read_file", "arguments": "{\\"path\\": \\"b\\"}"}}]}'
    )


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        pytest.param(
            [call(None, "a", "{", "x"), call(None, None, "}"), call(None, "b", "{}", "y")],
            [("x", "a", "{}"), ("y", "b", "{}")],
            id="no index",
        ),
        pytest.param(
            [call(None, "a", "{}"), call(None, "b", "{}")],
            [("", "a", "{}"), ("", "b", "{}")],
            id="neither index nor id",
        ),
        pytest.param(
            [call(0, "a", "{}", "x"), call(0, "b", "{}", "y")],
            [("x", "a", "{}"), ("y", "b", "{}")],
            id="every index 0",
        ),
        pytest.param(
            [call(0, "a", "{", "x"), call(0, "a", "}", "x")],
            [("x", "a", "{}")],
            id="name and id in every piece",
        ),
        pytest.param(
            [call(1, "b", "{}", "x"), call(0, "a", "{}", "x")],
            [("x", "a", "{}"), ("x", "b", "{}")],
            id="out of order, one id twice",
        ),
        pytest.param(
            [call(0, "a", {"路": "径"}, "x")], [("x", "a", '{"路": "径"}')], id="an object"
        ),
        pytest.param([call(0, "a", None, "x")], [("x", "a", "")], id="no arguments"),
    ],
)
def test_sloppy_calls(deltas: list[Any], expected: list[tuple[str, str, str]]) -> None:
    """Calls that a provider numbers, names or types badly still come out apart and whole."""
    reply = reply_to(answer(*deltas, finish="tool_calls"))
    assert calls(reply) == expected
    assert all(c["type"] == "function" for c in reply.message["tool_calls"])


def test_unknown_fields() -> None:
    """What a provider adds is kept behind the known keys: text joined, nulls left out."""
    signed = call(0, "a", "{}", "x")
    signed["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "签"}}
    reply = reply_to(
        answer(
            {"reasoning_content": "先想", "refusal": None, "details": [1]},
            {"reasoning_content": "再做", "details": [2]},
            signed,
        )
    )
    assert list(reply.message) == [
        *("role", "content", "tool_calls", "reasoning_content", "details"),
    ]
    assert reply.message["reasoning_content"] == "先想再做"
    assert reply.message["details"] == [1, 2]
    made = reply.message["tool_calls"][0]
    assert list(made) == ["id", "type", "function", "extra_content"]
    assert made["extra_content"] == {"google": {"thought_signature": "签"}}


def test_surrogates() -> None:
    """A pair cut in two is joined, a lone surrogate is replaced, and the rest can be written."""
    seen: list[str] = []
    deltas = [{"content": "a\ud83d"}, {"content": "\ude00界\ud800"}, {"thought": "\udfff", "n": 1}]
    reply = reply_to(answer(*deltas, call(0, "a", {"k": "\ud800"}, "x")), seen.append)
    assert "".join(seen) == reply.message["content"] == "a😀界\ufffd"
    assert reply.message["thought"] == "\ufffd"
    assert calls(reply) == [("x", "a", '{"k": "\ufffd"}')]
    "".join(seen).encode()
    encode(message_record(reply.message))


def test_nan_in_an_unknown_field() -> None:
    """A NaN, which no record can hold, becomes null."""
    assert reply_to(answer({"content": "好", "score": float("nan")})).message["score"] is None


def test_plain_json() -> None:
    """A server that ignores `stream` and sends one JSON body is understood (K7-03)."""
    body = json.loads((CASES / "K7-03.response.json").read_text(encoding="utf-8"))
    reply = reply_to(httpx2.Response(200, json=body))
    expected = body["choices"][0]["message"]
    assert reply == Reply(expected, "tool_calls", None)
    assert list(reply.message) == list(expected)


def test_plain_json_with_one_id_twice() -> None:
    """Two calls of one message stay two, even under one id."""
    made = [
        {"id": "x", "type": "function", "function": {"name": "a", "arguments": '{"n": 1}'}},
        {"id": "x", "type": "function", "function": {"name": "a", "arguments": '{"n": 2}'}},
    ]
    choice = {"message": {"content": None, "tool_calls": made}, "finish_reason": "tool_calls"}
    reply = reply_to(httpx2.Response(200, json={"choices": [choice]}))
    assert reply.message["tool_calls"] == made


def test_stream_labelled_as_json() -> None:
    """A stream under the content type of plain JSON is read as the stream it is."""
    labelled = answer({"content": "好"})
    labelled.headers["content-type"] = "application/json"
    assert reply_to(labelled).message["content"] == "好"


def test_object_arguments_hash_as_text() -> None:
    """Arguments sent as an object are stored as text and hash like it (K7-05)."""
    body = json.loads((CASES / "K7-05.response.json").read_text(encoding="utf-8"))
    case = json.loads((CASES / "K7-05.case.json").read_text(encoding="utf-8"))
    [(call_id, name, text)] = calls(reply_to(httpx2.Response(200, json=body)))
    assert (call_id, name, text) == ("call_o", "write_file", '{"path": "a.txt", "content": "hi"}')
    assert arguments_sha256(json.loads(text)) == case["expect"]["arguments_sha256"]


def test_length() -> None:
    """A reply that ends at the length limit is a reply; its reason says so."""
    assert reply_to(answer({"content": "写到一"}, finish="length")).finish_reason == "length"


WHOLE = b"".join(
    [
        *(chunk({"content": "第一\u2028行😀", "reasoning_content": "想"}), b": keep-alive\n\n"),
        *(chunk(call(0, "write_file", '{"path": "日', "c")), chunk(call(0, None, '志"}'))),
        *(chunk({}, "tool_calls"), b"data: [DONE]\n\n"),
    ]
)


@given(
    cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_any_splitting(cuts: list[int], newline: bytes) -> None:
    """However the network cuts an answer into pieces, the reply is the same."""
    body = WHOLE.replace(b"\n", newline)
    edges = sorted({0, *cuts, len(body)})
    pieces = [body[start:end] for start, end in pairwise(edges)]
    assert reply_to(streamed(*pieces)) == reply_to(streamed(WHOLE))


@given(st.lists(st.integers(0, 40), max_size=8))
def test_any_deltas(cuts: list[int]) -> None:
    """However a provider cuts text and arguments into deltas, the reply is the same."""
    text = json.dumps({"path": "日志.txt", "content": "😀\u2028\n"}, ensure_ascii=False)
    edges = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[start:end] for start, end in pairwise(edges)]
    deltas = [{"content": piece} for piece in pieces]
    deltas += [call(0, "write_file", "", "c"), *(call(0, None, piece) for piece in pieces)]
    reply = reply_to(answer(*deltas))
    assert reply.message["content"] == text
    assert calls(reply) == [("c", "write_file", text)]


# --- no answer --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_refused(status: int) -> None:
    """A refusal names model, address, status, what was said, and what to do next."""
    said = error_of(httpx2.Response(status, json={"error": {"message": "额度已用完"}}))
    for part in ("prov/模型", "http://model.invalid:8080/v1", str(status), "额度已用完", "kept"):
        assert part in said
    assert "can go on later" in said


@pytest.mark.parametrize(
    "echo", [KEY, f"Bearer {KEY}!", KEY[:14], KEY[9:], f"密钥{KEY}{KEY}", "x" * 290 + KEY]
)
def test_key_is_never_shown(echo: str) -> None:
    """No piece of the key gets into an error, though the provider echoes it."""
    responses = [
        httpx2.Response(401, json={"error": {"message": f"Incorrect API key: {echo}"}}),
        httpx2.Response(500, text=f"<html>{echo}</html>"),
        httpx2.Response(200, json={"error": {"message": echo}}),
        streamed(chunk({"content": {"echo": echo}})),
        streamed(f'data: {{"error": {{"message": "{echo}"}}}}\n\n'.encode()),
        streamed(httpx2.ReadError(echo)),
    ]
    for response in responses:
        said = error_of(response)
        assert not any(KEY[i : i + 8] in said for i in range(len(KEY) - 7)), said


def test_long_and_ugly_words_are_cut() -> None:
    """What a provider says is quoted short, on one line, without control characters."""
    said = error_of(httpx2.Response(502, text="<p>\x1b[31m\n坏了" * 5000))
    assert "502 <p> [31m 坏了" in said
    assert len(said) < 800
    assert said.isprintable()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param([b"data: {nope\n\n"], id="no JSON"),
        pytest.param([b"data: \xff\xfe\n\n"], id="no UTF-8"),
        pytest.param([b"data: " + b"[" * 200_000 + b"\n\n"], id="too deep"),
        pytest.param([b"data: [1]\n\n"], id="a list"),
        pytest.param([b'data: "s"\n\n'], id="a text"),
        pytest.param([b'data: {"choices": {"a": 1}}\n\n'], id="choices no list"),
        pytest.param([b'data: {"choices": [3]}\n\n'], id="a choice no object"),
        pytest.param([chunk("x")], id="a delta no object"),
        pytest.param([chunk({"content": 5})], id="content no text"),
        pytest.param([chunk({"tool_calls": [5]})], id="a call no object"),
        pytest.param([chunk({"tool_calls": [{"function": "f"}]})], id="a function no object"),
        pytest.param([chunk({"content": "好"}, 3)], id="reason no text"),
        pytest.param([], id="nothing"),
        pytest.param([b"<html>\xe5\xa5\xbd</html>"], id="a web page"),
        pytest.param([b"data: [DONE]\n\n"], id="only the end"),
        pytest.param([chunk({"content": "半"})], id="cut, the connection closed in order"),
        pytest.param([chunk({"content": "半"}), b"data: [DONE]\n\n"], id="no reason, but DONE"),
        pytest.param([chunk({"content": "半"}), b'data: {"choi'], id="cut inside of a chunk"),
        pytest.param(
            [chunk({"content": "半"}), httpx2.RemoteProtocolError("peer closed")], id="broken"
        ),
        pytest.param([chunk({"content": "半"}), httpx2.ReadTimeout("slow")], id="a timeout"),
        pytest.param([chunk(call(0, "write_file", '{"pa', "c"))], id="cut inside of arguments"),
        pytest.param([chunk({"content": None}, "stop")], id="null content, no calls"),
        pytest.param([chunk({}, "stop")], id="no content, no calls"),
        pytest.param([chunk({"content": " \n"}, "content_filter")], id="blank, no calls"),
        pytest.param([chunk({"content": "", "tool_calls": []}, "stop")], id="empty list of calls"),
    ],
)
def test_no_half_answers(body: list[bytes | BaseException]) -> None:
    """A garbled, cut or empty answer is an error and never a reply (K7-07)."""
    assert "can go on later" in error_of(streamed(*body))


@pytest.mark.parametrize("error", [httpx2.ConnectError("无路由"), httpx2.ConnectTimeout("slow")])
def test_transport_errors(error: Exception) -> None:
    """A connection that fails is a ModelError that quotes the reason."""

    def handler(_: httpx2.Request) -> httpx2.Response:
        raise error

    with pytest.raises(ModelError, match=str(error)):
        openai_model(client(handler), "m")([USER], [])


def test_closed_port() -> None:
    """A refused TCP connection, a real one, is a ModelError."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        http = httpx2.Client(trust_env=False, verify=False)  # plain HTTP: no trust store to load
        live = openai.OpenAI(base_url=address, api_key=KEY, max_retries=0, http_client=http)
        with live, pytest.raises(ModelError, match="refused") as caught:
            openai_model(live, "m")([USER], [])
    assert address in str(caught.value)


def test_interrupt_passes() -> None:
    """Ctrl-C in the middle of an answer stays a KeyboardInterrupt."""
    with pytest.raises(KeyboardInterrupt):
        reply_to(streamed(chunk({"content": "半"}), KeyboardInterrupt()))


def test_errors_of_the_reader_are_not_the_models() -> None:
    """An exception of on_text is raised as it is."""

    def broken(_: str) -> None:
        raise ValueError("纸用完了")

    with pytest.raises(ValueError, match="纸用完了"):
        reply_to(answer({"content": "好"}), broken)


# --- what is sent -----------------------------------------------------------------------


def test_request() -> None:
    """The request streams, asks for usage, carries messages as they are, and no empty tools."""
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        return answer({"content": "好"})

    tool = {"type": "function", "function": {"name": "a", "parameters": {}}}
    messages = [USER, {"role": "assistant", "content": "嗯", "reasoning_content": "想"}]
    model = openai_model(client(handler), "m")
    model(messages, [])
    model(messages, [tool])
    common = {"model": "m", "messages": messages, "stream": True}
    common["stream_options"] = {"include_usage": True}
    assert sent == [common, {**common, "tools": [tool]}]


# --- scripted ---------------------------------------------------------------------------


def test_scripted() -> None:
    """The number of assistant messages selects the answer; calls are numbered over the script."""
    pairs = [("write_file", {"path": "日.txt"}), ("run_bash", "{broken")]
    model = scripted([pairs, [("read_file", {})], {"role": "assistant", "content": "三"}, "四"])
    history = [USER]
    for _ in range(4):
        reply = model(history, [])
        assert model(history, []) == reply
        history.append(reply.message)
    assert calls(Reply(history[1], None, None)) == [
        ("call_1", "write_file", '{"path": "日.txt"}'),
        ("call_2", "run_bash", "{broken"),
    ]
    assert calls(Reply(history[2], None, None)) == [("call_3", "read_file", "{}")]
    assert [m["content"] for m in history[3:]] == ["三", "四"]
    assert model([USER], []).finish_reason == "tool_calls"
    with pytest.raises(ModelError, match="4 answers, and answer number 5"):
        model(history, [])


def test_scripted_keeps_its_own() -> None:
    """Changing a reply, or what the script was made from, changes no later answer."""
    mine = {"role": "assistant", "content": "原"}
    model = scripted([mine])
    mine["content"] = "改"
    model([], []).message["content"] = "改"
    assert model([], []).message["content"] == "原"


def test_scripted_reply() -> None:
    """A whole Reply in a script is given as it is, with its finish_reason."""
    cut = Reply({"role": "assistant", "content": "半"}, "length", {"total_tokens": 3})
    assert scripted([cut])([USER], []) == cut


# --- offline ----------------------------------------------------------------------------


def play(prompt: str, *results: list[dict[str, Any]], system: str = "") -> list[dict[str, Any]]:
    """A turn against the offline model: the messages that come of a prompt and of results."""
    model = offline_model()
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    messages.append(model(messages, []).message)
    for of_one_message in results:
        made = messages[-1]["tool_calls"]
        messages += [result_message(c["id"], r) for c, r in zip(made, of_one_message, strict=True)]
        messages.append(model(messages, []).message)
    return messages


def test_experiment_one() -> None:
    """The article's first experiment: one write_file call, then the final answer."""
    done = {"status": "succeeded", "path": "ledger-demo.txt", "bytes_written": 12}
    _, asked, _, final = play(WRITE, [done])
    assert asked["content"] == ""
    [(_, name, text)] = calls(Reply(asked, None, None))
    assert (name, text) == ("write_file", '{"path": "ledger-demo.txt", "content": "hello ledger"}')
    assert arguments_sha256(json.loads(text)).startswith("316b7a5c54fa80f2")
    assert "tool_calls" not in final
    assert "`hello ledger`" in final["content"]


def test_experiment_two() -> None:
    """The article's second experiment: write, read back, conclude with what was read."""
    done = {"status": "succeeded", "path": "recovery-demo.txt", "bytes_written": 9}
    read = {"status": "completed", "content": "recovered", "path": "recovery-demo.txt"}
    messages = play(RECOVER, [done], [read])
    [(_, name, text)] = calls(Reply(messages[1], None, None))
    assert name == "write_file"
    assert arguments_sha256(json.loads(text)).startswith("8889280b9146b06f")
    assert calls(Reply(messages[3], None, None))[0][1:] == (
        "read_file",
        '{"path": "recovery-demo.txt"}',
    )
    assert "`recovered`" in messages[5]["content"]
    assert "内容" in messages[5]["content"]


def test_experiment_two_after_a_crash() -> None:
    """It goes on in a history that others began, under ids and spellings of their own."""
    made = {"id": "call_recovery_demo", "type": "function", "function": {
        "name": "write_file", "arguments": '{"path":"recovery-demo.txt","content":"recovered"}'
    }}  # fmt: skip
    history = [
        {"role": "user", "content": RECOVER},
        {"role": "assistant", "content": "", "tool_calls": [made]},
        result_message("call_recovery_demo", {"status": "succeeded", "path": "recovery-demo.txt"}),
    ]
    [(_, name, text)] = calls(offline_model()(history, []))
    assert (name, text) == ("read_file", '{"path": "recovery-demo.txt"}')


@pytest.mark.parametrize("status", ["unknown", "rejected", "conflict", "failed"])
@pytest.mark.parametrize("prompt", ["给审计日志追加一行", "append a line to the audit log"])
def test_bad_news(prompt: str, status: str) -> None:
    """After a bad result it names tool, status and what to check, and repeats nothing."""
    final = play(prompt, [{"status": status, "message": "进程中断"}])[-1]
    assert "tool_calls" not in final
    for part in ("run_bash", status, "echo sent >> audit.log"):
        assert part in final["content"]
    assert ("请" in final["content"]) is ("日志" in prompt)


def test_one_bad_result_of_two() -> None:
    """One unknown among the results of a message stops it, and what did run is told as well."""
    final = play("写好报告并记入日志", [{"status": "succeeded"}, {"status": "unknown"}])[-1]
    assert "tool_calls" not in final
    told = dict.fromkeys(("write_file", "run_bash"), "")
    for line in final["content"].splitlines():
        told |= {tool: line for tool in told if tool in line}
    assert "succeeded" in told["write_file"]
    assert "unknown" in told["run_bash"]


def test_every_script_plays_to_its_end() -> None:
    """Every wording of every script leads, on good results, to a final answer."""
    prompts = [prompt for script in load_scripts() for prompt in script.prompts]
    assert len(prompts) == len(set(prompts))
    for prompt in prompts:
        messages = play(prompt)
        while made := messages[-1].get("tool_calls"):
            good = {"status": "succeeded", "content": "内容", "exit_code": 0}
            messages += [result_message(one["id"], good) for one in made]
            messages.append(offline_model()(messages, []).message)
        assert len(messages) <= 7
        assert "prompts I know" not in messages[-1]["content"]


def test_two_calls_in_one_message() -> None:
    """A script may ask for two calls at once; their ids differ, and text comes with them."""
    asked = play("write the report and log it")[1]
    (first, one, _), (second, two, _) = calls(Reply(asked, None, None))
    assert (one, two) == ("write_file", "run_bash")
    assert first != second
    assert asked["content"]


def test_unknown_prompt() -> None:
    """For a prompt no script knows it says so, in its language, and names those it knows."""
    assert RECOVER in play("今天天气如何？")[1]["content"]
    assert "离线" in play("今天天气如何？")[1]["content"]
    assert "offline" in play("How is the weather?")[1]["content"]


def test_prompt_behind_a_note() -> None:
    """A verdict's note in front of a prompt does not hide it; a negation is another prompt."""
    assert "tool_calls" in play(f"[note: exec_1 happened, 证据: 收据]\n\n {RECOVER} \n")[1]
    assert "tool_calls" in play("Append a line to the audit log")[1]
    assert "tool_calls" not in play("do not append a line to the audit log")[1]
    assert "tool_calls" not in play("不要给审计日志追加一行")[1]


def test_a_second_turn_starts_anew() -> None:
    """Answers are counted from the last user message; older results are not commented on."""
    before = play("给审计日志追加一行", [{"status": "unknown"}])
    again = [*before, {"role": "user", "content": RECOVER}]
    first = calls(offline_model()(again, []))
    assert first[0][1] == "write_file"
    assert first[0][0] not in json.dumps(before)


def test_deterministic() -> None:
    """The same messages lead to the same answer, ids and usage too; others to other ids."""
    one, two = offline_model()([USER], []), offline_model()([USER], [])
    assert one == two
    assert one.usage
    first, second, third = play(RECOVER)[1], play(RECOVER)[1], play(RECOVER, system="你是助手")[2]
    assert first == second
    [call_id] = [made["id"] for made in first["tool_calls"]]
    assert len(call_id) == len("call_") + 24
    assert int(call_id.removeprefix("call_"), 16)
    assert call_id != third["tool_calls"][0]["id"]
    pure = next_answer([{"role": "user", "content": RECOVER}], load_scripts())
    assert pure == first


def test_streaming_is_visible() -> None:
    """Offline text arrives in several pieces that make up the reply."""
    seen: list[str] = []
    reply = offline_model(seen.append)([USER], [])
    assert len(seen) > 3
    assert "".join(seen) == reply.message["content"]


def test_plain_and_streamed_agree() -> None:
    """Without `stream` the offline server gives the same message in one body."""
    plain = offline_client().chat.completions.create(
        model="m", messages=[{"role": "user", "content": RECOVER}]
    )
    sent = plain.choices[0].message.to_dict()
    assert sent == play(RECOVER)[1]
    with pytest.raises(openai.NotFoundError):
        offline_client().models.list()


def test_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offline model opens no connection, and a proxy in the environment changes nothing."""

    def refuse(*_: object) -> None:
        raise AssertionError("a socket")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert play(RECOVER)[1]["tool_calls"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"name": "a", "prompts": [], "answers": [{"content": "好"}]}',
        '{"name": "a", "prompts": ["问"], "answers": []}',
        '{"name": "a", "prompts": ["问"], "answers": [{"contents": "好"}]}',
        '{"name": "a", "prompts": ["问"], "answers": [{"calls": [{"name": "x"}]}]}',
    ],
)
def test_bad_script(tmp_path: Path, text: str) -> None:
    """A script that is none is refused with the name of its file."""
    (tmp_path / "坏.json").write_text(text, encoding="utf-8")
    with pytest.raises(LaiError, match=r"坏\.json"):
        load_scripts(tmp_path)


def test_missing_data(tmp_path: Path) -> None:
    """Without data/ the error says that the course runs from its checkout."""
    with pytest.raises(LaiError, match="checkout"):
        offline_client(tmp_path / "没有")


# --- the environment --------------------------------------------------------------------


def set_environment(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """The three variables as given, all else unset."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key_is_offline(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """Without a key the model is offline, whatever address is set."""
    given = {} if key is None else {"OPENAI_API_KEY": key}
    set_environment(monkeypatch, OPENAI_BASE_URL="http://127.0.0.1:9/v1", **given)
    seen: list[str] = []
    model, description = model_from_environment(seen.append)
    assert description.startswith("offline: ")
    assert model([USER], []).message["content"] == "".join(seen) != ""


def test_a_key_goes_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key the model is live, and its description shows model and host, no key."""
    set_environment(
        monkeypatch,
        OPENAI_API_KEY=KEY,
        OPENAI_BASE_URL="https://llm.example:8443/v1",
        OPENAI_MODEL="模型",
    )
    assert model_from_environment()[1] == "live: 模型 at llm.example:8443"
    set_environment(monkeypatch, OPENAI_API_KEY=KEY)
    assert model_from_environment()[1].endswith(" at api.openai.com")


def test_bad_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is none is refused at once, by the name of its variable."""
    set_environment(monkeypatch, OPENAI_API_KEY=KEY, OPENAI_BASE_URL="http://a:b:c/v1")
    with pytest.raises(ModelError, match="OPENAI_BASE_URL"):
        model_from_environment()
