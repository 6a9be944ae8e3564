"""Run the notebooks as a reader would, but with nobody there.

    python -m lai.course.run_notebooks [NAME ...]     NAME: the start of a notebook's name

Rules that live here:

1. The reader's files stay as they are: everything runs in a temporary copy of the course,
   made without hidden folders, so also without the sessions of earlier runs.
2. Every notebook gets a fresh kernel, started in the notebooks folder of that copy.
3. A run with nobody there is offline and costs nothing: the kernel sees no API key. The
   answer to every approval comes from LAI_ANSWER.
4. One line a notebook, in the order of their names; a failure shows the cell's own error,
   and the others still run.

It does not judge outputs; the tests do that with what `execute` returns. `nbclient` and
`nbformat` come with JupyterLab.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
CELL_SECONDS = 120
LIVE = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "AGENT_SESSION_ID")


def execute(path: Path, workdir: Path, answer: str = "y") -> NotebookNode:
    """Run the notebook at `path` with `workdir` as its folder and return it with its outputs.

    Nothing is written to `path`. A failing cell raises nbclient's CellExecutionError.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(workdir)}},
    )
    env = {name: value for name, value in os.environ.items() if name not in LIVE}
    env["LAI_ANSWER"] = answer
    # "auto": encrypted where the kernel can, which also spares the reader its warning about that.
    return client.execute(env=env, transport_encryption="auto")


def copy_course(root: Path, target: Path) -> Path:
    """Copy the course without hidden and derived files; return the copy's notebooks folder."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "node_modules")
    shutil.copytree(root, target, ignore=ignored)
    return target / "notebooks"


def choose(notebooks: list[Path], names: list[str]) -> list[Path]:
    """The notebooks whose names start with one of `names`; all of them for no names."""
    for name in names:
        if not any(path.name.startswith(name) for path in notebooks):
            known = ", ".join(path.stem for path in notebooks) or "none"
            raise SystemExit(f"no notebook's name starts with {name!r}; there are: {known}")
    return [p for p in notebooks if not names or p.name.startswith(tuple(names))]


def failure(error: Exception) -> str:
    """The cell's own error, in plain text."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()


def run_all(notebooks: list[Path], workdir: Path) -> Iterator[tuple[Path, str]]:
    """Run one notebook after the other; yield each with its error, empty if it is fine."""
    for path in notebooks:
        try:
            execute(path, workdir)
        except (CellControlSignal, CellTimeoutError, DeadKernelError) as error:
            yield path, failure(error)
        else:
            yield path, ""


def main(names: list[str]) -> int:
    """Run the notebooks, say how each went, and return 1 if any failed."""
    with tempfile.TemporaryDirectory(prefix="lai-notebooks-") as folder:
        workdir = copy_course(ROOT, Path(folder) / "course")
        chosen = choose(sorted(workdir.glob("*.ipynb")), names)
        failed = 0
        with tqdm(total=len(chosen), unit="notebook") as bar:
            for path, error in run_all(chosen, workdir):
                failed += bool(error)
                bar.update()
                bar.write(f"FAILED {path.name}\n{error}" if error else f"ok     {path.name}")
    print(f"{len(chosen) - failed} ok, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
