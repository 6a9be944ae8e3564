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
    besides (the agent fills them in); both shares become smaller by them, or a summary
    would be needed again at once. Raises :class:`LaiError` for what cannot be.
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
    def kept(self) -> int:
        """How many tokens of the newest messages a compaction leaves in place."""
        return int(max(self.limit - self.fixed, 0) * self.keep / self.compact_at)

    @property
    def fixed(self) -> int:
        """The tokens of a request without any message."""
        return self.system + self.tools

    @property
    def largest_result(self) -> int:
        """How many tokens one tool result may take: a quarter of the window."""
        return max(self.window // 4, 1)

    def carrying(self, system: str, schemas: list[JSON]) -> "Budget":
        """The same budget for requests with this system message and these tools."""
        message = estimate_message({"role": "system", "content": system}) if system else 0
        return replace(self, system=message, tools=estimate_tools(schemas))
