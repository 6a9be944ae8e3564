"""The self-test: what it asks, what it gives away and when, and what it counts."""

import re
from pathlib import Path

import nbformat
import pytest

from lai import LaiError, Session, session_path
from lai.course import scenes
from lai.course.child import run_child
from lai.course.place import agent_at, fresh
from lai.course.selftest import CHOICES, Answers, Form, Quiz
from lai.records import message_record

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "99_self_test.ipynb"
# What a reader would say, and what it is.
ANSWERS = [
    ("unanswered-read", "attempt"),
    ("approved-never-started", "ask"),
    ("interrupted-job", "settle"),
    ("unknown-job", "look up"),
    ("unknown-command", "verdict"),
    ("other-arguments", "publish"),
    ("compacted-unknown", "model"),
    ("unknown-published", "done"),
]


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there, as in a saved notebook."""
    monkeypatch.setenv("LAI_ANSWER", "y")


def told(capsys: pytest.CaptureFixture[str], quiz: Quiz, name: str, word: str = "") -> str:
    """What a cell that asks this shows."""
    capsys.readouterr()
    quiz.ask(name, word)
    return capsys.readouterr().out


@pytest.mark.parametrize(("name", "word"), ANSWERS)
def test_the_right_word_is_right_and_every_other_is_not(
    name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all words one is right, whatever its case; the answer shows the action and the reason."""
    for said in CHOICES:
        quiz = Quiz()
        shown = told(capsys, quiz, name, f"  {said.upper().replace(' ', '  ')} ")
        assert (f"✓ right: {word}" in shown) is (said == word)
        assert (f"✗ you said {said}, it is {word}" in shown) is (said != word)
        assert "\nnext: " in shown
        assert "\nwhy:  " in shown
        assert str(quiz) == f"{int(said == word)} right of 1 answered, 1 asked"


def test_there_is_a_scene_for_every_word() -> None:
    """The table of this test uses every choice a reader has."""
    assert {word for _, word in ANSWERS} == set(CHOICES)


@pytest.mark.parametrize("name", scenes.SCENES)
def test_a_question_gives_nothing_away(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an answer neither the decision nor the scene's own words are shown."""
    shown = told(capsys, Quiz(), name)
    assert "What does the next process do first?" in shown
    for hidden in ("next: ", "why:", "right", "×", scenes.SCENES[name].next.partition(": ")[2]):
        assert hidden not in shown


def test_the_reason_is_the_library_s_and_not_the_scene_s(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One record more in the same session, and the answer is another."""
    path = scenes.stage("unknown-published", fresh())
    quiz = Quiz()
    quiz.ask(path, "done")
    with Session.open(path) as session:
        session.append(message_record({"role": "user", "content": "书\u2028🙂"}))
    quiz.ask(path, "done")
    first, second = capsys.readouterr().out.split("Question 2")
    assert "✓ right: done" in first
    assert "it is model" in second
    assert "the model has not answered" in second


def test_the_first_answer_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """A later answer is judged, called a later one, and changes neither score nor number."""
    quiz = Quiz()
    told(capsys, quiz, "interrupted-write", "attempt")
    told(capsys, quiz, "unknown-job", "look up")
    again = told(capsys, quiz, "interrupted-write", "settle")
    assert "Question 1 ·" in again
    assert "✓ right: settle" in again
    assert "(Your first answer counts, and that was: attempt)" in again
    assert str(quiz) == "1 right of 2 answered, 2 asked"
    assert [list(row) for row in quiz.score().values] == [
        [1, "A write that was running", "attempt", "settle", "✗ missed"],
        [2, "A job of unknown outcome", "look up", "look up", "✓ right"],
    ]


def test_the_score_keeps_open_questions_closed() -> None:
    """Who did not answer does not find the decision in the score; a new quiz knows nothing."""
    quiz = Quiz()
    quiz.ask("unknown-command")
    assert list(quiz.score().values[0]) == [1, "A command of unknown outcome", "", "", "○ open"]
    assert str(quiz) == "0 right of 0 answered, 1 asked"
    assert Quiz().score().empty


def test_a_word_that_is_none_counts_nothing() -> None:
    """A misspelt word and a scene there is not raise, name what there is, and change nothing."""
    quiz = Quiz()
    with pytest.raises(LaiError, match="attempt, ask, settle, look up"):
        quiz.ask("interrupted-write", "retry")
    with pytest.raises(KeyError, match="interrupted-write"):
        quiz.ask("no such scene", "settle")
    assert quiz.asked == {}


def test_nothing_is_executed() -> None:
    """Asking and answering change no byte of a session and no file of its workspace."""
    quiz = Quiz()
    for name in scenes.SCENES:
        quiz.ask(name, "settle")
    for asked, name in zip(quiz.asked.values(), scenes.SCENES, strict=True):
        root = asked.path.parents[1]
        there = {p.name: p.read_text("utf-8") for p in root.iterdir() if p.is_file()}
        assert there == dict(scenes.SCENES[name].world)
        assert asked.path.read_bytes() == scenes.content(name)
    assert quiz.untouched()


@pytest.mark.parametrize("changed", ["session", "world", "gone"])
def test_untouched_notices_a_change(changed: str) -> None:
    """A session that grew, a file that is new, and one that is missing are found."""
    quiz = Quiz()
    quiz.ask("unknown-published")
    (asked,) = quiz.asked.values()
    if changed == "session":
        with agent_at(asked.path) as agent:
            agent.resolve("exec_audit_demo", "happened", "looked")
    elif changed == "world":
        (asked.path.parents[1] / "new.txt").write_text("书", encoding="utf-8")
    else:
        (asked.path.parents[1] / "audit.log").unlink()
    assert not quiz.untouched()


def test_a_session_of_one_s_own_can_be_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that a killed process left is a question; equal bytes are the same question."""
    quiz = Quiz()
    for _ in range(2):
        path = session_path(fresh())
        assert run_child(path, world="pay", at="after effect of pay").returncode == -9
        quiz.ask(path, "settle")
    shown = capsys.readouterr().out
    assert shown.count("Question 1 · A file that a process left") == 2
    assert "pay is keyed" in shown
    assert "payments.db: 'SQLite" in shown
    assert str(quiz) == "1 right of 1 answered, 1 asked"


def test_what_the_table_hides_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The world, the promises and both hashes are shown: without them nobody could know."""
    shown = told(capsys, Quiz(), "other-arguments")
    assert "in the workspace:  nothing" in shown
    assert "run_bash is opaque" in shown
    assert "8d4c787f in the call, 719d0a79 in the ledger" in shown
    assert "audit.log: 'sent\\n'" in told(capsys, Quiz(), "unknown-published")


# Widgets


def test_reveal_answers_the_chosen_word_once_chosen() -> None:
    """Without a choice the button asks for one; then it shows the answer, with no HTML in it."""
    said: list[str] = []

    def reveal(word: str) -> str:
        said.append(word)
        return f"<b>{word}</b>"

    form = Form(reveal)
    form.button.click()
    assert said == []
    assert "Choose first" in form.told.value
    form.choice.value = "look up"
    assert "You say: look up." in form.told.value
    assert said == []
    form.button.click()
    assert said == ["look up"]
    assert "&lt;b&gt;look up&lt;/b&gt;" in form.told.value
    assert [word for _, word in form.choice.options] == list(CHOICES)


def test_with_somebody_there_buttons_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without LAI_ANSWER the question is a form; pressing its button counts."""
    monkeypatch.delenv("LAI_ANSWER")
    shown: list[object] = []
    monkeypatch.setattr("lai.course.selftest.display", shown.append)
    quiz = Quiz()
    quiz.ask("interrupted-job")
    _, choice, button, told = shown[-1].children  # type: ignore[attr-defined]
    choice.value = "settle"
    button.click()
    assert "✓ right: settle" in told.value
    assert str(quiz) == "1 right of 1 answered, 1 asked"
    assert "✓" not in capsys.readouterr().out


# The notebook


def test_the_notebook_asks_8_to_14_scenes_and_a_real_death() -> None:
    """Each scene is asked once, and most kinds of action are an answer."""
    code = [c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    asked = [name for name in scenes.SCENES for cell in code if f'quiz.ask("{name}")' in cell]
    assert len(asked) == len(set(asked))
    assert 8 <= len(asked) <= 14
    assert len({scenes.SCENES[name].action for name in asked}) == len(CHOICES)
    assert any("run_child(" in cell and "quiz.ask(path)" in cell for cell in code)


def test_the_saved_notebook_folds_its_answers() -> None:
    """No decision stands in plain sight: outside of the one folded table there is none."""
    outputs = [o for c in nbformat.read(NOTEBOOK, as_version=4).cells for o in c.get("outputs", [])]
    texts = [text for o in outputs for text in o.get("data", {"text": o.get("text", "")}).values()]
    seen, folded = re.subn(r"<details>.*?</details>", "", "\n".join(texts), flags=re.DOTALL)
    assert folded == 1
    assert "Question 15" in seen
    for scene in scenes.SCENES.values():
        assert scene.next.partition(": ")[2] not in seen
    assert "\nnext: " not in seen


def test_the_folded_table_is_all_scenes() -> None:
    """Every scene and its decision is inside the fold; plain text holds none of them."""
    page = Answers()._repr_html_()
    assert page.startswith("<details>")
    assert page.endswith("</details>")
    for scene in scenes.SCENES.values():
        assert scene.name in page
        assert scene.name not in repr(Answers())
