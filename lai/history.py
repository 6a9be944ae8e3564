"""Everything the next decision depends on: the log, and this process's own facts."""

from collections.abc import Iterable, Sequence

from lai.context import View
from lai.ledger import IllegalTransition, Ledger
from lai.records import Record


class History:
    """The fold of the log, read one record at a time.

    ``opened_at`` is the last line that stood there when this process opened the log: an
    approval up to it was given to another process. ``declined`` holds the attempts on
    which a person gave this process no verdict. ``violations`` are records of the file
    that the transition table forbids, as (line, sentence); they changed nothing.
    ``compaction_tried`` says that one was made or refused for the next answer of the model,
    ``refusals`` why this process refused some. ``partial`` says that the log was not read
    from its first line on.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.view = View()
        self.opened_at = 0
        self.declined: set[str] = set()
        self.violations: list[tuple[int, str]] = []
        self.compaction_tried = False
        self.refusals: list[str] = []
        self.partial = False

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        lines: Sequence[int] | None = None,
        lost: Iterable[int] = (),
        *,
        partial: bool = False,
    ) -> "History":
        """Read a log that exists already; ``partial``: what a compaction left of it.

        ``lines`` are the physical lines of the records (1, 2, 3 … if left out), ``lost``
        the lines that could not be read.
        """
        history, gaps = cls(), sorted(lost, reverse=True)
        history.partial = partial
        for number, record in enumerate(records):
            line = lines[number] if lines else number + 1
            while gaps and gaps[-1] <= line:
                history.ledger.lose(gaps.pop())
            history.opened_at = line
            try:
                history.feed(record, line)
            except IllegalTransition as problem:
                history.violations.append((line, str(problem)))
                history.ledger.lose(line)  # it says something we cannot place
        for line in reversed(gaps):
            history.ledger.lose(line)
        return history

    def feed(self, record: Record, line: int) -> None:
        """Read the next record. Raises :class:`IllegalTransition` and changes nothing."""
        self.ledger.check(record)
        self.learn(record, line)

    def learn(self, record: Record, line: int) -> None:
        """Read a record that ``ledger.check`` has let pass."""
        self.ledger.learn(record, line)
        self.view.feed(record, line)
        if record["type"] == "compaction":
            self.compaction_tried = True
        elif record["type"] == "message" and record["message"]["role"] in ("user", "assistant"):
            self.compaction_tried = False
