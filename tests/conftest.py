"""For all tests: what runs, what is missing, no environment left by the one before, and no limits that a busy machine reaches."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.selection", "tests.requirements")

settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("any machine")

# A program in the background of a shell ignores Ctrl-C, one under nohup hangups, and so does all that they start: tests that send them would
# wait, or see what they stop go on.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# Importing what all tests import makes millions of objects that stay, and the collector would look through them all again
# and again: an eighth of the processor time of tests that compile.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on the garbage collector looks at what tests make, and not at modules."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """A command that ran in a test's own process prepares its environment for children; the next test's has none of it."""
    before = dict(os.environ)
    yield
    for name in (os.environ.keys() - before.keys()) - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update({name: before[name] for name in before if os.environ.get(name) != before[name]})
