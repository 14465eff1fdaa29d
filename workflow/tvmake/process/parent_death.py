"""End a process with its starter, so that a killed run leaves no worker."""

import os
import signal
import sys
from collections.abc import Mapping

PARENT_VARIABLE = "TVMAKE_PARENT"
"""The variable with the process number of the starter (:func:`end_with_starter`)."""

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal to get when the parent dies."""


def end_with_parent(parent: int) -> None:
    """On Linux, kill this process when its parent ends (strictly: the thread that started it).

    Args:
        parent: this process's parent; if it has ended already, this process ends too.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(128 + signal.SIGKILL)


def bound_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that must end with this process (:func:`end_with_starter`)."""
    return {**environment, PARENT_VARIABLE: str(os.getpid())}


def end_with_starter() -> None:
    """End with the process that set :func:`bound_environment`; no effect without it."""
    parent = os.environ.pop(PARENT_VARIABLE, None)  # children of this process do not inherit it
    if parent:
        end_with_parent(int(parent))
