"""Live source in a notebook: what is shown is what runs, read from the library at that moment.

A thing is a function, class or module, or its name as ``"lai.executor:Executor._act"``.
"""

import difflib
import inspect
import pkgutil
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """A piece of code: highlighted by the notebook's own theme, or as plain text."""

    text: str
    language: str = "python"

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```{self.language}\n{self.text}\n```"


def source(*things: object) -> Code:
    """The source of things, one after the other."""
    return Code("\n\n\n".join(_text(_find(thing)) for thing in things))


def changed(old: object, new: object) -> Code:
    """What has to be taken away from ``old`` and added to make ``new``, line by line."""
    before, after = _find(old), _find(new)
    pair = _text(before).splitlines(), _text(after).splitlines()
    lines = difflib.unified_diff(*pair, _name(before), _name(after), lineterm="", n=9)
    return Code("\n".join(line for line in lines if not line.startswith("@@")), "diff")


def _find(thing: object) -> object:
    return pkgutil.resolve_name(thing) if isinstance(thing, str) else thing


def _text(thing: object) -> str:
    return textwrap.dedent(inspect.getsource(thing)).rstrip()  # type: ignore[arg-type]


def _name(thing: object) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"
