"""Values of a case in words: records as a table, tool calls as lines, all else as in Python.

The table is the one of ``python -m lai show``. A text shows its invisible characters, and what
is long says how long it is.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from lai.records import JSON, Record, malformed, message_record
from lai.report import Row, rows, table

if TYPE_CHECKING:
    from lai.session import Session

WIDTH = 100  # columns of a table
LONGEST = 400  # characters of a value


def shown(value: Any) -> str:
    """A value in words, on several lines where it holds records, messages or several values."""
    records = _records(value)
    if records:
        return "\n".join(table(_rows(records), WIDTH))
    if isinstance(value, list) and value and all(map(_is_call, value)):
        return "\n".join(map(_call, value))
    parts = value if isinstance(value, tuple) and len(value) > 1 else ()
    if any(map(_records, parts)):
        return "\n".join(map(shown, parts))
    if isinstance(value, str) and type(value) is not str:
        return repr(str(value))  # a word of an enumeration, without its long name
    return _cut(_written(value))


def named(error: BaseException) -> str:
    """An error in words: its kind, and what it says if it can say anything."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (an error of the learner's, which may fail at this too)
        text = ""
    return _cut(f"{type(error).__name__}: {text}".removesuffix(": "))


def _records(value: Any) -> list[Record]:
    """The records that a value is, or that its messages make; empty for any other value."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return []
    records = [message_record(item) if "role" in item else item for item in value]
    unknown = any(record.get("type") == "function" or malformed(record) for record in records)
    return [] if unknown else records


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("function"), dict) and "id" in value


def _call(call: JSON) -> str:
    return f"{call['id']}: {call['function'].get('name')} {call['function'].get('arguments')}"


def _rows(records: Iterable[Record]) -> list[Row]:
    kept = list(records)
    log = SimpleNamespace(records=kept, lines=range(1, len(kept) + 1), damage=())
    return rows(cast("Session", log))


def _written(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 (a value of the learner's that cannot be shown)
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
