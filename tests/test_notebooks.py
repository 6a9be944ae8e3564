"""The notebooks run: from a clean folder, twice, headless, offline; and what is committed is clean.

The kernel finds the copy of the course under test through PYTHONPATH, and on the same path
`data/offline`, which lets its sockets reach loopback only.
"""

import ast
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output

import lai
from lai.course.run_notebooks import copy_course, execute

ROOT = Path(__file__).resolve().parents[1]
OFFLINE = ROOT / "tests" / "data" / "offline"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WIDGET = "application/vnd.jupyter.widget"
PLACE = re.compile(r"(?<![\w./~])/(?:home|root|tmp|Users|work|var|opt|mnt)\b|\b[A-Z]:\\")
BLOCKING = ("input", "time.sleep", "sleep", "asyncio.run")
Outputs = dict[str, list[tuple[str, ...]]]


@cache
def names_of(folder: Path) -> set[str]:
    """Every public function and class that the library defines."""
    trees = [ast.parse(p.read_text(encoding="utf-8")) for p in folder.rglob("*.py")]
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = {node.name for tree in trees for node in tree.body if isinstance(node, kinds)}
    return {name for name in found if not name.startswith("_")} | set(lai.__all__)


def defined(source: str) -> Iterator[tuple[str, bool]]:
    """The names a cell binds; True for functions and classes."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    for node in ast.walk(compile(source, "cell", "exec", flags)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, False


def redefinitions(source: str) -> list[str]:
    """Library names that a cell takes for something of its own."""
    library = names_of(ROOT / "lai")
    return [
        name for name, made in defined(source) if name in (library if made else set(lai.__all__))
    ]


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def blocking(source: str) -> list[str]:
    """Calls that keep the kernel from serving clicks, or need somebody at a prompt."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST
    calls = [n for n in ast.walk(compile(source, "cell", "exec", flags)) if isinstance(n, ast.Call)]
    return [found for call in calls if (found := ast.unparse(call.func)) in BLOCKING]


def outputs(notebook: NotebookNode) -> Outputs:
    """What every cell shows as text, by cell id; cells tagged `varies` are left out.

    A picture is compared by its text twin: its own bytes differ between machines.
    """
    shown: Outputs = {}
    for cell in code(notebook):
        if "varies" in cell.metadata.get("tags", []):
            continue
        lines: list[tuple[str, ...]] = []
        for out in cell.outputs:
            if out.output_type != "stream":
                data = out.get("data", {})
                lines += [(k, data[k]) for k in sorted(data) if k.startswith("text/")]
            elif lines and lines[-1][0] == out.name:  # one stream may come in pieces
                lines[-1] = (out.name, lines[-1][1] + out.text)
            else:
                lines.append((out.name, out.text))
        shown[cell.id] = lines
    return shown


def flaws(notebook: NotebookNode) -> list[str]:
    """What must not be in a committed notebook."""
    cells = code(notebook)
    everything = json.dumps(notebook)
    found = [
        ("widget state", "widgets" in notebook.metadata or WIDGET in everything),
        ("kernel", notebook.metadata.get("kernelspec", {}).get("name") != "python3"),
        ("cell ids", len({c.get("id") for c in notebook.cells}) != len(notebook.cells)),
        ("absolute path", bool(PLACE.search(everything.replace("\\\\", "\\")))),
        ("counts", [c.execution_count for c in cells] != list(range(1, len(cells) + 1))),
        ("metadata", any(set(c.metadata) - {"tags"} for c in notebook.cells)),
        ("too many cells", len(cells) > 25),
        ("long cell", any(len(c.source.splitlines()) > 20 for c in cells)),
        ("error output", any(o.output_type == "error" for c in cells for o in c.outputs)),
        ("warning", any(o.get("name") == "stderr" for c in cells for o in c.outputs)),
        ("redefinition", any(redefinitions(c.source) for c in cells)),
        ("varies without assert", any(_unchecked(c) for c in cells)),
        ("a cell that blocks", any(blocking(c.source) for c in cells)),
        ("picture without words", any(_wordless(o) for c in cells for o in c.outputs)),
    ]
    return [name for name, wrong in found if wrong]


def _wordless(output: NotebookNode) -> bool:
    """Whether this is a picture without a text twin, or without a sentence for who cannot see."""
    pictures = [kind for kind in output.get("data", {}) if kind.startswith("image/")]
    words = output.get("data", {}).get("text/plain", "<")
    told = all(output.metadata.get(kind, {}).get("alt") for kind in pictures)
    return bool(pictures) and (words.startswith("<") or not told)


def _unchecked(cell: NotebookNode) -> bool:
    return "varies" in cell.metadata.get("tags", []) and "assert " not in cell.source


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the course; kernels import from it, offline and with nothing of the machine's."""
    folder = copy_course(ROOT, tmp_path_factory.mktemp("clean") / "course")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(OFFLINE), str(folder.parent)]))
        patch.setenv("OPENAI_API_KEY", "not for a kernel")
        patch.delenv("LAI_ANSWER", raising=False)
        yield folder


@pytest.fixture(scope="module")
def executed() -> dict[str, NotebookNode]:
    """Notebooks that ran already in this module, by name."""
    return {}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_and_shows_what_is_committed(
    path: Path, course: Path, executed: dict[str, NotebookNode]
) -> None:
    """A clean run reaches the end, shows the committed bytes, and leaves no file behind."""
    before = files(course.parent)
    executed[path.name] = execute(course / path.name, course)
    assert outputs(executed[path.name]) == outputs(nbformat.read(path, as_version=4))
    assert files(course.parent) == before


def test_notebook_runs_a_second_time(course: Path, executed: dict[str, NotebookNode]) -> None:
    """The notebook that kills most shows the same in a folder in which it ran before."""
    name = "04_3_recovery.ipynb"
    first = executed.get(name) or execute(course / name, course)
    assert outputs(execute(course / name, course)) == outputs(first)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_is_clean(path: Path) -> None:
    """A committed notebook is valid, small, and holds nothing of the machine that ran it."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert flaws(notebook) == []
    assert path.stat().st_size <= 300_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_numbered_section_asserts(path: Path) -> None:
    """Each `## n ·` section that runs something checks something."""
    title, checked = "", {}
    for cell in nbformat.read(path, as_version=4).cells:
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else ():
            title = line if line.startswith("## ") else title
        if cell.cell_type == "code" and re.match(r"## \d", title):
            checked[title] = checked.get(title, False) or "assert " in cell.source
    assert checked
    assert [title for title, done in checked.items() if not done] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_links_and_pictures_are_local(path: Path) -> None:
    """Every link of the text leads to a file of the course; nothing is fetched from elsewhere."""
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []
    assert "<img" not in text


@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        ("K8-01", "a cell that blocks"),
        ("K8-02", "a cell that blocks"),
        ("K8-03", "a cell that blocks"),
        ("K8-09", "counts"),
    ],
)
def test_reported_notebooks_are_found_out(name: str, flaw: str) -> None:
    """K8: a loop that waits for a click, input(), asyncio.run, cells run in another order."""
    case = nbformat.read(ROOT / f"tests/data/cases/{name}.ipynb", as_version=4)
    assert flaw in flaws(case)


def test_a_careless_notebook_is_found_out() -> None:
    """Each rule for a committed notebook fails on a notebook that breaks it (case K8-08)."""
    case = nbformat.read(ROOT / "tests/data/cases/K8-08.ipynb", as_version=4)
    case.cells.append(new_code_cell("\n" * 21 + "def decide(): ...", metadata={"tags": ["varies"]}))
    case.cells[-1].outputs = [new_output("stream", name="stderr", text="careful")]
    case.cells += [new_code_cell("input()", id=case.cells[0].id) for _ in range(25)]
    picture = {"image/png": "", "text/plain": "<Figure size 640x480 with 1 Axes>"}
    case.cells[-1].outputs = [
        new_output("error", ename="E", evalue="", traceback=[]),
        new_output("display_data", picture),
    ]
    found = flaws(case)
    assert len(found) == 14
    assert (redefinitions("Session = 3"), redefinitions("path = 3")) == (["Session"], [])
