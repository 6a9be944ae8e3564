"""The self-test: a session file, the question "what happens next?", and the library's answer.

    quiz = Quiz()
    quiz.ask("interrupted-write")            with buttons
    quiz.ask("interrupted-write", "settle")  the same with a word, where there are no buttons
    quiz.score()

Rules that live here:

1. The answer is computed when it is revealed, by the library's own ``decide`` on the very
   file that is shown. Nothing is executed, and ``untouched`` finds out whether that is true.
2. The first answer to a question counts; later ones are judged too and called later ones.
   A question is its file: asked again it is the same one. A new Quiz begins anew.
3. With nobody there (LAI_ANSWER is set) a question stands without buttons and without its
   answer, so that a saved notebook gives nothing away.
"""

import html
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import ipywidgets  # type: ignore[import-untyped]
from IPython.display import display

from lai.actions import Action, Ask, AskVerdict, Attempt, CallModel, Done, LookUp, Publish, Settle
from lai.approval import visible
from lai.calls import digest
from lai.course.place import fresh, workspace_of
from lai.course.scenes import SCENES, scene_table, scene_tools, stage
from lai.course.tables import Table, records_table
from lai.course.whatif import what_if
from lai.history import History
from lai.records import LaiError
from lai.session import Session
from lai.tools import find

SHOWN = 40  # bytes of a file of the workspace
CHOICES = MappingProxyType(
    {
        "attempt": "the tool runs",
        "ask": "a person is asked: may it run?",
        "settle": "the attempt is recorded as unknown",
        "look up": "the other side is asked: what became of it?",
        "verdict": "a person is asked: did it happen?",
        "publish": "the model is told what is on record; nothing runs",
        "model": "the model is asked to go on",
        "done": "the turn is over, nothing happens",
    }
)
KINDS: MappingProxyType[type[Action], str] = MappingProxyType(
    dict(
        zip(
            (Attempt, Ask, Settle, LookUp, AskVerdict, Publish, CallModel, Done),
            CHOICES,
            strict=True,
        )
    )
)


@dataclass(slots=True)
class Asked:
    """One question: its number, its file, how the workspace was, and what was answered."""

    number: int
    title: str
    path: Path
    inside: dict[str, bytes]
    words: str = ""  # what a scene says of itself
    given: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        """Whether the first answer was right."""
        return self.given[:1] == [self.decision[0]]

    @property
    def decision(self) -> tuple[str, str, str]:
        """What ``decide`` says now: the word for it, the action in words, and why."""
        step = what_if(self.path, scene_tools(workspace_of(self.path))).steps[-1]
        return KINDS[type(step.action)], step.next, step.why


class Quiz:
    """Questions in the order in which they are asked, and the answers of one reader."""

    def __init__(self) -> None:
        self.asked: dict[bytes, Asked] = {}

    def ask(self, scene: str | Path, word: str = "") -> None:
        """Show a scene, or any session, and ask what the next process does first.

        With a ``word``, one of ``CHOICES``, the answer is shown at once. Raises LaiError, and
        counts nothing, for a word that is none; KeyError for a scene that there is not.
        """
        word = _choice(word)
        asked = self._asked(scene)
        print(f"Question {asked.number} · {asked.title}")
        display(records_table(asked.path))  # type: ignore[no-untyped-call]
        print(*_facts(asked), sep="\n")
        if word:
            print(self.reveal(asked, word))
        elif "LAI_ANSWER" in os.environ:
            print("What does the next process do first?", " · ".join(CHOICES))
        else:
            display(Form(lambda chosen: self.reveal(asked, chosen)).box)  # type: ignore[no-untyped-call]

    def reveal(self, asked: Asked, word: str) -> str:
        """Take an answer, and say whether it is right, what happens, and why."""
        asked.given.append(word)
        kind, action, why = asked.decision
        said = f"✓ right: {kind}" if word == kind else f"✗ you said {word}, it is {kind}"
        lines = [said, f"next: {action}", f"why:  {why}"]
        lines += [f"so:   {asked.words}"] if asked.words else []
        if len(asked.given) > 1:
            lines.append(f"(Your first answer counts, and that was: {asked.given[0]})")
        return "\n".join([*lines, str(self)])

    def score(self) -> Table:
        """A row for every question that was asked; what nobody answered stays open."""
        return Table(_result(asked) for asked in self.asked.values())

    def untouched(self) -> bool:
        """Whether every file and every workspace is as it was when it was shown."""
        return all(_inside(a.path) == a.inside for a in self.asked.values())

    def __str__(self) -> str:
        answered = [asked for asked in self.asked.values() if asked.given]
        right = sum(asked.right for asked in answered)
        return f"{right} right of {len(answered)} answered, {len(self.asked)} asked"

    def _asked(self, scene: str | Path) -> Asked:
        if isinstance(scene, str):
            path, title = stage(scene, fresh()), SCENES[scene].title
            words = SCENES[scene].next.partition(": ")[2]
        else:
            path, title, words = scene, "A file that a process left", ""
        new = Asked(len(self.asked) + 1, title, path, _inside(path), words)
        return self.asked.setdefault(path.read_bytes(), new)


class Form:
    """The choices as buttons, one more to reveal, and a place for what is said then.

    Buttons, because JupyterLab keeps the arrow keys, which radio buttons need, for itself:
    here Tab and the space bar do all.
    """

    def __init__(self, reveal: Callable[[str], str]) -> None:
        self.choice = ipywidgets.ToggleButtons(
            options=[(f"{word}: {what}", word) for word, what in CHOICES.items()],
            value=None,
            style=ipywidgets.ToggleButtonsStyle(button_width="auto"),
        )
        layout = ipywidgets.Layout(width="auto", align_self="flex-start")
        self.button = ipywidgets.Button(description="Reveal", button_style="primary", layout=layout)
        self.told = ipywidgets.HTML()
        self.choice.observe(lambda change: self._say(f"You say: {change['new']}."), "value")
        self.button.on_click(lambda _: self._reveal(reveal))
        question = ipywidgets.HTML("What does the next process do first?")
        self.box = ipywidgets.VBox([question, self.choice, self.button, self.told])

    def _reveal(self, reveal: Callable[[str], str]) -> None:
        word = self.choice.value
        self._say(reveal(word) if word else "Choose first; a guess is enough.")

    def _say(self, text: str) -> None:
        self.told.value = f"<pre style='{_PRE}'>{html.escape(text)}</pre>"


_PRE = "white-space:pre-wrap;line-height:1.35;margin:0;color:inherit;background:none"


class Answers:
    """The table of all scenes with their decisions, folded; plain text does not show it."""

    def __repr__(self) -> str:
        return "The answers are folded away. To see them: print(scene_table())"

    def _repr_html_(self) -> str:
        table = scene_table()._repr_html_()
        return f"<details><summary>All scenes and what is decided</summary>\n{table}</details>"


def _choice(word: str) -> str:
    chosen = " ".join(word.lower().split())
    if chosen and chosen not in CHOICES:
        raise LaiError(f"{word!r} is no answer here; the words are: {', '.join(CHOICES)}")
    return chosen


def _result(asked: Asked) -> dict[str, object]:
    row = {"question": asked.number, "scene": asked.title}
    if not asked.given:
        return {**row, "you said": "", "it was": "", "": "○ open"}
    sign = "✓ right" if asked.right else "✗ missed"
    return {**row, "you said": asked.given[0], "it was": asked.decision[0], "": sign}


def _facts(asked: Asked) -> Iterator[str]:
    """What the table does not show: the world, the promises, and the hashes of the arguments."""
    root = workspace_of(asked.path)
    world = [f"{p.name}: {_short(p)}" for p in sorted(root.iterdir()) if p.is_file()]
    yield "in the workspace:  " + (visible(", ".join(world)) or "nothing")
    session = Session.read(asked.path)
    ledger = History.of(session.records, session.lines, session.lost_lines).ledger
    for name in sorted({call.name for call in ledger.calls.values()}):
        tool = find(scene_tools(root), name)
        yield f"promise:           {visible(name)} is {tool.effect if tool else 'not known here'}"
    for call in ledger.open:
        for sha256 in {e.sha256 for e in ledger.attempts(call) if e.sha256}:
            pair = f"{digest(call.text)[:8]} in the call, {sha256[:8]} in the ledger"
            yield f"arguments' hash:   {pair} ({visible(call.name)})"


def _short(file: Path) -> str:
    text = file.read_bytes()[:SHOWN].decode("utf-8", "replace")
    return repr(text) + ("…" if file.stat().st_size > SHOWN else "")


def _inside(path: Path) -> dict[str, bytes]:
    """Every file of the workspace that a session belongs to."""
    root = workspace_of(path)
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
