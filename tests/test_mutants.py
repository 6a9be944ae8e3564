"""The seeded faults are as they say: each has one place, changes it, and names tests that exist."""

import ast
from pathlib import Path

import pytest
from mutant import Mutant
from mutants import MUTANTS

HERE = Path(__file__).parent


def test_there_are_enough_and_each_has_a_name() -> None:
    """At least forty were asked for; no two break a thing under the same name."""
    assert len(MUTANTS) >= 200
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.breaks for mutant in MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_fits(mutant: Mutant) -> None:
    """It has exactly one place in today's source, and what comes of it is still Python."""
    assert mutant.mutated() != mutant.source()


def test_the_named_tests_exist() -> None:
    """What a fault names as its judges is there to be run."""
    found: dict[str, set[str]] = {}
    for path in HERE.glob("test_*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        kinds = (ast.FunctionDef, ast.ClassDef)
        names = {node.name for node in ast.walk(tree) if isinstance(node, kinds)}
        found[f"tests/{path.name}"] = {*names, "TestTurns", ""}
    for mutant in MUTANTS:
        for argument in mutant.arguments:
            file, _, name = argument.partition("::")
            assert name.partition("[")[0].partition("::")[0] in found[file], (mutant.name, argument)


def test_a_fault_without_its_place_is_refused() -> None:
    """One whose place is gone, or is there twice, is not taken for one that was tried."""
    mutant = MUTANTS[0]
    for old in ("没有这样一行", "\n"):
        gone = Mutant(mutant.name, mutant.breaks, mutant.file, old, "", mutant.tests)
        with pytest.raises(ValueError, match="places in"):
            gone.mutated()
