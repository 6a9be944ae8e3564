"""What ``asyncio.wait_for`` ends, and what it leaves running: each case played to its end.

A time limit is about the waiting. Whether the work ends with it is up to the work: it may
take its time, refuse, or never hear of it. Every case here does one line of work in a
list, its effect, and notes in what order things came.

Nothing here depends on how fast the machine is: who has to be first is waited for.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable

Note = Callable[[str], None]
LIMIT = 0.05  # seconds; what is waited for never ends within it
Case = Callable[[Note], Awaitable[str]]


async def obedient(note: Note) -> str:
    """Stops where it is when it is cancelled: its effect never comes."""
    await asyncio.Event().wait()
    note("effect")
    return "done"


async def slow_to_stop(note: Note) -> str:
    """Cleans up first, for as long as it takes: the caller waits beyond its limit."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(LIMIT * 4)
        note("cleaned up, four limits later")
        raise
    return "never"


async def deaf(note: Note) -> str:
    """Swallows the cancellation and finishes: no TimeoutError at all, a late result instead."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled, but going on")
    note("effect")
    return "done"


async def in_a_thread(note: Note) -> str:
    """Blocks in a thread, as most clients do: nobody can cancel it, and its effect comes."""
    given_up, finished = threading.Event(), threading.Event()

    def work() -> None:
        given_up.wait()  # as a slow service would keep it waiting
        note("effect, in its thread")
        finished.set()

    try:
        await asyncio.to_thread(work)
    except asyncio.CancelledError:
        note("cancelled, while the thread works")
        given_up.set()
        finished.wait()
        raise
    return "never"


CASES: tuple[Case, ...] = (obedient, slow_to_stop, deaf, in_a_thread)


async def waited(case: Case) -> list[str]:
    """What happened, in order, when ``case`` was waited for with a limit."""
    happened: list[str] = []
    try:
        value = await asyncio.wait_for(case(happened.append), LIMIT)
        happened.append(f"returned {value!r}, after the limit")
    except TimeoutError:
        happened.append("TimeoutError")
    return happened
