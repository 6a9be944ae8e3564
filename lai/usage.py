"""What a provider has counted: the truth about the request it was sent.

Rules that live here and nowhere else:

1. The count is believed, and it calibrates the estimate of what came after it.
2. Two things are not believed: less than half of our estimate (some count nothing, or
   only what was not in a cache), and a scale above two (the hidden instructions of a
   provider weigh on a short request, not on the next file).
3. What a model thought and did not say is counted, but never sent back.
"""

from dataclasses import dataclass

from lai.records import JSON

LEAST, MOST = 0.5, 2.0  # tokens for one of our estimate


@dataclass(frozen=True, slots=True)
class Counted:
    """``tokens`` of a request with its answer; ``scale``, what one estimated token really takes."""

    tokens: int
    scale: float


def counted(usage: object) -> Counted | None:
    """Read the usage of an answer; None where it says nothing that can be used.

    Beside the provider's own fields it may hold ``estimated_tokens``: what we had
    thought of the request.
    """
    if not isinstance(usage, dict):
        return None
    sent, estimated = _number(usage, "prompt_tokens"), _number(usage, "estimated_tokens")
    details = usage.get("completion_tokens_details")
    thought = _number(details, "reasoning_tokens") if isinstance(details, dict) else 0
    said = max(_number(usage, "completion_tokens") - thought, 0)
    if not sent:
        return None
    scale = min(max(sent / estimated, LEAST), MOST) if estimated else 1.0
    return Counted(max(sent, int(estimated * LEAST)) + said, scale)


def scale_of(compaction: JSON) -> float:
    """The scale that a compaction hands on to those who do not read what came before it."""
    scale = compaction.get("scale")
    return min(max(scale, LEAST), MOST) if isinstance(scale, int | float) else 1.0


def _number(usage: JSON, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value > 0 else 0
