"""What belongs to the whole process and code of others may change: it is as before once that code has run."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

STANDARD = (1, 2)
"""The numbers of standard output and standard error."""


@contextmanager
def kept_state() -> Iterator[None]:
    """Bring back, after the block, the working directory, standard output and error, the umask, the recursion limit, what
    the signals do that stop a run, what numpy does where numbers overflow, and warnings that were made errors; an alarm that
    is set is called off.

    Variables of the environment stay, and PyTorch's defaults: libraries are set up by them.
    """
    with ExitStack() as after:
        with suppress(OSError):  # a deleted one
            after.callback(os.chdir, Path.cwd())
        mask = os.umask(0o777)
        os.umask(mask)
        after.callback(os.umask, mask)
        after.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(stop)
            if handler is not None and threading.current_thread() is threading.main_thread():
                after.callback(signal.signal, stop, handler)
        if threading.current_thread() is threading.main_thread() and not any(signal.getitimer(signal.ITIMER_REAL)):
            after.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        if "numpy" in sys.modules:
            import numpy as np

            after.callback(lambda before: np.seterr(**before), np.geterr())
        after.callback(_forget_errors, list(warnings.filters))
        streams = sys.stdout, sys.stderr
        for number in STANDARD:
            with suppress(OSError):  # closed
                copy = os.dup(number)
                after.callback(os.close, copy)
                after.callback(os.dup2, copy, number)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams


def _forget_errors(before: list[Any]) -> None:
    """Take out the filters, of those that came since, that make errors of warnings: libraries give some that mean nothing."""
    kept = [one for one in warnings.filters if one[0] != "error" or one in before]
    if len(kept) < len(warnings.filters):
        warnings.resetwarnings()
        warnings.filters.extend(kept)  # type: ignore[attr-defined]
