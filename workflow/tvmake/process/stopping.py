"""Ctrl-C and the signals that end a command: each ends it as Ctrl-C does, so that no partial file stays.

Every step imports this module, so it imports little.
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
"""Exit codes of a fork that was ended by one of them (:func:`tvmake.process.fork.run_forked`)."""

ONE_PRESS_S = 5.0
"""Signals within this time count as one: a terminal sends Ctrl-C to a process and to its parent, which forwards it, on a busy
machine some time later."""

Handler = Any
"""A signal handler: a function, one of the constants of ``signal``, or None."""

_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class _Stop:
    """The signals that this process received."""

    number: int | None = None
    """The first signal."""
    at = 0.0
    """The time of the last KeyboardInterrupt."""
    is_told = False


@contextmanager
def stoppable() -> Iterator[None]:
    """Make these signals raise KeyboardInterrupt in this block, unless they are handled or ignored already."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with handle_signals(lambda before: _stop if before in _DEFAULTS else None):
        yield


@contextmanager
def handle_signals(handler_after: Callable[[Handler], Handler]) -> Iterator[None]:
    """Change the handlers of these signals in this block.

    Args:
        handler_after: maps the current handler to the one in the block; None leaves it unchanged.
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


@contextmanager
def postpone_stops() -> Iterator[None]:
    """Let these signals take effect at the end of this block, so that a process that it starts is known and can be ended.

    A handler that raises within ``subprocess.Popen`` leaves a program behind that nobody knows.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    try:
        with handle_signals(lambda before: note if callable(before) else None):
            yield
    finally:
        if received:
            signal.raise_signal(received[0])


def unstoppable() -> None:
    """Restore the default actions of the signals, for a process that others end."""
    for number in SIGNALS:
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def is_stopped() -> bool:
    """Whether one of the signals was received."""
    return _Stop.number is not None


def stop(number: int) -> KeyboardInterrupt:
    """The exception for a signal that was handled elsewhere; it is recorded unless another came first."""
    _Stop.number = number if _Stop.number is None else _Stop.number
    return KeyboardInterrupt()


def report_stop(goes_on: bool) -> int:
    """Report once, in a line, that the command was stopped; returns the exit code that shells use.

    Args:
        goes_on: whether the same command would resume.
    """
    number = signal.SIGINT if _Stop.number is None else signal.Signals(_Stop.number)
    if not _Stop.is_told:
        how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
        more = "; finished results are kept; run the same command to resume" if goes_on else ""
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
