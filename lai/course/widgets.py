"""A question in a notebook: the cell awaits a person's answer while the agent waits in a thread.

    prompt = Prompt()
    agent = Agent(session, model, tools, ask=prompt)
    answer = await prompt.during(agent.run, "…")

Rules that live here:

1. The agent stays synchronous. ``during`` runs it in a thread of its own and awaits it; a
   question comes back to the kernel's loop, which shows it and goes on serving clicks.
2. The first click wins and greys the buttons; later ones do nothing. A printed line says
   who decided what, so that a saved notebook tells it without any widget.
3. Waiting is done in short ticks, so that the Stop button works. On Stop an open question
   is answered with None ("not now": nothing is recorded), a running tool is interrupted,
   and the agent's thread ends before the cell does. A second Stop waits for nothing.
4. A verdict needs evidence and is never a retry. With nobody there it is not given.
5. Headless: LAI_ANSWER (``y`` or ``n``) answers approvals at once, and nothing else.

Rule 1 needs ipykernel 7.4: earlier kernels do not deliver a click to a cell that awaits.
"""

import asyncio
import contextvars
import ctypes
import html
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import ipywidgets  # type: ignore[import-untyped]
from IPython.display import display

from lai.approval import Kind, Question, visible
from lai.records import LaiError

T = TypeVar("T")
TICK = 0.2  # seconds
HINT = "Please say first what you looked at and what you saw. Without evidence it stays open."
# A button's label, its style, and the answer it gives; for a verdict, the evidence follows.
APPROVAL = (("Approve", "success", "y"), ("Reject", "danger", "n"))
VERDICT = (
    ("It happened", "", "happened: "),
    ("It did not happen", "", "not happened: "),
    ("Leave it unknown", "", ""),
)
DECIDED = {
    "y": "approved",
    "n": "rejected",
    "happened: ": "it happened",
    "not happened: ": "it did not happen",
    "": "left unknown",
}


class Prompt:
    """Asks a person in the notebook; give it to an Agent as ``ask``."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._card: Card | None = None
        self._stopping = False
        self._asking = threading.Lock()  # held while the thread must not be interrupted

    def __call__(self, question: Question) -> str | None:
        """Answer a question of the agent. Runs in the agent's thread."""
        scripted = os.environ.get("LAI_ANSWER")
        if scripted is not None:
            return _scripted_answer(question, scripted)
        if self._loop is None:
            raise LaiError(
                "nobody can answer here: a cell that asks must await, as in "
                "`await prompt.during(agent.run, text)`; for a run with nobody there, set "
                "LAI_ANSWER to y or n"
            )
        with self._asking:
            answer = asyncio.run_coroutine_threadsafe(self._ask(question), self._loop).result()
        if answer is None:
            print(f"Not answered: {_about(question)}")
        else:
            print(_decision("You", question, answer))
        return answer

    async def during(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` in a thread and await it; questions appear under this cell."""
        if self._loop is not None:
            raise LaiError("this prompt is in use; give every agent a prompt of its own")
        self._loop, self._stopping = asyncio.get_running_loop(), False
        outcome: Future[T] = Future()
        worker = threading.Thread(
            target=contextvars.copy_context().run,  # so that what it prints lands in this cell
            args=(_work, outcome, work, args),
            name="agent",
            daemon=True,
        )
        try:
            worker.start()
            await _in_ticks(outcome)
        except asyncio.CancelledError:
            await self._stop(worker)
            raise KeyboardInterrupt("stopped; what was recorded until then stays") from None
        finally:
            self._loop = None
        return outcome.result()

    async def _ask(self, question: Question) -> str | None:
        if self._stopping:
            return None
        self._card = Card(question)
        display(self._card.box)  # type: ignore[no-untyped-call]
        try:
            return await self._card.answer()
        finally:
            self._card = None

    async def _stop(self, worker: threading.Thread) -> None:
        """End the thread: an open question first, then whatever still runs."""
        self._stopping = True
        ticks = 0
        if self._card is not None:  # the agent ends by itself once it has this answer
            self._card.decide(None)
            ticks = 10
        interrupted = False  # once only: the agent then records what it knows
        while worker.is_alive():
            if ticks <= 0 and not interrupted and self._asking.acquire(blocking=False):
                _interrupt(worker)
                self._asking.release()
                interrupted = True
            ticks -= 1
            await asyncio.sleep(TICK / 4)


def _work(outcome: "Future[T]", work: Callable[..., T], args: tuple[Any, ...]) -> None:
    try:
        outcome.set_result(work(*args))
    except BaseException as error:  # noqa: BLE001 (it is raised again, in the cell)
        outcome.set_exception(error)


async def _in_ticks(outcome: "Future[Any]") -> None:
    """Wait until ``outcome`` is there; never for long at once, or Stop would not come through."""
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    outcome.add_done_callback(lambda _: loop.call_soon_threadsafe(woken.set))
    while not outcome.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), TICK)


class Card:
    """One question as widgets: its text, its buttons, and its one answer."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._answer: Future[str | None] = Future()
        self._deciding = threading.Lock()
        self.hint = ipywidgets.HTML()
        self.evidence = ipywidgets.Text(
            description="Evidence",
            placeholder="what did you look at, and what did you see?",
            layout=ipywidgets.Layout(width="95%"),
        )
        verdict = question.kind is Kind.VERDICT
        self.buttons = [_button(*row[:2]) for row in (VERDICT if verdict else APPROVAL)]
        for button, row in zip(self.buttons, VERDICT if verdict else APPROVAL, strict=True):
            button.on_click(lambda _, answer=row[2]: self._clicked(answer))
        text = ipywidgets.HTML(f"<pre {_PRE}>{html.escape(_text(question))}</pre>")
        choice = [self.evidence] if verdict else []
        self.box = ipywidgets.VBox([text, *choice, ipywidgets.HBox(self.buttons), self.hint])

    async def answer(self) -> str | None:
        """Wait for the decision, in ticks that let the Stop button through."""
        await _in_ticks(self._answer)
        return self._answer.result()

    def decide(self, answer: str | None) -> None:
        """Take the first decision; every later one is ignored."""
        with self._deciding:  # earlier kernels bring a click on another thread
            if self._answer.done():
                return
            self._answer.set_result(answer)
        for widget in (*self.buttons, self.evidence):
            widget.disabled = True
        self.hint.value = ""

    def _clicked(self, answer: str) -> None:
        if answer.endswith(": "):
            evidence = " ".join(self.evidence.value.split())
            if not evidence:
                self.hint.value = html.escape(HINT)
                return
            answer += evidence
        self.decide(answer)


_PRE = (
    'style="white-space: pre-wrap; line-height: 1.3; margin: 0; color: inherit; background: none"'
)


def _text(question: Question) -> str:
    """The question without its last line, which is about typing an answer."""
    return str(question).removesuffix(question.prompt).rstrip()


def _button(label: str, style: str) -> ipywidgets.Button:
    layout = ipywidgets.Layout(width="auto")
    return ipywidgets.Button(description=label, button_style=style, layout=layout)


def _decision(who: str, question: Question, answer: str) -> str:
    head, colon, evidence = answer.partition(": ")
    said = DECIDED.get(head + colon, answer)
    told = f". Evidence: {visible(evidence)}" if evidence else ""
    return f"{who}: {visible(said)} ({_about(question)}){told}"


def _about(question: Question) -> str:
    return visible(f"{question.tool_name}, call {question.call_id}")


def _scripted_answer(question: Question, answer: str) -> str:
    if answer not in ("y", "n"):
        raise LaiError(f"LAI_ANSWER is {answer!r}; it must be y or n, or not be set at all")
    print(_text(question))
    if question.kind is Kind.VERDICT:
        answer = ""
    print(_decision("Nobody is here, LAI_ANSWER is set", question, answer))
    return answer


def _interrupt(thread: threading.Thread) -> None:
    """Raise KeyboardInterrupt in a thread, at its next step of Python."""
    if thread.ident is not None:
        identity, kind = ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, kind)
