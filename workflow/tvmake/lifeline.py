"""A process that ends with the one that started it."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""prctl(2): the signal to get when the parent dies."""


def die_with(parent: int) -> None:
    """On Linux, have this process killed when its parent ``parent`` dies, so that a rerun meets no leftover worker."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call above
            os._exit(128 + signal.SIGKILL)
