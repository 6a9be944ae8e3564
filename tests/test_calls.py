"""Tool calls: the hash of their arguments, strict parsing, and which result answers which call."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolkit import assistant

from lai import Agent, ArgumentsError, Session, arguments_sha256, scripted, workspace_tools
from lai.calls import Call, Pairing, arguments_text, parse_arguments, readable

CASES = Path(__file__).parent / "data" / "cases"
NINE_FORMS = json.loads((CASES / "K7-01.case.json").read_text("utf-8"))["arguments"]
KNOWN = [  # published values
    (
        {"path": "ledger-demo.txt", "content": "hello ledger"},
        "316b7a5c54fa80f28f7af606784c9af906d06657a1fd35b6094fed239dca6966",
    ),
    (
        {"path": "recovery-demo.txt", "content": "recovered"},
        "8889280b9146b06f667dd62a1bdb2f6bcb763b656a18214926a39dba97dc18fe",
    ),
]
CANONICAL = [  # arguments, and the bytes that are hashed, written out by hand
    ({}, "{}"),
    ({"b": 1, "a": {"d": 2, "c": 3}}, '{"a":{"c":3,"d":2},"b":1}'),
    ({"路": "书\u2028\u0085🚀"}, '{"路":"书\u2028\u0085🚀"}'),
    ({"é": "e\u0301"}, '{"\u00e9":"e\u0301"}'),
    ({"z": 1, "Z": 2, "é": 3, "书": 4}, '{"Z":2,"z":1,"é":3,"书":4}'),
    ({"n": [1, 1.0, -0.0, 1e22, True, None]}, '{"n":[1,1.0,-0.0,1e+22,true,null]}'),
    ({"n": 2**64 + 1}, '{"n":18446744073709551617}'),
    ({"t": 'a"\\/\n\t\x7f'}, '{"t":"a\\"\\\\/\\n\\t\x7f"}'),
]
DIFFERENT = [
    pytest.param({"v": "\u00e9"}, {"v": "e\u0301"}, id="NFC, NFD"),
    pytest.param({"v": 1}, {"v": 1.0}, id="1, 1.0"),
    pytest.param({"v": 1}, {"v": True}, id="1, true"),
    pytest.param({"v": 0.0}, {"v": -0.0}, id="0.0, -0.0"),
    pytest.param({"v": 2**53}, {"v": 2**53 + 1}, id="beyond float"),
    pytest.param({"v": "1"}, {"v": 1}, id="text, number"),
    pytest.param({"v": None}, {}, id="null, missing"),
    pytest.param({"v": "a"}, {"v": "a "}, id="trailing blank"),
    pytest.param({"v": [1, 2]}, {"v": [2, 1]}, id="order of a list"),
]
NOT_ARGUMENTS = [
    pytest.param("", id="empty"),
    pytest.param(" \n", id="blanks"),
    pytest.param('{"a": 1', id="cut"),
    pytest.param('{"a": 1} x', id="more behind it"),
    pytest.param('{"a": 1}{"b": 2}', id="two objects"),
    pytest.param('\ufeff{"a": 1}', id="byte order mark"),
    pytest.param("{'a': 1}", id="single quotes"),
    pytest.param('{"a": 1,}', id="comma too many"),
    pytest.param('{"a": "\n"}', id="raw newline in a text"),
    *[pytest.param(t, id=t) for t in ("[1]", '"书"', "null", "true", "5", "NaN")],
    pytest.param('{"a": 1, "a": 1}', id="key twice"),
    pytest.param('{"a": 1, "\\u0061": 2}', id="key twice, once escaped"),
    pytest.param('{"x": [{"a": 1, "a": 2}]}', id="key twice, deep inside"),
    pytest.param('{"a": NaN}', id="NaN"),
    pytest.param('{"a": [Infinity]}', id="Infinity"),
    pytest.param('{"a": -Infinity}', id="-Infinity"),
    pytest.param('{"a": 1e999}', id="1e999"),
    pytest.param('{"a": {"b": -1e999}}', id="-1e999"),
    pytest.param('{"a": "\\ud800"}', id="lone surrogate"),
    pytest.param('{"\\udfff": 1}', id="lone surrogate in a key"),
    pytest.param('{"a": "\ud800"}', id="raw lone surrogate"),
    pytest.param("[" * 200_000, id="200,000 brackets"),
    pytest.param('{"a":' * 200_000 + "1" + "}" * 200_000, id="200,000 objects"),
    pytest.param('{"a": ' + "9" * 5_000 + "}", id="5,000 digits"),
]
ARGUMENTS = [
    ("{}", {}),
    (' {"路": "书\u2028\u0085🚀"}\n', {"路": "书\u2028\u0085🚀"}),
    ('{"a": "\\ud83d\\ude80"}', {"a": "🚀"}),
    ('{"a": {"x": 1}, "b": {"x": 1}}', {"a": {"x": 1}, "b": {"x": 1}}),
    (
        '{"a": 1e2, "b": -0.0, "c": 12345678901234567890}',
        {"a": 1e2, "b": -0.0, "c": 12345678901234567890},
    ),
]
IDS = st.sampled_from(["call_1", "call_2", ""])
STEPS = st.lists(st.one_of(st.lists(IDS, min_size=1, max_size=3), IDS), max_size=12)


@pytest.mark.parametrize(("arguments", "sha256"), KNOWN)
def test_published_hashes(arguments: dict[str, Any], sha256: str) -> None:
    """The two published hashes come out, whatever the order of the keys."""
    assert arguments_sha256(arguments) == sha256
    assert arguments_sha256(dict(reversed(arguments.items()))) == sha256


@pytest.mark.parametrize(("arguments", "canonical"), CANONICAL)
def test_the_canonical_form(arguments: dict[str, Any], canonical: str) -> None:
    """What is hashed: sorted keys at every level, no blanks, text as it is, in UTF-8."""
    assert arguments_sha256(arguments) == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_arguments_have_different_hashes(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Nothing is normalised before hashing: what a tool would see as different is different."""
    assert arguments_sha256(one) != arguments_sha256(other)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udc00": 1}])
def test_no_hash_without_a_json_form(value: Any) -> None:
    """NaN, Infinity and lone surrogates have no canonical form and raise ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011 - which of its children is Python's affair
        arguments_sha256({"v": value})


@pytest.mark.parametrize("text", NOT_ARGUMENTS)
def test_strict_arguments(text: str) -> None:
    """What is not one plain JSON object is not readable, and raises words that can be recorded."""
    with pytest.raises(ArgumentsError) as error:
        parse_arguments(text)
    assert str(error.value).encode("utf-8")
    assert not readable(text)


@pytest.mark.parametrize(("text", "arguments"), ARGUMENTS)
def test_good_arguments(text: str, arguments: dict[str, Any]) -> None:
    """A JSON object is readable as it stands, with blanks around it and equal keys apart."""
    assert parse_arguments(text) == arguments
    assert readable(text)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.booleans())))
def test_arguments_round_trip(arguments: dict[str, Any]) -> None:
    """Any object comes back from its text, and object and text have one hash."""
    for ascii_only in (True, False):
        text = json.dumps(arguments, ensure_ascii=ascii_only, indent=1)
        assert parse_arguments(text) == arguments
        assert arguments_sha256(parse_arguments(text)) == arguments_sha256(arguments)
    assert parse_arguments(arguments_text(arguments)) == arguments


@pytest.mark.parametrize("arguments", NINE_FORMS)
def test_bad_arguments_get_one_answer_and_run_nothing(arguments: str, tmp_path: Path) -> None:
    """K7-01: no question, no ledger line, no file, one failed result; the turn goes on."""
    asked: list[object] = []
    world = tmp_path / "world"
    world.mkdir()
    with Session.open(tmp_path / "s.jsonl") as session:
        model = scripted([[("write_file", arguments)], "改用别的办法"])
        agent = Agent(session, model, workspace_tools(world), lambda q: asked.append(q) or "y")
        assert agent.run("写 a.txt") == "改用别的办法"
        messages = [record["message"] for record in session.records]  # no other record at all
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == arguments
    assert json.loads(messages[2]["content"])["status"] == "failed"
    assert (asked, list(world.iterdir())) == ([], [])


def test_a_stored_bad_call_heals(tmp_path: Path) -> None:
    """K7-01: an old session that ends in a broken call is answered, and its bytes stay."""
    path = tmp_path / "s.jsonl"
    old = (CASES / "K7-01.jsonl").read_bytes()
    path.write_bytes(old)
    sent: list[list[dict[str, Any]]] = []
    script = scripted(["unused", "好"])
    model = lambda m, t: sent.append(m) or script(m, t)  # noqa: E731
    with Session.open(path) as session:
        agent = Agent(session, model, workspace_tools(tmp_path))
        assert agent.continue_turn() == "好"
    assert path.read_bytes().startswith(old)
    assert [m["role"] for m in sent[0]] == ["system", "user", "assistant", "tool"]
    assert json.loads(sent[0][2]["tool_calls"][0]["function"]["arguments"]) == {}
    assert json.loads(sent[0][3]["content"])["status"] == "failed"


def result(call_id: str) -> dict[str, Any]:
    """A result for the call of this id."""
    return {"type": "message", "message": {"role": "tool", "tool_call_id": call_id, "content": ""}}


def nearest_unanswered(made: list[Call], answered: set[Call], call_id: str) -> Call | None:
    """The oracle: the latest message with an open call of that id, and there its first one."""
    for line in sorted({call.line for call in made}, reverse=True):
        for call in made:
            if call.line == line and call.id == call_id and call not in answered:
                return call
    return None


@given(STEPS)
def test_a_result_answers_the_nearest_open_call_of_its_id(steps: list[list[str] | str]) -> None:
    """Ids used twice, empty, or shared inside one message pair like the plain search says."""
    pairing, made, answered = Pairing(), [], set()
    for line, step in enumerate(steps, start=1):
        if isinstance(step, list):
            new = pairing.calls(assistant(*[(i, "f", {}) for i in step]), line)
            assert [(c.line, c.index, c.id) for c in new] == [
                (line, index, call_id) for index, call_id in enumerate(step)
            ]
            made += new
        else:
            expected = nearest_unanswered(made, answered, step)
            assert pairing.answered(result(step)) == expected
            answered |= {expected} - {None}
