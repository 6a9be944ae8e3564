"""How much of the model's context window a conversation may use.

Everything a request carries counts: the system message and the tool schemas as much as the
messages. It does not know messages: their sizes are measured in ``context``.
"""

from dataclasses import dataclass, replace

from lai.records import JSON, LaiError
from lai.tokens import estimate_message, estimate_tools


@dataclass(frozen=True, slots=True)
class Budget:
    """The context window in tokens, and how to live in it.

    Above ``compact_at`` of the window older messages give way to a summary, and the newest
    keep up to ``keep`` of it. ``system`` and ``tools`` are what every request carries
    besides (the agent fills them in); what stays becomes less by them, or a summary would
    be needed again at once. Raises :class:`LaiError` for what cannot be.
    """

    window: int
    compact_at: float = 0.7
    keep: float = 0.3
    system: int = 0
    tools: int = 0

    def __post_init__(self) -> None:
        if self.window < 1:
            raise LaiError(f"a context window of {self.window} tokens holds nothing")
        if not 0 < self.keep < self.compact_at <= 1:
            raise LaiError(
                f"keep={self.keep} and compact_at={self.compact_at} are shares of the window: "
                "0 < keep < compact_at <= 1"
            )

    @property
    def limit(self) -> int:
        """The largest request, in tokens, that needs no compaction."""
        return int(self.compact_at * self.window)

    @property
    def summary(self) -> int:
        """How many tokens a summary should have at most."""
        return min(max(self.window // 20, 32), 1000)

    def kept(self, pinned: float) -> float:
        """How many tokens of the newest messages stay, with so many ``pinned`` besides."""
        room = max(self.limit - self.fixed - self.summary - pinned, 0)
        return room * self.keep / self.compact_at

    @property
    def fixed(self) -> int:
        """The tokens of a request without any message."""
        return self.system + self.tools

    def largest_result(self, together: int = 1) -> int:
        """How many tokens a tool result may take: a quarter of the window, or its part of half.

        ``together`` is how many calls one message made: their results cannot be parted later.
        """
        return max(self.window // max(4, 2 * together), 1)

    def carrying(self, system: str, schemas: list[JSON]) -> "Budget":
        """The same budget for requests with this system message and these tools."""
        message = estimate_message({"role": "system", "content": system}) if system else 0
        return replace(self, system=message, tools=estimate_tools(schemas))
