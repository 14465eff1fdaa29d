"""Time limits of tests, so long that only a hang reaches them on any machine."""

import time
from collections.abc import Callable
from typing import TypeVar

HANG_S = 1800
"""The limit of all waits in tests, in seconds. No test may depend on how much of it is used."""

POLL_S = 0.02

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found]) -> Found:
    """Poll until ``condition`` holds and return what it returned.

    Raises:
        AssertionError: it does not hold within HANG_S.
    """
    end = time.monotonic() + HANG_S
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {HANG_S} s in vain"
        time.sleep(POLL_S)
    return found
