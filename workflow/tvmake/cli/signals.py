"""Ctrl-C and SIGTERM, noted while Snakemake runs, which handles both by itself."""

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import FrameType
from typing import Any


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


def signals_without_locks() -> None:
    """Keep Snakemake from waiting for locks that a signal left taken.

    ``JobScheduler.exit_gracefully`` takes the scheduler's lock, which is not reentrant: a SIGTERM that comes while jobs are
    chosen or finished blocks the run for good (Snakemake 9.27). What it sets needs no lock. And a Ctrl-C that comes while
    ``queue.Queue`` takes a record of the log leaves its lock taken, so that the next record waits for good; the ``put`` of a
    ``SimpleQueue`` cannot be interrupted.
    """
    import snakemake.logging
    from snakemake.scheduling.job_scheduler import JobScheduler

    JobScheduler.exit_gracefully = _exit_gracefully
    snakemake.logging.Queue = lambda _maxsize: SimpleQueue()


def _exit_gracefully(scheduler: Any, *_: object) -> None:
    scheduler._user_kill = "graceful"
    # A semaphore has a lock as well, which a thread of its own may wait for.
    threading.Thread(target=scheduler._open_jobs.release, daemon=True).start()
