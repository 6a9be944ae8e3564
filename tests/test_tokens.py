"""An estimate of tokens, held against a tokenizer wherever one is installed."""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lai.tokens import estimate, estimate_message, estimate_tools

Count = Callable[[str], int]
DATA = Path(__file__).parent / "data"
TEXTS = {path.stem: path.read_text("utf-8") for path in sorted((DATA / "texts").glob("*.*"))}
OTHERS = {path.stem: path.read_text("utf-8") for path in (DATA / "texts/others").glob("*.*")}
SEAM = 24  # what a cut may hide at most: two halves of a word that no rule knows as one


def generated() -> dict[str, str]:
    """Texts that nobody writes by hand, the same every time."""
    chance = random.Random(20250314)  # noqa: S311  (chosen to be predictable)
    data = chance.randbytes(1500)
    return {
        "base64": base64.b64encode(data).decode(),
        "base64_lines": base64.encodebytes(data).decode(),
        "base64_url": base64.urlsafe_b64encode(data).decode(),
        "hex": data.hex(),
        "hex_bytes": data.hex(" "),
        "digits": "".join(chance.choices(string.digits, k=2000)),
        "numbers": "\n".join(
            f"{chance.gauss(0, 100):.4f},{chance.getrandbits(40)}" for _ in range(60)
        ),
        "escaped": json.dumps(TEXTS["chinese"]),
    }


def scattered(signs: str) -> str:
    """These signs in no order."""
    return "".join(random.Random(signs).choices(signs, k=900))  # noqa: S311  (as above)


def windows(text: str, size: int, step: int) -> Iterator[str]:
    """Pieces of a text, of one size."""
    yield from (text[at : at + size] for at in range(0, max(1, len(text) - size + 1), step))


CLOSE = TEXTS | generated()
ROUGH = OTHERS | {
    "letters": scattered(string.ascii_lowercase),
    "capitals": scattered(string.ascii_uppercase),
    "printable": scattered(string.printable[:94]),
    "base64_of_zeros": base64.b64encode(bytes(900)).decode(),
    "colours": "\x1b[31mfailed\x1b[0m \x1b[1;32mpassed\x1b[0m\n" * 30,
    "blank_lines": "one\r\n\r\n\r\n" * 60,
    "a_table": "┌────────┬──────┐\n│ 书     │ size │\n└────────┴──────┘\n" * 10,
}
RUNS = [*" \t\n=-_*#./~<>|\\aAxzQ。，哈中─═█😀0\0", "\r\n", "👍🏽"]


@pytest.fixture(scope="module")
def count() -> Count:
    """The tokens of a text by OpenAI's o200k encoding."""
    why = "bpe-openai, which counts o200k tokens, is not installed (pip install 'lai[test]')"
    encoding = pytest.importorskip("bpe_openai", reason=why).get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))


@pytest.mark.parametrize("name", CLOSE)
def test_an_estimate_is_close_where_agents_work(count: Count, name: str) -> None:
    """Whole texts and every window of 300 characters: 5 % too few at most, 40 % too many."""
    for text in (CLOSE[name], *windows(CLOSE[name], 300, 50)):
        assert 0.95 <= estimate(text) / count(text) <= 1.4, text


@pytest.mark.parametrize("name", ROUGH)
def test_an_estimate_is_never_wildly_off(count: Count, name: str) -> None:
    """Other scripts and odd texts: at least 0.8 times the tokens, at most twice as many."""
    for text in (ROUGH[name], *windows(ROUGH[name], 300, 50)):
        assert 0.8 <= estimate(text) / count(text) <= 2, text


@pytest.mark.parametrize("name", CLOSE | OTHERS)
def test_a_short_text_is_hardly_ever_estimated_too_low(count: Count, name: str) -> None:
    """Below 300 characters, 19 of 20 pieces miss at most 2 tokens and 5 %, and no piece 7."""
    text = (CLOSE | OTHERS)[name]
    pieces = [piece for size in (5, 20, 60, 150, 299) for piece in windows(text, size, 7)]
    missing = [0.95 * count(piece) - estimate(piece) for piece in pieces]
    assert sum(tokens > 2 for tokens in missing) <= len(missing) / 20
    assert max(missing) < 7


@pytest.mark.parametrize("size", [300, 5000])
@pytest.mark.parametrize("unit", RUNS)
def test_one_character_many_times_is_no_surprise(count: Count, unit: str, size: int) -> None:
    """A long run alone, and between words: 0.8 to 2 times its tokens."""
    run = unit * size
    assert 0.8 <= estimate(run) / count(run) <= 2
    framed = f"Quite\n{run}\nsome"
    assert 0.8 <= estimate(framed) / count(framed) <= 2


@pytest.mark.parametrize("unit", [" \n", "\n    ", "\t\n"])
def test_mixed_white_space_is_not_free(count: Count, unit: str) -> None:
    """Blank lines and blanks in turn are rough, but neither nothing nor a flood."""
    assert 0.3 <= estimate(unit * 150) / count(unit * 150) <= 4


def test_chinese_and_base64_are_not_four_characters_a_token() -> None:
    """At least 0.6 token for a Chinese character, and 0.5 for a base64 character."""
    chinese = "".join(sign for sign in TEXTS["chinese"] if "\u4e00" <= sign <= "\u9fff")
    assert estimate(chinese) >= 0.6 * len(chinese)
    assert estimate("可靠的智能体需要账本与恢复。" * 286) >= 0.6 * 4000
    assert estimate("iVBORw0KGgoAAAANSUhEUg" * 900) >= 0.5 * 19_800
    for name in ("base64", "base64_lines", "base64_url"):
        assert estimate(CLOSE[name]) >= 0.5 * len(CLOSE[name])


pieces = st.lists(
    st.tuples(st.sampled_from([*string.printable, "ab", "BC", "书", "。", "é", "я", "한", "😀"]),
              st.sampled_from([1, 1, 1, 2, 5, 8, 15, 20, 40])),
    max_size=6,
).map(lambda parts: "".join(unit * times for unit, times in parts))  # fmt: skip


@given(pieces, pieces)
@example("--", "\r\n\n" * 80)
@example("(", "BC" * 80)
@example("Z", "ab" * 80)
@example("=" * 7, "=" * 7)
def test_a_whole_costs_what_its_parts_cost(first: str, second: str) -> None:
    """Texts put together cost at most a few tokens more than apart."""
    assert estimate(first + second) <= estimate(first) + estimate(second) + SEAM


@pytest.mark.parametrize("name", CLOSE | ROUGH)
def test_a_text_may_be_cut_anywhere(name: str) -> None:
    """The halves of a text cost about what it costs, wherever it is cut; so does ten times it."""
    text = (CLOSE | ROUGH)[name]
    for at in range(0, len(text), 13):
        assert abs(estimate(text) - estimate(text[:at]) - estimate(text[at:])) <= SEAM
    assert abs(estimate(text * 10) - 10 * estimate(text)) <= 10 * SEAM


@given(st.text(st.characters(codec=None), max_size=80))
def test_every_text_has_an_estimate(text: str) -> None:
    """Any string at all, lone surrogates too: no error, and 0 only for the empty one."""
    tokens = estimate(text)
    assert isinstance(tokens, int)
    assert (tokens > 0) == (text != "")
    assert tokens <= 4 * len(text)


CALL = {"id": "call_书", "function": {"name": "write_file", "arguments": '{"path": "书.md"}'}}
ADDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"content": TEXTS["english"]}, TEXTS["english"]),
    ({"content": [{"type": "text", "text": TEXTS["chinese"]}]}, TEXTS["chinese"]),
    ({"content": [{"type": "image_url", "image_url": {"url": "data:AAAB"}}]}, "data:AAAB"),
    ({"tool_calls": [CALL]}, 'call_书write_file{"path": "书.md"}'),
    ({"tool_call_id": "call_4f9c21e7"}, "call_4f9c21e7"),
    ({"reasoning_content": TEXTS["chinese"]}, TEXTS["chinese"]),
    ({"details": {"深": [1, 2, {"x": None}]}}, '{"深": [1, 2, {"x": None}]}'),
]


@pytest.mark.parametrize(("fields", "text"), ADDITIONS)
def test_every_field_of_a_message_counts(fields: dict[str, Any], text: str) -> None:
    """A field adds about the tokens of its text, known or not; its form adds few."""
    bare = estimate_message({"role": "assistant", "content": None})
    added = estimate_message({"role": "assistant", "content": None} | fields) - bare
    assert estimate(text) - 1 <= added <= 1.1 * estimate(text) + 24


def test_a_message_is_more_than_its_text() -> None:
    """Role and marks cost something, each call too, and an empty field nothing."""
    empty = estimate_message({"role": "user", "content": ""})
    assert empty > 0
    assert estimate_message({"role": "user", "content": None, "refusal": None}) == empty
    part = {"type": "text", "text": "书"}
    assert estimate_message({"role": "user", "content": [part]}) == empty + estimate("书")
    one = estimate_message({"role": "assistant", "content": "", "tool_calls": [CALL]})
    two = estimate_message({"role": "assistant", "content": "", "tool_calls": [CALL, CALL]})
    texts = sum(map(estimate, ["call_书", *CALL["function"].values()]))
    assert two - one == one - empty > texts


@pytest.mark.parametrize("function", [{}, {"name": "f"}, {"arguments": {"书": 1}}, {"name": None}])
def test_a_call_that_is_not_well_formed_counts_all_the_same(function: dict[str, Any]) -> None:
    """What a provider leaves out or sends in another form is no error here."""
    message = {"role": "assistant", "tool_calls": [{"function": function}]}
    assert estimate_message(message) > estimate_message({"role": "assistant"})


def test_tool_schemas_count() -> None:
    """Schemas cost at least their JSON text, and none costs nothing."""
    schema = {"type": "function", "function": {"name": "read_file", "description": "读取文件"}}
    assert estimate_tools([]) == 0
    text = estimate(json.dumps(schema, ensure_ascii=False))
    assert text < estimate_tools([schema]) <= text + 16
    assert estimate_tools([schema] * 3) == 3 * estimate_tools([schema])
