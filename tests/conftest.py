"""For all tests: selection, missing requirements, isolated environments, and limits that a busy machine does not reach."""

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

# The modules that all tests import hold millions of objects, and the garbage collector would traverse them again and
# again: an eighth of the processor time of tests that compile.
gc.disable()


def pytest_collection_finish() -> None:
    """Exclude loaded modules from garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache and a store of tuning records for the module's tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVMAKE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


_CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """Undo what a command in a test's own process prepared for its children: variables, and the cores that TVM bound it to."""
    before = dict(os.environ)
    yield
    if _CORES is not None:
        os.sched_setaffinity(0, _CORES)
    for name in (os.environ.keys() - before.keys()) - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update({name: before[name] for name in before if os.environ.get(name) != before[name]})
