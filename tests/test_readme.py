"""README and ARCHITECTURE say what is there."""

import re
from pathlib import Path

import pytest

import lai
import lai.executor
import lai.journal
import lai.operations

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TREE = README.split("## The map")[1].split("```")[1]


@pytest.mark.parametrize(("folder", "indent"), [("lai", 2), ("lai/operations", 4)])
def test_the_map_names_every_module_of_the_library(folder: str, indent: int) -> None:
    """Each file of the folder has its line in the map, and each line its file."""
    listed = set(re.findall(rf"^ {{{indent}}}(\w+\.py) ", TREE, re.MULTILINE))
    there = {path.name for path in (ROOT / folder).glob("*.py")} - {"__init__.py"}
    assert listed == there


def test_the_map_names_every_notebook() -> None:
    """Each notebook has its line in the map."""
    listed = set(re.findall(r"^  (\w+\.ipynb) ", TREE, re.MULTILINE))
    assert listed == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}


def test_the_map_names_only_what_exists() -> None:
    """Every other path of the map is there as well."""
    for name in re.findall(r"^(\S+)", TREE, re.MULTILINE):
        assert (ROOT / name).exists(), name


MODULES = (lai, lai.journal, lai.executor, lai.operations)
NAMES = re.findall(r"`(\w+)[`(.]", README.split("| in the article |")[1].split("\n\n")[0])


@pytest.mark.parametrize("name", [n for n in NAMES if n[0].isupper() and n.upper() != n])
def test_the_table_of_articles_points_at_real_names(name: str) -> None:
    """A class that the table names can be imported."""
    assert any(hasattr(module, name) for module in MODULES)


def test_relative_links_resolve() -> None:
    """No document links to a file that is not there."""
    for document in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            assert "://" in link or (ROOT / link).exists(), f"{document.name}: {link}"
