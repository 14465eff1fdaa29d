"""How long tests wait for what must come: so long that only something that hangs reaches it, on any machine."""

import time
from collections.abc import Callable
from typing import TypeVar

HANG_S = 1800
"""The limit of everything that tests wait for, in seconds. No test may pass or fail by how much of it is used."""

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
