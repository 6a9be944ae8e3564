"""An overwrite of what the model has not seen is shown as one, before anybody says yes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from toolkit import JSON, answers, assistant

from lai import Agent, Budget, Question, Reply, Session, workspace_tools
from lai.models import Model
from lai.reads import known

Calls = list[tuple[str, JSON]]
OLD = "第一行 书\n第二行\u2028还是第二行\n第三行 🧾\n"
THEIRS = OLD.replace("第二行\u2028", "有人改了\u2028")
NEW = OLD + "第四行\n"
READ = [("read_file", {"path": "诗/a.txt"})]
WRITE = [("write_file", {"path": "诗/a.txt", "content": NEW})]


def saying(*replies: str | Calls) -> Model:
    """A model that says these things, however long the conversation is, and can summarise."""
    left = list(replies)

    def model(messages: list[JSON], _tools: list[JSON]) -> Reply:
        if "summarise" in str(messages[0]["content"])[:20]:
            return Reply({"role": "assistant", "content": "总结 📒"}, "stop", None)
        said = left.pop(0)
        if isinstance(said, str):
            return Reply({"role": "assistant", "content": said}, "stop", None)
        message = assistant(*((f"c{n}", *call) for n, call in enumerate(said)))["message"]
        return Reply(message, "tool_calls", None)

    return model


class Story:
    """A workspace with one file, an agent on it, and the questions that were asked."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.file = self.root / "诗" / "a.txt"
        self.file.parent.mkdir(parents=True)
        self.file.write_bytes(OLD.encode())
        self.questions: list[Question] = []

    def run(self, *replies: str | Calls, said: str = "y", **more: Any) -> Question | None:
        """A turn in a process of its own; the last question of it, as a person saw it."""
        tools = workspace_tools(self.root, window=more.pop("window", None))
        with Session.open(self.root / ".agent_state" / "session-x.jsonl") as session:
            ask = answers([said] * 9)
            agent = Agent(session, saying(*replies, "好"), tools, ask, **more)
            agent.run("请写 🖋")
        self.questions += ask.questions
        return ask.questions[-1] if ask.questions else None


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A fresh one."""
    return Story(tmp_path)


def told(question: Question | None) -> set[str]:
    """Which of the two things the question says."""
    assert question is not None
    return {"read", "changed_since_read"} & set(question.shown)


def test_what_changed_since_the_reading_is_shown_with_the_difference(story: Story) -> None:
    """The lines that somebody changed stand in the question's text, under a name that says so."""
    story.run(READ)
    story.file.write_bytes(THEIRS.encode())
    question = story.run(WRITE, said="n")
    assert told(question) == {"changed_since_read"}
    difference = question.shown["changed_since_read"]  # type: ignore[union-attr]
    assert "诗/a.txt (read)" in difference
    assert "诗/a.txt (now)" in difference
    assert "-第二行\u2028还是第二行\n+有人改了\u2028还是第二行" in difference
    assert "-第一行" not in difference
    assert "changed_since_read" in str(question)
    assert "+有人改了⟦U+2028⟧还是第二行" in str(question)
    assert story.file.read_bytes() == THEIRS.encode()


def test_what_did_not_change_is_not_mentioned(story: Story) -> None:
    """Read as it is, or written by the model itself: there is nothing to say."""
    story.run(READ)
    assert told(story.run(WRITE)) == set()
    again = [("write_file", {"path": "诗/a.txt", "content": OLD})]
    assert told(story.run(again)) == set()
    assert story.file.read_bytes() == OLD.encode()


def test_a_change_after_the_models_own_writing(story: Story) -> None:
    """What the model wrote it knows; what somebody made of that since is shown."""
    story.run(WRITE)
    story.file.write_bytes(NEW.encode() + "附\n".encode())
    question = story.run([("write_file", {"path": "诗/a.txt", "content": "空\n"})])
    assert told(question) == {"changed_since_read"}
    assert "+附" in question.shown["changed_since_read"]  # type: ignore[union-attr]


CASES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "gone": (lambda file: file.unlink(), {"changed_since_read"}),
    "longer": (lambda file: file.write_bytes((OLD + "x").encode()), {"changed_since_read"}),
    "shorter": (lambda file: file.write_bytes(OLD.encode()[:-1]), {"changed_since_read"}),
    "empty": (lambda file: file.write_bytes(b""), {"changed_since_read"}),
    "no text any more": (lambda file: file.write_bytes(b"\xff\xfe"), {"changed_since_read"}),
    "touched": (lambda file: file.touch(), set()),
    "written anew": (lambda file: file.write_bytes(OLD.encode()), set()),
}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_change(story: Story, name: str) -> None:
    """Bytes count, not times: a file that was saved unchanged has not changed."""
    story.run(READ)
    change, expected = CASES[name]
    change(story.file)
    assert told(story.run(WRITE, said="n")) == expected


def test_a_file_that_the_model_never_read(story: Story) -> None:
    """Replacing it is shown as blind; creating one needs no reading."""
    assert told(story.run(WRITE, said="n")) == {"read"}
    other = [("write_file", {"path": "b.txt", "content": "新"})]
    assert told(story.run(other)) == set()


def test_another_file_does_not_count(story: Story) -> None:
    """Neither does a reading that failed, nor what a command printed."""
    other = [("read_file", {"path": "没有"}), ("run_bash", {"command": "cat 诗/a.txt"})]
    (story.root / "a.txt").write_bytes(OLD.encode())
    story.run(other, [("read_file", {"path": "a.txt"})])
    assert told(story.run(WRITE, said="n")) == {"read"}


def test_pages_that_follow_on_each_other_are_one_reading(story: Story) -> None:
    """A part is named as a part, changed or not; read on to the end the file is known whole."""
    line = "床前明月光，疑是地上霜\n".encode()
    data = line * 3000
    end = 50 * 1024 // len(line) * len(line)
    page = lambda at: [("read_file", {"path": "诗/a.txt", "offset": at})]  # noqa: E731
    early, late = line.replace("霜".encode(), "雪".encode()) + data[len(line) :], data + line
    for first, changed_early, changed_late in (
        (0, {"read", "changed_since_read"}, {"read"}),
        (end, {"changed_since_read"}, {"changed_since_read"}),
    ):
        story.file.write_bytes(data)
        story.run(page(first))
        question = story.run(WRITE, said="n")
        assert told(question) == changed_early - {"changed_since_read"}
        assert first or f"bytes 0 to {end} alone" in str(question)
        for there, expected in ((early, changed_early), (late, changed_late)):
            story.file.write_bytes(there)
            assert told(story.run(WRITE, said="n")) == expected


def test_a_page_from_elsewhere_begins_anew(story: Story) -> None:
    """The end of a file, read alone, is no reading of its beginning."""
    story.run([("read_file", {"path": "诗/a.txt", "offset": len("第一行 书\n".encode())})])
    assert told(story.run(WRITE, said="n")) == {"read"}
    story.file.write_bytes(OLD.replace("🧾", "").encode())
    assert told(story.run(WRITE, said="n")) == {"read", "changed_since_read"}


def test_what_a_compaction_took_away_is_not_read(story: Story) -> None:
    """The model has it no longer; in this process and in the next the answer is the same."""
    budget = Budget(2000)
    talk = "很久以前的话 " * 40
    story.run(READ, budget=budget)
    for _ in range(6):
        story.run(talk, budget=budget)
    with Session.open(story.root / ".agent_state" / "session-x.jsonl") as session:
        assert any(record["type"] == "compaction" for record in session.records)
    assert told(story.run(WRITE, said="n", budget=budget)) == {"read"}


def test_an_unreadable_conversation_is_no_reading() -> None:
    """Arguments and results that are no JSON objects are passed over."""
    call = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": "{"}}
    for content in ("[]", "{}", "不", '{"path": "a"}', None):
        answer = {"role": "tool", "tool_call_id": "c", "content": content}
        assert known([{"role": "assistant", "tool_calls": [call]}, answer, answer], "a") is None
