"""How a timeline looks: boxes for messages, bars with signs for attempts, on a light card.

Rules that live here:

1. A state is a colour (Okabe and Ito's), a sign and a name, and a bar is thick only while
   the outcome is open. So nothing depends on colour alone.
2. The card is light and opaque, the ink dark: the same in a light theme and in a dark one.
3. Only ASCII and the signs are drawn, with the font that matplotlib brings. The text twin
   has the texts as they are.

matplotlib is imported here, and this module only when somebody looks: it takes a moment.
"""

import base64
import io
import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lai.course.tables import COLOUR, SIGN
from lai.records import Status
from lai.report import fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lai.course.timeline import Attempt, Timeline

INK, GREY, PALE, CARD, DEAD = "#222222", "#666666", "#e9e9e9", "#fafafa", "#D55E00"
DOTS, SHOWN = 120, 86  # dots an inch: in the picture, and on the page
# All in inches, from the upper left corner.
LEFT, STEP, ROW, WIDEST = 1.5, 0.66, 0.42, 11.0
NUMBERS, MESSAGES, FOOT = 0.2, 0.56, 0.62
SMALL = 0.5  # where lines stand closer, words are turned
THICK = {Status.RUNNING: 7.0}


def picture(timeline: "Timeline") -> tuple[str, dict[str, int]]:
    """The picture in base64, and its width and height on the page."""
    # A new machine is told that matplotlib looks for fonts; a lesson should not be.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib.figure import Figure  # without pyplot, which keeps every figure

    at = _places(timeline)
    size = (max(at.values()) + 0.45, MESSAGES + ROW * len(timeline.attempts) + FOOT)
    figure = Figure(size, DOTS, facecolor=CARD)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
    axes.axis("off")
    _draw(axes, timeline, at)
    _write(axes, 0.12, size[1] - 0.16, timeline.signs, 7.5, color=GREY, ha="left")
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    shown = {"width": round(size[0] * SHOWN), "height": round(size[1] * SHOWN)}
    return base64.b64encode(file.getvalue()).decode(), shown


def _places(timeline: "Timeline") -> dict[int, float]:
    """Where each line stands; a death takes some room of its own."""
    lines = range(timeline.first, max(timeline.last, timeline.first) + 1)
    deaths = set(timeline.deaths)
    step = min(STEP, (WIDEST - LEFT) / (len(lines) + len(deaths)))
    at, here = {}, LEFT
    for line in lines:
        here += step if line in deaths else 0
        at[line] = here
        here += step
    return at


def _draw(axes: "Axes", timeline: "Timeline", at: dict[int, float]) -> None:
    close = len(at) > 1 and (max(at.values()) - LEFT) / (len(at) - 1) < SMALL
    bottom = MESSAGES + ROW * len(timeline.attempts)
    for line in timeline.deaths:
        place = at[line] - (at[line] - at.get(line - 1, LEFT)) / 2
        axes.plot([place] * 2, [NUMBERS, bottom + 0.2], color=DEAD, ls="--", lw=1.6)
        _write(axes, place, bottom + 0.29, "process died", 7.5, color=DEAD)
    told = {attempt.receipt: attempt.number for attempt in timeline.attempts}
    for line, place in at.items():
        _write(axes, place, NUMBERS, str(line), 7.5, color=GREY)
        if line in timeline.others:
            word = f"{timeline.others[line]} {told.get(line, '')}".strip()
            box = {"boxstyle": "round,pad=0.28", "facecolor": PALE, "edgecolor": GREY, "lw": 0.7}
            _write(axes, place, MESSAGES, word, 8, rotation=90 if close else 0, bbox=box)
    _write(axes, 0.12, NUMBERS, "line", 7.5, color=GREY, ha="left")
    _write(axes, 0.12, MESSAGES, "messages", 9, ha="left")
    for row, attempt in enumerate(timeline.attempts, start=1):
        height = MESSAGES + ROW * row
        _write(axes, 0.12, height, fit(f"{attempt.number} {attempt.tool}", 18), 9, ha="left")
        _attempt(axes, attempt, at, height, words=not close)


def _attempt(
    axes: "Axes", attempt: "Attempt", at: dict[int, float], height: float, *, words: bool
) -> None:
    states = [(at.get(line, LEFT), status) for line, status, _ in attempt.states]
    for (begin, status), (end, _) in pairwise(states):
        axes.plot([begin, end], [height] * 2, color=COLOUR[status], lw=THICK.get(status, 2.0))
    for place, status in states:
        dot: dict[str, Any] = {
            "marker": "o",
            "ms": 13,
            "mfc": CARD,
            "mec": COLOUR[status],
            "mew": 2.2,
        }
        axes.plot([place], [height], **dot, zorder=3)
        _write(axes, place, height, SIGN[status], 9.5, zorder=4)
        if words:
            _write(axes, place, height + 0.17, str(status), 6.5, color=GREY, zorder=4)


def _write(
    axes: "Axes", x: float, y: float, text: str, size: float, *, color: str = INK, **how: Any
) -> None:
    known = set(SIGN.values()) | set("Σ·…")
    plain = "".join(c if c.isascii() or c in known else "?" for c in text)
    look = {"ha": "center", "va": "center", **how}
    axes.text(x, y, plain, fontsize=size, color=color, parse_math=False, **look)
