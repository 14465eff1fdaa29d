"""Ctrl-C and SIGTERM, noted while Snakemake runs, which handles both by itself."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def ctrl_c_noted(note: Callable[[], None]) -> Iterator[None]:
    """Call ``note`` at Ctrl-C, which then goes on as ever."""

    def handler(number: int, frame: FrameType | None) -> None:
        note()
        signal.default_int_handler(number, frame)

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def termination() -> Iterator[Callable[[], bool]]:
    """Tells whether SIGTERM came meanwhile: Snakemake handles it by itself, and lets running jobs finish."""
    noted: set[int] = set()
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

        def is_told() -> bool:
            with contextlib.suppress(BlockingIOError):
                noted.update(reader.recv(4096))
            return signal.SIGTERM in noted

        try:
            yield is_told
        finally:
            signal.set_wakeup_fd(previous)
