"""Neither time nor the way in which the tests were started decides one.

A busy machine may be slow at making examples and at trying them. A process that a shell
starts in the background finds Ctrl-C ignored, and so does everything that it starts.
"""

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient",
    deadline=None,
    derandomize="CI" in os.environ,  # the same examples every time, where that is asked for
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
