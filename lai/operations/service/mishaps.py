"""What can go wrong between a client and a service, as a table: R1 to R18.

Each row says in one sentence what happens, in one what a client must make of it, and to
which requests it can happen. Tests, notebooks and the report service name a mishap by its
number and the call it befalls.

Rules that live here and nowhere else:

1. A mishap befalls one call, counted from 1; ``CLOCK_OFF`` and ``NEW_VERSION`` begin with
   it and stay. On a request that it cannot befall it does nothing.
2. Several may befall one call: the work is done twice *and* the answer is lost.
3. No mishap breaks what the profile's documentation promises. A service that does not
   keep its word has no right client.

It knows no service: how a mishap comes about is the provider's part (``provider``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from lai.operations.records import OperationError


class Mishap(StrEnum):
    """The eighteen; the value is the number in ``MISHAPS``."""

    ANSWER_LOST = "R1"
    FORGOTTEN = "R2"
    DONE_TWICE = "R3"
    ANSWER_LATE = "R4"
    OUTRUN = "R5"
    KEY_AT_WORK = "R6"
    KEY_REUSED = "R7"
    KEY_EXPIRED = "R8"
    NOT_FOUND_YET = "R9"
    OTHER_OPERATION = "R10"
    TAKEN_BACK = "R11"
    STORED_ERROR = "R12"
    ASK_LATER = "R13"
    FAILS_LATER = "R14"
    UNREADABLE = "R15"
    UNREACHABLE = "R16"
    CLOCK_OFF = "R17"
    NEW_VERSION = "R18"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. ``variants``: the ways in which it can happen, the usual one first."""

    happens: str
    must: str
    methods: tuple[str, ...]
    variants: tuple[str, ...] = ("",)


_POST, _GET, _BOTH = ("POST",), ("GET",), ("POST", "GET")
MISHAPS: Mapping[Mishap, Entry] = MappingProxyType(
    {
        Mishap.ANSWER_LOST: Entry(
            "The service does the work, and its answer never arrives.",
            "Record the outcome as unknown and ask; never send again.",
            _BOTH,
        ),
        Mishap.FORGOTTEN: Entry(
            "The service takes the request, dies before it does the work, and forgets it.",
            "Take 'not found' as a no only where and when the contract says so; else a person.",
            _POST,
            ("silent", "accepted"),  # no answer at all, or a job number and then nothing
        ),
        Mishap.DONE_TWICE: Entry(
            "The service does the work twice under one key.",
            "Keep the receipt, raise an alarm, and cause no third.",
            _POST,
        ),
        Mishap.ANSWER_LATE: Entry(
            "The answer arrives after the client has stopped waiting.",
            "Record the outcome as unknown, and the late answer as evidence.",
            _BOTH,
        ),
        Mishap.OUTRUN: Entry(
            "The answer arrives after another worker has finished the operation.",
            "Change nothing; keep the answer as evidence, with an alarm if it contradicts.",
            _BOTH,
            ("different", "same"),  # another job and report are named, or the same
        ),
        Mishap.KEY_AT_WORK: Entry(
            "The work is done, but this request is told that its key is at work (409).",
            "Wait, then ask under the same key.",
            _POST,
        ),
        Mishap.KEY_REUSED: Entry(
            "Somebody else has used this key before, with another input.",
            "Stop and call a person; never take a new key.",
            _POST,
        ),
        Mishap.KEY_EXPIRED: Entry(
            "The service has forgotten the key, so the same request is new to it.",
            "Never get here: send nothing under a key whose time may be over.",
            _POST,
        ),
        Mishap.NOT_FOUND_YET: Entry(
            "The service does not find an operation that it has, and finds it later.",
            "Conclude nothing from 'not found' before the contract allows it.",
            _GET,
        ),
        Mishap.OTHER_OPERATION: Entry(
            "The service answers with the job of another operation.",
            "Compare key, input and job number; a difference goes to a person.",
            _GET,
        ),
        Mishap.TAKEN_BACK: Entry(
            "The service said completed, and now it says running.",
            "Believe neither; a contradiction goes to a person.",
            _GET,
        ),
        Mishap.STORED_ERROR: Entry(
            "The first attempt ends in a 500, which is stored and repeated for ever.",
            "Do not read it as a refusal; ask until the deadline, then a person.",
            _POST,
            ("done", "undone"),  # whether the work was done before the error
        ),
        Mishap.ASK_LATER: Entry(
            "The service is too busy for this request and names a time far ahead.",
            "Wait as it asks, but no longer than the deadline.",
            _BOTH,
            ("429", "503"),
        ),
        Mishap.FAILS_LATER: Entry(
            "The service accepts the job, and the job fails afterwards.",
            "Record a rejection only when the service itself says that the job failed.",
            _POST,
        ),
        Mishap.UNREADABLE: Entry(
            "The answer arrives in a form that says nothing.",
            "Record the outcome as unknown and ask.",
            _BOTH,
            ("truncated", "content_type", "error_body", "redirect"),
        ),
        Mishap.UNREACHABLE: Entry(
            "No connection comes about, so not a byte reaches the service.",
            "Plan it again only where the transport proves that nothing was sent.",
            _BOTH,
        ),
        Mishap.CLOCK_OFF: Entry(
            "From this call on the service's clock is off, as far as the margin allows.",
            "Keep the contract's margin from both ends of every promised time.",
            _BOTH,
            ("ahead", "behind"),
        ),
        Mishap.NEW_VERSION: Entry(
            "From this call on the service speaks another version of its interface.",
            "Do not read new answers with old rules; a difference goes to a person.",
            _BOTH,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Planned:
    """One mishap, the call it befalls (from 1; 0: the next one) and how."""

    mishap: Mishap
    call: int
    variant: str


def read_plan(raw: Iterable[Mapping[str, Any]]) -> list[Planned]:
    """``{"mishap": "R1", "call": 1, "variant": ""}`` each; raises :class:`OperationError`.

    Without ``call`` it is the next one, without ``variant`` the usual one.
    """
    return [_planned(one) for one in raw]


def _planned(one: Mapping[str, Any]) -> Planned:
    if not isinstance(one, Mapping) or set(one) - {"mishap", "call", "variant"}:
        raise OperationError(f"a mishap has mishap, call and variant; got {one!r}")
    try:
        mishap = Mishap(one.get("mishap", ""))
    except ValueError:
        raise OperationError(f"no mishap {one.get('mishap')!r}; there are R1 to R18") from None
    call, variants = one.get("call", 0), MISHAPS[mishap].variants
    if type(call) is not int or not 0 <= call < 1 << 31:
        raise OperationError(f"calls are counted from 1; got {call!r}")
    variant = one.get("variant") or variants[0]
    if variant not in variants:
        raise OperationError(f"{mishap} happens as {', '.join(variants)}; got {variant!r}")
    return Planned(mishap, call, variant)
