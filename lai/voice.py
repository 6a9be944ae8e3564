"""The terminal: the model's words out, a person's answers in.

Rules that live here and nowhere else:

1. No text reaches the terminal with its control characters, whoever wrote it.
2. A question can be left for later: the end of input and ``/exit`` are no answers. With
   nobody at the other end of a pipe a verdict is declined, and its outcome stays unknown.
3. A process that was killed while it read may have left the terminal without echo; the
   next one puts that right before it asks anything.

It does not know sessions or turns.
"""

import contextlib
import shutil
import sys

from lai.approval import Kind, Question, approves, read_verdict, visible

with contextlib.suppress(ImportError):  # line editing, where the platform has it
    import readline  # noqa: F401 (importing it is all it takes)

try:
    import termios
except ImportError:  # no such terminals on this platform
    termios = None  # type: ignore[assignment]


class Voice:
    """Speaks and listens, and keeps what it says on lines of their own."""

    def __init__(self) -> None:
        self._speaking = False
        self._asked = False
        restore_echo()

    def speak(self, piece: str) -> None:
        """Say a piece of the model's answer, as it comes."""
        if not self._speaking:
            print("Agent> ", end="")
            self._speaking = True
        print(visible(piece, keep="\n\t\u200d\ufe0f"), end="", flush=True)

    def line(self, text: str) -> None:
        """Say something on a line of its own."""
        if self._speaking:
            print()
        self._speaking = False
        print(visible(text, keep="\n⟦⟧"), flush=True)  # some of it is made visible already

    def end(self) -> None:
        """End what is being said; the next words are another answer."""
        if self._speaking:
            self.line("")

    def read(self, prompt: str) -> str:
        """Ask for a line. Raises EOFError at the end of the input."""
        self.end()
        try:
            text = input(prompt)
        except (EOFError, KeyboardInterrupt):
            print(flush=True)
            raise
        if not sys.stdin.isatty():  # so that what came through a pipe can be read again
            print(visible(text), flush=True)
        return text

    def ask(self, question: Question) -> str | None:
        """A person's answer; None leaves the question open."""
        if not self._asked:
            self.line("[question] Ctrl-D or /exit leaves a question open; it is asked again later")
        self._asked = True
        drop_typed_ahead()
        try:
            answer = self._answer(question)
        except EOFError:
            nobody = question.kind is Kind.VERDICT and not sys.stdin.isatty()
            return "" if nobody else None
        if answer == "/exit":
            return None
        if question.kind is Kind.APPROVAL and approves(answer):
            self.line("[yes]")
        if question.kind is Kind.VERDICT and read_verdict(answer) is None:
            self.line(f"[unknown] left as it is; a verdict can be given later: {_later(question)}")
        return answer

    def _answer(self, question: Question) -> str:
        answer = self.read(str(question))
        while answer.startswith("/") and answer != "/exit":
            answer = self.read("A question is open: answer it, or leave it with /exit. ")
        if question.kind is Kind.APPROVAL:
            return answer
        answer = _as_verdict(answer)
        while _lacks_evidence(answer):
            ask = "What did you see? happened: <evidence> or not happened: <evidence> "
            answer = _as_verdict(self.read(ask))
        return answer


def _as_verdict(answer: str) -> str:
    """What was typed with the colon of a Chinese keyboard, or with the dash of ``resolve``."""
    head, colon, evidence = answer.replace("：", ":", 1).partition(":")
    return head.replace("-", " ").replace("_", " ") + colon + evidence


def _lacks_evidence(answer: str) -> bool:
    """Whether somebody began a verdict and did not end it."""
    begun = answer.strip().casefold().startswith(("happened", "not happened"))
    return begun and read_verdict(answer) is None


def _later(question: Question) -> str:
    attempt = visible(question.execution_id or "")
    return f"python -m lai resolve FILE {attempt} happened --evidence TEXT"


def width() -> int:
    """Columns of the terminal; 150 where the output is none."""
    return shutil.get_terminal_size((150, 0)).columns if sys.stdout.isatty() else 150


def drop_typed_ahead() -> None:
    """Forget keys pressed before a question was seen: nobody approves what was not shown."""
    if termios is not None and sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def restore_echo() -> None:
    """Let the terminal show what is typed, whatever a killed process did to it."""
    if termios is None or not sys.stdin.isatty():
        return
    state = termios.tcgetattr(sys.stdin)
    state[3] |= termios.ECHO | termios.ICANON | termios.ISIG
    state[0] |= termios.ICRNL
    termios.tcsetattr(sys.stdin, termios.TCSANOW, state)
