"""For all tests: what runs, what is missing, no environment left by the one before, and no limits that a busy machine reaches."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tvmake.process.python import NO_TELEMETRY, SAFE_PATH

pytest_plugins = ("tests.selection", "tests.requirements")

settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("any machine")

# A program in the background of a shell ignores Ctrl-C, and so does all that it starts: tests that interrupt would wait.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _unprotected_children() -> Iterator[None]:
    """A command that ran in a test's own process prepares its environment for children; the next test's has none of it."""
    before = dict(os.environ)
    yield
    for name in (SAFE_PATH, *NO_TELEMETRY):
        os.environ.pop(name, None)
        os.environ.update({name: before[name]} if name in before else {})
