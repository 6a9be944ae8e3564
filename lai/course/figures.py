"""Where the tokens go: a bar for each request to the model, drawn from the session file.

Rules that live here:

1. A figure shows what the records say, the ones that recovery reads, and measures nothing
   else. A request is what the view held just before its answer was recorded.
2. A part is a colour, a hatching and a word, so the figure can be read without colour. The
   card is light and opaque: it looks the same in a light theme and in a dark one.
3. Every figure has a text twin, the table it is drawn from. A test compares that text and
   not the picture, whose bytes differ between machines. What it shows stands below it in
   sentences too.

matplotlib is imported when something is drawn: it takes half a second.
"""

import base64
import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from IPython.display import display

from lai.budget import Budget
from lai.context import View
from lai.course.tables import Table
from lai.session import Session
from lai.spending import Spending, spending

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours with a hatching each, from the bottom of a bar to its top.
PARTS = MappingProxyType(
    {
        "system": ("#999999", ""),
        "tools": ("#56B4E9", "///"),
        "summary": ("#CC79A7", "xxx"),
        "messages": ("#E69F00", "..."),
        "results": ("#009E73", "\\\\"),
    }
)
INK, CARD = "#222222", "#fafafa"
INCHES, DOTS, SHOWN = (8.0, 3.4), 120, 100  # dots an inch: in the picture, and on the page


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was sent: its parts in tokens, and which one it was.

    ``instead_of`` is the size it would have had without the summary made just before it,
    0 where none was made.
    """

    number: int
    parts: Spending
    instead_of: int

    @property
    def total(self) -> int:
        """The tokens of the whole request."""
        return sum(getattr(self.parts, name) for name in PARTS)


@dataclass(frozen=True, slots=True)
class Filling:
    """The requests of a session, in numbers and as a picture."""

    requests: Sequence[Request]
    budget: Budget

    @property
    def table(self) -> Table:
        """A row for each request: its parts, the whole, and what is left of the window."""
        return Table(
            {
                "request": request.number,
                **{name: getattr(request.parts, name) for name in PARTS},
                "total": request.total,
                "left": request.parts.left,
                "without the summary": request.instead_of or "",
            }
            for request in self.requests
        )

    def __repr__(self) -> str:
        return repr(self.table)

    @property
    def facts(self) -> list[str]:
        """What is drawn, in sentences: the bars, the lines, and each summary."""
        totals = [request.total for request in self.requests]
        if not totals:
            return ["An empty picture: the model was not asked yet."]
        made = [
            f"Before request {r.number} a summary was made: {r.instead_of:,} became {r.total:,}."
            for r in self.requests
            if r.instead_of
        ]
        bars = f"{len(totals)} bars of {min(totals):,} to {max(totals):,} tokens."
        lines = f"Two lines: the limit {self.budget.limit:,}, the window {self.budget.window:,}."
        return [bars, lines, *(made or ["No summary was made."])]

    @property
    def alt(self) -> str:
        """The picture in words."""
        return " ".join(self.facts)

    def png(self) -> bytes:
        """The picture; the same requests give the same bytes on one machine."""
        # A new machine is told that matplotlib looks for fonts; a lesson should not be.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        from matplotlib.figure import Figure  # without pyplot, which keeps every figure

        figure = Figure(INCHES, DOTS, facecolor=CARD, layout="constrained")
        _draw(figure.add_subplot(facecolor=CARD), self)
        file = io.BytesIO()
        figure.savefig(
            file, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True}
        )
        return file.getvalue()

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, Any]]:
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": repr(self)}
        width, height = (int(side * SHOWN) for side in INCHES)
        return data, {"image/png": {"width": width, "height": height, "alt": self.alt}}

    def _ipython_display_(self) -> None:
        """The picture, and the facts below it: JupyterLab reads nobody the words of a picture."""
        data, metadata = self._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        print(*self.facts, sep="\n")


def filling(path: Path, budget: Budget) -> Filling:
    """Every request whose answer stands in a session. ``budget`` is the agent's own."""
    return Filling(tuple(_requests(Session.read(path), budget)), budget)


def _requests(session: Session, budget: Budget) -> Iterator[Request]:
    view, number, before = View(), 0, 0
    for record, line in zip(session.records, session.lines, strict=True):
        match record:
            case {"type": "compaction"}:
                before = record.get("tokens_before", 0)
            case {"type": "message", "message": {"role": "assistant"}}:
                number += 1
                yield Request(number, spending(view, budget), before)
                before = 0
        view.feed(record, line)


def _draw(axes: "Axes", filling: Filling) -> None:
    requests, budget = filling.requests, filling.budget
    places = [request.number for request in requests]
    bottom = [0] * len(places)
    for name, (colour, hatch) in PARTS.items():
        sizes = [asdict(request.parts)[name] for request in requests]
        look: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}
        axes.bar(places, sizes, 0.72, bottom, label=name, **look)
        bottom = [low + size for low, size in zip(bottom, sizes, strict=True)]
    without = [request for request in requests if request.instead_of]
    if without:
        dotted: dict[str, Any] = {"fill": False, "edgecolor": INK, "linestyle": ":"}
        numbers, sizes = [r.number for r in without], [r.instead_of for r in without]
        axes.bar(numbers, sizes, 0.72, label="without the summary", linewidth=1.4, **dotted)
    for height, style, name in (budget.window, "-", "window"), (budget.limit, "--", "limit"):
        axes.axhline(height, color=INK, linestyle=style, linewidth=1.2)
        axes.text(0.42, height, f"{name} {height:,}", color=INK, fontsize=9, va="bottom")
    axes.set(xlabel="request to the model", ylabel="tokens", xticks=places)
    axes.set(xlim=(0.4, len(places) + 0.6), ylim=(0, budget.window * 1.1))
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "frameon": False}
    axes.legend(handles[::-1], labels[::-1], labelcolor=INK, **where)
