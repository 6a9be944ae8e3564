"""The scenes themselves: what each shows, what ``decide`` answers to it, and its makers.

They stand in the order of the policy table: nothing tried, running, unknown, concluded; then
files that are not whole, and turns that are over. ``scenes`` stages them.

What a scene says of ``decide`` is stated here and never computed: the tests compare it. Every
row of the policy table that a file can show has a scene, and so has every promise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lai.actions import Action, Ask, AskVerdict, Attempt, CallModel, Done, LookUp, Publish, Settle
from lai.course import aftermath, logs

FOLDER = Path(__file__).resolve().parents[2] / "data" / "scenes"


@dataclass(frozen=True, slots=True)
class Scene:
    """One crash scene.

    ``action`` is the kind of action that ``decide`` answers to it, ``next`` says it in words
    and with what follows. ``world`` are files of the workspace, by name.
    """

    name: str
    title: str
    shows: str
    action: type[Action]
    next: str
    make: Callable[[], bytes]
    world: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> Path:
        """Where the scene lies in the course."""
        return FOLDER / f"{self.name}.jsonl"


_WRITTEN = (("recovery-demo.txt", "recovered"),)
ALL = (
    Scene(
        "unanswered-read",
        "A read without an answer",
        "A file was to be read. Reading has no ledger: it may have run or not.",
        Attempt,
        "attempt: it runs, also for the second time, for it changes nothing",
        logs.whole(logs.unanswered_read),
        _WRITTEN,
    ),
    Scene(
        "approved-never-started",
        "A yes that was never used",
        "The approval is on disk, `running` is not: nothing has happened yet.",
        Ask,
        "ask: an approval of an earlier process is not used by this one",
        logs.whole(logs.approved_never_started),
    ),
    Scene(
        "torn-tail",
        "Half a record at the end",
        "Death came while `running` was being written, so the effect cannot have begun.",
        Ask,
        "ask: the torn bytes are sealed where they stand, and the approval was never used",
        logs.torn_tail,
    ),
    Scene(
        "rejected-untold",
        "A no that the model has not heard of",
        "A person refused; the process died before the model was told.",
        Publish,
        "publish: the refusal goes to the model, nobody is asked a second time",
        logs.whole(logs.rejected_untold),
    ),
    Scene(
        "interrupted-write",
        "A write that was running",
        "The process died between `running` and the outcome. The file may or may not be there.",
        Settle,
        "settle: the attempt becomes unknown; then write again, as a new attempt",
        logs.whole(logs.interrupted_write),
    ),
    Scene(
        "interrupted-command",
        "A command that was running",
        "The same place, another tool: a second run could append a second line.",
        Settle,
        "settle: the attempt becomes unknown; then ask a person, never run it again unasked",
        logs.whole(logs.interrupted_command),
    ),
    Scene(
        "interrupted-job",
        "A job that was being handed in",
        "The same place again, but here somebody can be asked: the list of jobs.",
        Settle,
        "settle: the attempt becomes unknown; then look up what became of it",
        logs.whole(logs.interrupted_job),
    ),
    Scene(
        "lost-line",
        "A yes, then a line that is lost",
        "The lost line may have been `running`. A person has acknowledged that it is lost.",
        Settle,
        "settle: it may have been started, so it is unknown; then ask a person for a verdict",
        logs.lost_line,
    ),
    Scene(
        "unknown-write",
        "A write of unknown outcome",
        "One attempt is `unknown`. The same content written twice leaves the same file.",
        Attempt,
        "attempt: a new one on the old approval, if the file is as it was or as it should be",
        logs.whole(aftermath.unknown_write),
    ),
    Scene(
        "unknown-payment",
        "A payment of unknown outcome",
        "One attempt is `unknown`. Whoever takes the money refuses a second payment under one key.",
        Attempt,
        "attempt: a new one with the same key, as long as the key is remembered",
        logs.whole(aftermath.unknown_payment),
    ),
    Scene(
        "unknown-job",
        "A job of unknown outcome",
        "One attempt is `unknown`. The list of jobs knows what became of it.",
        LookUp,
        "look up: the list is asked for the key, and its answer is recorded",
        logs.whole(aftermath.unknown_job),
    ),
    Scene(
        "unknown-command",
        "A command of unknown outcome",
        "One attempt is `unknown`, and nobody promises anything about a second.",
        AskVerdict,
        "verdict: a person is asked what happened; with nobody there the unknown is published",
        logs.whole(aftermath.unknown_command),
    ),
    Scene(
        "absent-job",
        "A job that never arrived",
        "The list was asked and has no such job; what it does not have was not handed in.",
        Attempt,
        "attempt: a new one on the old approval, since the first certainly did not happen",
        logs.whole(aftermath.absent_job),
    ),
    Scene(
        "said-not-happened",
        "A person's word",
        "A person looked, and said that the command did not happen.",
        Ask,
        "ask: may it run now? the verdict is no approval",
        logs.whole(aftermath.said_not_happened),
    ),
    Scene(
        "retry-left-over",
        "A retry that never started",
        "The second attempt is approved on the strength of the first, and not begun.",
        Attempt,
        "attempt: the retry runs, nobody is asked again about the same write",
        logs.whole(aftermath.retry_left_over),
    ),
    Scene(
        "attempts-spent",
        "Three attempts, three deaths",
        "Writing again is harmless, but three processes have died of it.",
        AskVerdict,
        "verdict: three attempts are the most, so a person is asked",
        logs.whole(aftermath.attempts_spent),
    ),
    Scene(
        "terminal-without-receipt",
        "An outcome without its receipt",
        "The ledger holds the result; the process died before the model was told.",
        Publish,
        "publish: the recorded result, without running anything",
        logs.whole(logs.terminal_without_receipt),
        _WRITTEN,
    ),
    Scene(
        "parallel-calls",
        "Three calls, three fates",
        "One message asked for three things: one is done, one was running, one never began.",
        Publish,
        "publish: the first call's result; then settle the second, then ask about the third",
        logs.whole(logs.parallel_calls),
        (("report.txt", "all is well\n"),),
    ),
    Scene(
        "other-arguments",
        "A ledger of something else",
        "The call asks for another command than the one that was started.",
        Publish,
        "publish: a conflict, nothing runs, and the model is told that something may have",
        logs.whole(logs.other_arguments),
    ),
    Scene(
        "damaged-middle",
        "A line nobody can read",
        "Line 4 is damaged, all others load. It may have been any record.",
        Ask,
        "ask: but no tool runs until a person has acknowledged the damage",
        logs.damaged_middle,
        _WRITTEN,
    ),
    Scene(
        "unknown-published",
        "An honest ending",
        "The turn is over and says plainly what nobody knows. A verdict may still come.",
        Done,
        "done: the turn has its final answer; the unknown stays on record",
        logs.whole(aftermath.unknown_published),
        (("audit.log", "sent\n"),),
    ),
    Scene(
        "compacted-unknown",
        "A summary, and an unknown before it",
        "A summary stands for the turn with the `unknown`; the user asks about it.",
        CallModel,
        "model: it sees the summary and, word for word, what nobody knows",
        logs.whole(aftermath.compacted_unknown),
        (("audit.log", "sent\n"),),
    ),
)
