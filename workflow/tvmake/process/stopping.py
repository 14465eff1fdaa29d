"""Ctrl-C, and the signals that ask a command to end: each ends it as Ctrl-C does, so that nothing half-written stays behind.

This module imports little: every step starts with it.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

STOPPED = (128 + signal.SIGINT, *(-number for number in SIGNALS))
"""How a fork ends that one of them reached (:func:`tvmake.process.fork.run_forked`)."""

ONE_PRESS_S = 5.0
"""Signals that follow one another faster are one: a terminal sends Ctrl-C to a process and to its parent, which hands it on, on a busy
machine some time later."""

Handler = Any
"""Of a signal: a function, one of the constants of ``signal``, or None."""

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class _Stop:
    """What has come to this process."""

    number: int | None = None
    """The first signal."""
    at = 0.0
    """When the last one was raised."""
    is_told = False


@contextmanager
def stoppable() -> Iterator[None]:
    """Have these signals raise KeyboardInterrupt in this block, where nothing else handles or ignores them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handled(lambda before: _stop if before in _DEFAULTS else None):
        yield


@contextmanager
def handled(handler_after: Callable[[Handler], Handler]) -> Iterator[None]:
    """Handle these signals otherwise in this block.

    Args:
        handler_after: from the handler before to the one in the block; None to leave it as it is.
    """
    previous = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {
        number: handler for number, before in previous.items() if (handler := handler_after(before)) is not None
    }
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            signal.signal(number, previous[number])


def unstoppable() -> None:
    """For a process that others end: the signals do again what they do by default."""
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def is_stopped() -> bool:
    """Whether one of the signals has come."""
    return _Stop.number is not None


def stop(number: int) -> KeyboardInterrupt:
    """What to raise where a signal was handled elsewhere; it counts unless one has come already."""
    _Stop.number = number if _Stop.number is None else _Stop.number
    return KeyboardInterrupt()


def stopped(goes_on: bool) -> int:
    """Say once, in a line, that the command was stopped; returns its exit code, as shells have it.

    Args:
        goes_on: whether the same command goes on where this one was.
    """
    number = signal.SIGINT if _Stop.number is None else signal.Signals(_Stop.number)
    if not _Stop.is_told:
        how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        more = "; what is finished is kept, run the same command to go on" if goes_on else ""
        print(f"{how}{more}", file=sys.stderr)
        _Stop.is_told = True
    return 128 + number


def _stop(number: int, _frame: FrameType | None) -> None:
    is_another, _Stop.at = time.monotonic() - _Stop.at > ONE_PRESS_S, time.monotonic()
    if _Stop.number is None:
        _Stop.number = number
    elif not is_another:
        return
    raise KeyboardInterrupt
