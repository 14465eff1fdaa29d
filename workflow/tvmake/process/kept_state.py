"""What belongs to the whole process and code of others may change: it is as before once that code has run."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

STANDARD = (1, 2)
"""The numbers of standard output and standard error."""


@contextmanager
def kept_state() -> Iterator[None]:
    """Bring back, after the block, the working directory, standard output and error, the umask, the recursion limit, and what
    the signals do that stop a run.

    Variables of the environment stay: libraries are set up by them.
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
