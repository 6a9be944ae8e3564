"""What a tool is, and what it promises about its effect.

The promise decides what may be done about an attempt whose outcome is open; the status
alone never does. A tool that says nothing is ``OPAQUE``: nobody may repeat it unasked.

How a tool says what became of an attempt:

===================================  ===========  ==========================================
what ``run`` does                    recorded as  because
===================================  ===========  ==========================================
returns a dict                       succeeded    the tool confirmed it
raises :class:`ToolError`            failed       the tool confirmed that it failed
raises :class:`Unconfirmed`          unknown      the tool says itself that it cannot tell
any other exception, a timeout too   unknown      nobody confirmed anything: the humble answer
===================================  ===========  ==========================================

This module knows neither the session nor the order of events, and runs nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lai.calls import ArgumentsError
from lai.records import EXECUTION_KEYS, JSON, LaiError


class Effect(StrEnum):
    """A tool's promise (reliability article, section 8.1)."""

    READ_ONLY = "read_only"  # changes nothing: run it again whenever
    IDEMPOTENT = "idempotent"  # the same arguments lead to the same state
    KEYED = "keyed"  # the executor refuses a second action under the same key
    QUERYABLE = "queryable"  # the executor can be asked what became of an attempt
    OPAQUE = "opaque"  # nothing is promised


class ToolError(LaiError):
    """The tool confirms that it failed. ``result`` is what else it can say."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result: JSON = result


class Unconfirmed(LaiError):
    """The tool started and cannot say whether its effect happened. ``result`` is what it saw."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result: JSON = result


class Finding(StrEnum):
    """The three answers of a look-up."""

    FOUND = "found"
    ABSENT = "absent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the authority said about one attempt.

    ``result`` is the tool's result when found. ``evidence`` says who said it: a job
    number, a receipt. ABSENT counts only for a tool that is ``absent_is_final``.
    """

    finding: Finding
    evidence: str
    result: JSON | None = None
    succeeded: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """What ``Tool.run`` is told about the attempt it makes.

    ``key`` is ``<session>:<tool>:<tool_call_id>`` and stays the same over all attempts
    of one call: hand it to a service that deduplicates. ``bases`` are the versions of
    the target that the effect may replace (None stands for "no file"); empty where the
    tool keeps no version.
    """

    execution_id: str
    key: str
    bases: frozenset[str | None] = frozenset()


class Arguments(BaseModel):
    """The base of argument schemas: unknown keys are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool the model may call.

    ``run(arguments, run)`` acts and returns a JSON object. ``check(arguments)`` runs
    before anyone is asked: it returns what a person is shown, or raises ToolError for
    what will never be run (a path outside the workspace). ``since(arguments, messages)``
    adds what the model, in that conversation, has not seen of what it would replace.
    ``version(arguments)`` is the hash of that now, ``wanted(arguments)`` the hash it leaves.
    ``watch(execution_id)`` tells a person what can be seen now of an attempt in doubt; in
    ``may_still_run`` it names processes that are not over. ``noted`` is recorded with the
    start of each attempt: under which conditions it was made.

    A ``keyed`` tool states the scope of its key and for how many seconds the executor
    honours it; a ``queryable`` one brings ``lookup(arguments, key)`` and says whether
    the authority's "absent" is final.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[JSON, Run], JSON]
    effect: Effect = Effect.OPAQUE
    warning: str = ""
    check: Callable[[JSON], JSON] = dict
    since: Callable[[JSON, list[JSON]], JSON] | None = None
    version: Callable[[JSON], str | None] | None = None
    wanted: Callable[[JSON], str] | None = None
    watch: Callable[[str], JSON] | None = None
    noted: JSON | None = None
    lookup: Callable[[JSON, str], Answer] | None = None
    absent_is_final: bool = False
    key_scope: str = ""
    key_retention: float | None = None
    max_attempts: int = 3

    def __post_init__(self) -> None:
        if self.effect is Effect.QUERYABLE and self.lookup is None:
            raise ValueError(f"{self.name}: a queryable tool needs lookup")
        if self.effect is Effect.KEYED and not (self.key_scope and self.key_retention):
            raise ValueError(f"{self.name}: a keyed tool states key_scope and key_retention")
        if (self.version is None) is not (self.wanted is None):
            raise ValueError(f"{self.name}: version and wanted come together")
        if not set(EXECUTION_KEYS).isdisjoint(self.noted or ()):
            raise ValueError(f"{self.name}: noted would replace a field of the record")
        if self.max_attempts < 1:
            raise ValueError(f"{self.name}: max_attempts is at least 1")

    def validate(self, arguments: JSON) -> None:
        """Raise :class:`ArgumentsError`, in words for the model, unless the schema is met."""
        try:
            self.arguments.model_validate(arguments)
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            raise ArgumentsError("; ".join(lines)) from error

    def schema(self) -> JSON:
        """The tool in the form of the chat completions API."""
        parameters = self.arguments.model_json_schema()
        parameters.pop("title", None)
        parameters.pop("description", None)
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": parameters,
            },
        }


def find(tools: Iterable[Tool], name: str) -> Tool | None:
    """The tool of that name, or None."""
    return next((tool for tool in tools if tool.name == name), None)
