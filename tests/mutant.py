"""One seeded fault: a small change of the library that breaks a promise."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """In ``file``, below ``lai``, ``new`` stands where ``old`` does, and ``breaks`` is broken.

    ``old`` stands there exactly once. Each of ``tests``, separated by spaces, is what pytest is
    told, without ``test_`` and ``.py``: a file, or ``file::test``. One of them has to fail.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """What pytest is told."""
        parts = (test.partition("::") for test in self.tests.split())
        return tuple(f"tests/test_{file}.py{colons}{name}" for file, colons, name in parts)

    def source(self, root: Path = ROOT) -> str:
        """The file as it is."""
        return (root / "lai" / self.file).read_text("utf-8")

    def mutated(self, root: Path = ROOT) -> str:
        """The file with the fault in it. Raises ValueError unless there is one place for it."""
        source = self.source(root)
        if source.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: {source.count(self.old)} places in {self.file}")
        changed = source.replace(self.old, self.new)
        compile(changed, self.file, "exec")
        return changed
