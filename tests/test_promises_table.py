"""The published table of promises is true: what it names exists, and nothing is left out."""

import ast
import re
from pathlib import Path

import invariants
import pytest

HERE = Path(__file__).parent
TEXT = (HERE / "README.md").read_text("utf-8")
ROWS = [line.split("|")[1:-1] for line in TEXT.splitlines() if re.match(r"\| I\d", line)]
ROW = [pytest.param(row, id=row[0].strip()) for row in ROWS]
JUDGES = {judge.__name__ for judge in (*invariants.ALWAYS, *invariants.AT_THE_END)}


def quoted(cell: str) -> list[str]:
    """What stands in code marks."""
    return re.findall(r"`([^`]+)`", cell)


def test_every_promise_has_its_row() -> None:
    """I1 to I31, in order, each with something that holds it."""
    assert [row[0].strip() for row in ROWS] == [f"I{n}" for n in range(1, 32)]
    assert all(quoted(row[3]) for row in ROWS)


def test_every_judge_has_its_row() -> None:
    """All invariants are named, and no other."""
    assert {name for row in ROWS for name in quoted(row[2])} == JUDGES


@pytest.mark.parametrize("row", ROW)
def test_every_named_test_exists(row: list[str]) -> None:
    """A file, or a test in it."""
    for name in quoted(row[3]):
        file, _, function = name.partition("::")
        tree = ast.parse((HERE / file).read_text("utf-8"))
        kinds = (ast.FunctionDef, ast.ClassDef)  # a machine of states is a class, made by a call
        found = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
        assert function in found or not function, name
        assert file.startswith("test_"), name


def test_the_amendments_are_about_promises() -> None:
    """Each begins with the promises that it changes."""
    amended = TEXT.partition("## Amended")[2].partition("## Out of reach")[0]
    named = re.findall(r"^- \*\*(.+?)\*\*", amended, re.MULTILINE)
    assert len(named) >= 8
    assert all(re.fullmatch(r"I\d+(, I\d+)*", name) for name in named), named
