"""The inputs from public reports, as they lie in data/cases."""

import json
import shutil
from pathlib import Path
from typing import Any

JSON = dict[str, Any]
CASES = Path(__file__).parent / "data" / "cases"


def case(name: str) -> JSON:
    """A fault, a command or a file state."""
    return json.loads((CASES / f"{name}.case.json").read_text("utf-8"))


def session(ws: Path, name: str) -> Path:
    """A copy of a case's session file in the workspace."""
    path = ws / ".agent_state" / "session-t.jsonl"
    path.parent.mkdir()
    shutil.copyfile(CASES / f"{name}.jsonl", path)
    return path
