"""Waiting only so long: a call with a limit, whose value is never lost.

A limit ends the waiting, not the call: that goes on in a thread of its own. Whoever waits gets
the value or TimeoutError; a value that comes after all goes to ``late``.

It does not cancel: a call that is cut off on this side is still made on the other.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], late: Callable[[T], object]) -> T:
    """What ``call`` returns, if in time; else TimeoutError now, and ``late(value)`` later.

    Exactly one of the two happens for every value. An error of a late call is dropped.
    """
    value: Future[T] = Future()
    lock, given_up = threading.Lock(), False

    def run() -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001 (whoever waits raises it)
            value.set_exception(error)
            return
        with lock:
            if not given_up:
                value.set_result(found)
                return
        late(found)

    threading.Thread(target=run, daemon=True).start()
    try:
        return value.result(seconds)
    except TimeoutError:
        with lock:
            given_up = True
        if value.done():  # it came between the two lines above
            return value.result()
        raise
