"""Restore process-wide state that other code may change."""

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
"""The file descriptors of standard output and standard error."""


@contextmanager
def restore_process_state() -> Iterator[None]:
    """Restore, after the block, the working directory, standard output and error, the umask, the recursion limit, the handlers
    of stop signals, numpy's handling of overflow, and warnings that became errors; a pending alarm is cancelled.

    Environment variables and PyTorch's defaults stay changed, because libraries are configured by them.
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
        after.callback(_remove_error_filters, list(warnings.filters))
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


def _remove_error_filters(before: list[Any]) -> None:
    """Remove new filters that turn warnings into errors: libraries emit harmless warnings."""
    kept = [entry for entry in warnings.filters if entry[0] != "error" or entry in before]
    if len(kept) < len(warnings.filters):
        warnings.resetwarnings()
        warnings.filters.extend(kept)  # type: ignore[attr-defined]
