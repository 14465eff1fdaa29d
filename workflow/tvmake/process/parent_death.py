"""End a process with the one that started it, so that a killed run leaves no worker behind."""

import os
import signal
import sys
from collections.abc import Mapping

PARENT_VARIABLE = "TVMAKE_PARENT"
"""Holds the number of the process that a new program ends with (:func:`end_with_starter`)."""

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal to get when the parent dies."""


def end_with_parent(parent: int) -> None:
    """On Linux, have this process killed when its parent ends: to be exact, the thread that started it.

    Args:
        parent: this process's parent; where it has ended already, so does this process.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(128 + signal.SIGKILL)


def bound_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for a program that is to end with this process (:func:`end_with_starter`)."""
    return {**environment, PARENT_VARIABLE: str(os.getpid())}


def end_with_starter() -> None:
    """End with the process that gave this one a :func:`bound_environment`; nothing happens without one."""
    parent = os.environ.pop(PARENT_VARIABLE, None)  # not this process's children's
    if parent:
        end_with_parent(int(parent))
