"""What a provider has counted: the truth about the request it was sent, if it can be true.

Rules that live here and nowhere else:

1. A count is believed, and it calibrates the estimate of what came after it.
2. It is not believed below ``LEAST`` of our estimate: some count nothing, or only what was
   not in a cache. Then the estimate stands, as if nothing had been counted.
3. It calibrates up to ``MOST``: what a provider adds of its own weighs on a short request,
   not on the next file. And some add up over requests, or count thoughts as answers; so no
   count above ``MOST`` keeps a request from being sent, it only asks for a summary.
4. What a model thought and did not say is counted, but never sent back.
"""

from dataclasses import dataclass

from lai.records import JSON

LEAST, MOST = 0.6, 2.0  # tokens for one of our estimate, which is 0.95 to 1.4 of the truth
ABSURD = 10**9  # tokens: no request has as many


@dataclass(frozen=True, slots=True)
class Counted:
    """A request with its answer: ``tokens`` as counted, and the request as ``estimated`` then.

    ``estimated`` is 0 where nobody estimated it.
    """

    tokens: int
    sent: int
    estimated: int

    @property
    def scale(self) -> float | None:
        """What one estimated token really takes; None where the count does not tell."""
        return believable(min(self.sent / self.estimated, MOST)) if self.estimated else None


def counted(usage: object) -> Counted | None:
    """Read the usage of an answer; None where it says nothing that can be used.

    Beside the provider's own fields it may hold ``estimated_tokens``: what we had
    thought of the request.
    """
    if not isinstance(usage, dict):
        return None
    sent, details = _number(usage, "prompt_tokens"), usage.get("completion_tokens_details")
    thought = _number(details, "reasoning_tokens") if isinstance(details, dict) else 0
    said = max(_number(usage, "completion_tokens") - thought, 0)
    return Counted(sent + said, sent, _number(usage, "estimated_tokens")) if sent else None


def believable(scale: object) -> float | None:
    """The number if it can be the tokens for one of our estimate, else None."""
    return scale if isinstance(scale, int | float) and LEAST <= scale <= MOST else None


def _number(usage: JSON, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 < value < ABSURD else 0
