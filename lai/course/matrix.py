"""Many deaths drawn up: a table with every run, a grid, a sentence, and JSON for machines.

The same runs give the same text. Tables are imported when they are asked for: a child
process of ``crashes`` imports this module again, and has no use for pandas.
"""

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lai.course.deaths import EVERY, Death, gap

if TYPE_CHECKING:
    from lai.course.tables import Table

LEGEND = "executions/effects, and what the model was told; effects are counted outside"


@dataclass(frozen=True, slots=True)
class Matrix:
    """Runs: as a table that holds all of them, and as a grid of crash points and tools."""

    deaths: tuple[Death, ...]

    @property
    def kills(self) -> int:
        """How many processes were killed; one first death may have had many recoveries."""
        firsts = {(d.tool, d.killed_at) for d in self.deaths if d.killed_again}
        return len(self.deaths) + len(firsts)

    @property
    def broken(self) -> list[Death]:
        """The runs in which a promise of the library was broken."""
        return [death for death in self.deaths if death.broken and not death.naive]

    @property
    def blind(self) -> bool:
        """Whether the naive agent died with an open outcome, and nothing was found wrong."""
        control = [d for d in self.deaths if d.naive and d.killed_at in gap(d.tool)]
        return bool(control) and not any(death.broken for death in control)

    @property
    def table(self) -> "Table":
        """A row for each run, with what the restart did."""
        from lai.course.tables import Table, signed

        again = any(death.killed_again for death in self.deaths)
        return Table(
            {
                "tool": death.tool,
                "killed": death.killed_at,
                **({"killed again": death.killed_again} if again else {}),
                "what the restart does": ", ".join(death.recovery),
                "executions": _executions(death),
                "starts": death.starts,
                "effects": death.effects,
                "told": signed(death.status),
                "promise": f"broken: {'; '.join(death.broken)}" if death.broken else "kept",
            }
            for death in self.deaths
        )

    @property
    def grid(self) -> "Table":
        """A row for each crash point, a column for each tool."""
        from lai.course.tables import Table, signed

        rows: dict[tuple[str, str], dict[str, str]] = {}
        for death in sorted(self.deaths, key=lambda death: EVERY.index(death.killed_at)):
            told = "BROKEN" if death.broken else signed(death.status)
            cell = f"{_executions(death)}/{death.effects} {told}"
            rows.setdefault((death.killed_at, death.killed_again), {})[death.tool] = cell
        tools = dict.fromkeys(death.tool for death in self.deaths)
        cells = [
            {"killed": ", then ".join(filter(None, at))}
            | {tool: row.get(tool, "") for tool in tools}
            for at, row in rows.items()
        ]
        return Table(cells, columns=["killed", *tools])

    @property
    def summary(self) -> str:
        """What came of it, in a sentence or two."""
        ours = [death for death in self.deaths if not death.naive]
        said = [f"{self.kills} kills."]
        if ours:
            said.append(f"Promises kept: {len(ours) - len(self.broken)} of {len(ours)}.")
        if len(ours) < len(self.deaths):
            bad = sum(bool(death.broken) for death in self.deaths if death.naive)
            said.append(f"Broken by the naive agent: {bad} of {len(self.deaths) - len(ours)}.")
        return " ".join(said)

    def json(self) -> str:
        """All of it for a machine; the same runs give the same text."""
        deaths = [{k: v for k, v in asdict(d).items() if k != "path"} for d in self.deaths]
        verdict = {"kills": self.kills, "broken": len(self.broken), "blind": self.blind}
        return json.dumps({**verdict, "deaths": deaths}, ensure_ascii=False, indent=1) + "\n"

    def __repr__(self) -> str:
        return f"{self.grid!r}\n\n{LEGEND}\n{self.summary}"

    def _repr_html_(self) -> str:
        return f"{self.grid._repr_html_()}\n<p>{LEGEND}<br>{self.summary}</p>"


def _executions(death: Death) -> str:
    return "–" if death.executions is None else str(death.executions)
