"""The rules of the source, read from the source: layers, purity, charters, sizes.

Each rule is a function from sources to complaints. The library must give none, and small
sources that break the rule must give one.
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

LAI = Path(__file__).parents[1] / "lai"
Sources = Mapping[str, str]  # by module name, "" for the package itself
# Each module may import what stands before it, and nothing else of the library.
ORDER = """
    records tokens usage budget bounds calls wire executions ledger context history tools receipts
    actions spending compaction summary recovery approval extract checksums lines replies
    reads later prepared storage logfile session report journal outcome offline models paths
    artifacts completion executor agent faults processes traces output replace view landlock
    sandbox shell workspace
    __init__ selfcheck voice window chat __main__
    operations.records operations.answers operations.policy operations.changes
    operations.references operations.databases operations.schema operations.shelf operations.waiting
    operations.store operations.outbox operations.work operations.patience operations.review
    operations.show operations.client operations.tools operations
    operations.service operations.service.profiles operations.service.mishaps
    operations.service.jobs operations.service.reports operations.service.arrivals
    operations.service.disturbance operations.service.provider operations.service.application
    operations.service.transport operations.service.running operations.service.__main__
    operations.worker
""".split()
PURE = """
    records tokens usage budget bounds calls wire executions ledger context history tools receipts
    actions spending compaction summary recovery approval extract checksums lines replies
    reads later prepared operations.records operations.answers operations.policy operations.changes
    operations.service.profiles operations.service.mishaps
""".split()
# What a pure module may use: nothing here reaches a file, process, clock or random source.
HARMLESS = """
    array collections collections.abc contextlib dataclasses difflib enum fnmatch functools
    hashlib itertools json math pydantic re string types typing unicodedata
""".split()
WORLDLY_CALLS = ("open", "print", "input", "exec", "eval", "compile", "__import__", "breakpoint")
HEAVY = "pandas ipywidgets matplotlib IPython tqdm numpy jupyter_client".split()
FILE_LINES, FUNCTION_LINES, CHARTER = 260, 45, 60
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def core() -> dict[str, str]:
    """The sources of the library, without the course."""
    found = {path.stem: path.read_text("utf-8") for path in sorted(LAI.glob("*.py"))}
    for path in sorted((LAI / "operations").rglob("*.py")):
        name = ".".join(path.relative_to(LAI).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path.read_text("utf-8")
    return found


def everything() -> dict[str, str]:
    """The same with the course."""
    course = sorted((LAI / "course").glob("*.py"))
    return core() | {f"course.{path.stem}": path.read_text("utf-8") for path in course}


def imports(source: str) -> Iterator[str]:
    """The full names of all imported modules, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "lai" if node.level else node.module or ""
            inside = node.level and node.module
            if module == "lai" and not inside:
                yield from (f"lai.{alias.name}" for alias in node.names)
            else:
                yield f"lai.{inside}" if inside else module


def own(source: str) -> list[str]:
    """The modules of the library that a source imports, by short name."""
    return [name.removeprefix("lai.") for name in imports(source) if name.startswith("lai.")]


def wrong_way(sources: Sources) -> list[str]:
    """Imports that go up or sideways, and modules without a place in the order."""
    found = [f"{name} has no place in ORDER" for name in sources if name not in ORDER]
    for name, source in sources.items():
        below = ORDER[: ORDER.index(name)] if name in ORDER else []
        found += [f"{name} imports {other}" for other in own(source) if other not in below]
    return found


def cycles(sources: Sources) -> list[str]:
    """Modules that can be reached from themselves."""
    return [name for name in sources if name in reached(name, sources, first=False)]


def reached(name: str, sources: Sources, *, first: bool = True) -> set[str]:
    """All modules that a module imports, directly or through others."""
    seen: set[str] = {name} if first else set()
    waiting = own(sources[name])
    while waiting:
        other = waiting.pop()
        if other not in seen and other in sources:
            seen.add(other)
            waiting += own(sources[other])
    return seen


def impure(sources: Sources) -> list[str]:
    """Ways from a pure module to the world: an import, also through others, or a call."""
    found = []
    for name in (name for name in PURE if name in sources):
        for other in sorted(reached(name, sources)):
            used = [m for m in imports(sources[other]) if not m.startswith("lai")]
            found += [f"{name} reaches {m} in {other}" for m in used if m not in HARMLESS]
            calls = (n for n in ast.walk(ast.parse(sources[other])) if isinstance(n, ast.Call))
            called = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
            found += [f"{name} reaches {c}() in {other}" for c in called if c in WORLDLY_CALLS]
    return found


def heavy(sources: Sources) -> list[str]:
    """Imports of what only the course may use."""
    return [
        f"{name} imports {module}"
        for name, source in sources.items()
        for module in imports(source)
        if module.split(".")[0] in HEAVY or module.startswith("lai.course")
    ]


def undocumented(sources: Sources) -> list[str]:
    """Modules without a charter, public classes and functions without a docstring."""
    found = []
    for name, source in sources.items():
        tree = ast.parse(source)
        if len(ast.get_docstring(tree) or "") < CHARTER:
            found.append(f"{name} has no charter")
        found += [f"{name}.{d.name}" for d in public(tree) if not ast.get_docstring(d)]
    return found


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Public classes and functions, methods of public classes too."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def too_long(sources: Sources) -> list[str]:
    """Files and functions beyond their bounds; a docstring is free."""
    found = []
    for name, source in sources.items():
        lines = len(source.splitlines())
        found += [f"{name} has {lines} lines"] if lines > FILE_LINES else []
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                size = node.end_lineno - node.lineno + 1 - _docstring_lines(node)
                found += [f"{name}.{node.name} has {size} lines"] if size > FUNCTION_LINES else []
    return found


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) else 0


Rule = Callable[[Sources], list[str]]
LONG = f'"""{"x" * CHARTER}"""\n'
BODY = "    pass\n"
# A rule, sources that break it, and what it must say of them.
BROKEN: list[tuple[Rule, dict[str, str], str]] = [
    (wrong_way, {"records": "from lai.calls import Call"}, "records imports calls"),
    (wrong_way, {"calls": "def f():\n    from lai import agent"}, "calls imports agent"),
    (wrong_way, {"records": "from . import session"}, "records imports session"),
    (wrong_way, {"records": "from .session import Session"}, "records imports session"),
    (wrong_way, {"agent": "import lai.course.child"}, "agent imports course.child"),
    (wrong_way, {"extras": ""}, "extras has no place in ORDER"),
    (cycles, {"a": "import lai.b", "b": "import lai.c", "c": "from lai import a"}, "a"),
    (impure, {"recovery": "import time"}, "recovery reaches time in recovery"),
    (impure, {"recovery": "def f():\n    from os.path import join"}, "recovery reaches os.path"),
    (
        impure,
        {"recovery": "import lai.calls", "calls": "from lai import x", "x": "import random"},
        "recovery reaches random in x",
    ),
    (impure, {"lines": "def f():\n    return open('x')"}, "lines reaches open() in lines"),
    (heavy, {"agent": "import pandas as pd"}, "agent imports pandas"),
    (heavy, {"agent": "def f():\n    from matplotlib import pyplot"}, "agent imports matplotlib"),
    (heavy, {"agent": "from lai.course import child"}, "agent imports lai.course"),
    (undocumented, {"a": ""}, "a has no charter"),
    (undocumented, {"a": f"{LONG}def f():\n{BODY}"}, "a.f"),
    (undocumented, {"a": f"{LONG}class C:\n    '''C.'''\n    def m(self):\n    {BODY}"}, "a.m"),
    (too_long, {"a": "\n" * (FILE_LINES + 1)}, f"a has {FILE_LINES + 1} lines"),
    (
        too_long,
        {"a": f"class C:\n  def f():\n    '''F\n.'''\n{BODY * FUNCTION_LINES}"},
        f"a.f has {FUNCTION_LINES + 1} lines",
    ),
]


@pytest.mark.parametrize("rule", [wrong_way, cycles, impure, heavy])
def test_the_core_keeps_the_rule(rule: Rule) -> None:
    """Imports go one way, the pure modules stay pure, and the course is not needed."""
    assert rule(core()) == []


@pytest.mark.parametrize("rule", [undocumented, too_long])
def test_every_module_keeps_the_rule(rule: Rule) -> None:
    """Every module says what it is, every public name too, and all of them stay small."""
    assert rule(everything()) == []


@pytest.mark.parametrize(("rule", "sources", "complaint"), BROKEN)
def test_the_rule_is_seen_to_be_broken(rule: Rule, sources: dict[str, str], complaint: str) -> None:
    """A source that breaks a rule is named, with what is wrong in it."""
    assert any(found.startswith(complaint) for found in rule(sources)), rule(sources)


def test_every_named_module_exists() -> None:
    """The lists of this test speak of modules that are there."""
    assert set(ORDER) == set(core())
    assert set(PURE) <= set(ORDER)


def test_the_core_runs_without_the_course() -> None:
    """Importing the whole library, its command line too, loads nothing of the course."""
    names = [f"lai.{name}" for name in core() if name != "__init__"]
    program = f"import sys, {', '.join(names)}; print([m for m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=LAI.parent, capture_output=True, text=True, check=True
    ).stdout
    modules = set(ast.literal_eval(loaded))
    assert "lai.recovery" in modules
    assert {m.split(".")[0] for m in modules}.isdisjoint(HEAVY)
    assert not any(m.startswith("lai.course") for m in modules)
