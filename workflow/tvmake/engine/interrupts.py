"""Ctrl-C and other signals during a run. Snakemake handles them itself; tvmake records them."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

from tvmake.process.stopping import Handler, handle_signals


@contextlib.contextmanager
def on_stop_signal(note: Callable[[], None]) -> Iterator[None]:
    """Call ``note`` at each signal that stops a command, before its usual handling."""

    def noting(before: Handler) -> Handler:
        def handler(number: int, frame: FrameType | None) -> None:
            note()
            before(number, frame)

        return handler if callable(before) else None

    with handle_signals(noting):
        yield


@contextlib.contextmanager
def termination() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether SIGTERM came. Snakemake handles it itself and lets running jobs finish."""
    noted: set[int] = set()
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

        def has_come() -> bool:
            with contextlib.suppress(BlockingIOError):
                noted.update(reader.recv(4096))
            return signal.SIGTERM in noted

        try:
            yield has_come
        finally:
            signal.set_wakeup_fd(previous)
