"""Time decides no test: a busy machine may be slow at making examples, and at trying them."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient",
    deadline=None,
    derandomize="CI" in os.environ,  # the same examples every time, where that is asked for
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")
