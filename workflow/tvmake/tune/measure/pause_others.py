"""Pause the other tuning jobs of this machine while one of them times a candidate.

The timing job asks the fork servers of other jobs (:mod:`tvmake.tune.measure.workers.forkserver`) to stop their job and
workers. They resume on request, when the pause takes too long, or when the timing job has ended. Each fork server has a
socket in a directory beside the device's lease; its name identifies the job.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tvmake.device.sharing.lease import lease_file, qualify_with_machine
from tvmake.process.fork import signal_group
from tvmake.storage.files import writing

PAUSE, RESUME = b"S", b"G"
MESSAGE = struct.Struct("!cid")
"""Message format: the action, the timing process, and the time limit in seconds."""

LIMIT_S = 2.0
"""Time limit for one candidate. A slower one is slow in any case, or hangs."""

IS_SUPPORTED = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")
"""Jobs are paused on Linux only."""


def socket_directory(device: str) -> Path:
    """Return the directory with the sockets of the jobs that measure on a device of this machine."""
    return lease_file(qualify_with_machine(device)).with_suffix(".beside")


@contextmanager
def others_paused(directory: Path, running: int, limit_s: float = LIMIT_S) -> Iterator[None]:
    """Pause the other jobs until the block ends; only for the holder of the device's lease.

    Args:
        running: number of other jobs that may continue.
        limit_s: time after which they resume in any case.
    """
    jobs = _other_jobs(directory)[running:]
    _send(directory, jobs, MESSAGE.pack(PAUSE, os.getpid(), limit_s))
    try:
        yield
    finally:
        _send(directory, jobs, MESSAGE.pack(RESUME, os.getpid(), 0))


def _other_jobs(directory: Path) -> list[list[str]]:
    """Return the sockets of other jobs, by job."""
    jobs: dict[str, list[str]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(path.name for path in directory.iterdir()):
            jobs.setdefault(name.partition("-")[0], []).append(name)
    jobs.pop(str(os.getpid()), None)
    return list(jobs.values())


def _send(directory: Path, jobs: Collection[list[str]], message: bytes) -> None:
    if not jobs:
        return
    with _short_name(directory) as short, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in (name for job in jobs for name in job):
            try:
                sender.sendto(message, f"{short}/{name}")
            except (ConnectionRefusedError, FileNotFoundError):
                (directory / name).unlink(missing_ok=True)  # left by a killed job
            except BlockingIOError:
                continue  # its queue is full of messages


@contextmanager
def _short_name(directory: Path) -> Iterator[str]:
    """Yield a short path for a directory, because socket addresses have at most 107 bytes."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


class PauseListener:
    """Part of a fork server that pauses and resumes its job and workers at the request of other jobs.

    Args:
        job: the process that started the fork server.

    Raises:
        OSError: the socket cannot be created.
    """

    def __init__(self, directory: Path, job: int):
        self._path = directory / f"{job}-{os.getpid()}"
        self._job = None if _is_foreground(job) else os.pidfd_open(job)
        self._holder: int | None = None
        """A pidfd of the timing process while this job is paused."""
        self._holder_number = 0
        self._until = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with writing(directory):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            with _short_name(directory) as short:
                self._socket.bind(f"{short}/{self._path.name}")

    def files(self) -> list[int]:
        """Return the files to wait for before calling :meth:`handle`."""
        return [self._socket.fileno(), *([self._holder] if self._holder is not None else [])]

    def timeout_s(self) -> float | None:
        """Return the longest time to wait for them; None for no limit."""
        return max(self._until - time.monotonic(), 0) if self._holder is not None else None

    def handle(self, workers: Collection[int]) -> None:
        """Process the received messages, and resume if the pause is over."""
        with contextlib.suppress(BlockingIOError):
            while True:
                kind, number, limit_s = MESSAGE.unpack(self._socket.recv(MESSAGE.size))
                if kind == PAUSE:
                    self._pause(number, limit_s, workers)
                elif number == self._holder_number:
                    self.resume(workers)
        if self._holder is not None and (time.monotonic() > self._until or not _lives(self._holder)):
            self.resume(workers)

    def _pause(self, number: int, limit_s: float, workers: Collection[int]) -> None:
        try:
            holder = os.pidfd_open(number)
        except ProcessLookupError:
            return
        self._forget_holder()
        self._holder, self._holder_number, self._until = holder, number, time.monotonic() + limit_s
        self._signal(signal.SIGSTOP, workers)

    def resume(self, workers: Collection[int]) -> None:
        """Resume all paused processes; no effect if none is paused."""
        if self._holder is not None:
            self._forget_holder()
            self._signal(signal.SIGCONT, workers)

    def close(self) -> None:
        """Resume the job and close the socket."""
        self.resume(())
        self._socket.close()
        self._path.unlink(missing_ok=True)
        if self._job is not None:
            os.close(self._job)

    def close_in_fork(self) -> None:
        """Close files in a fork of the fork server, without changing the server's state."""
        self._socket.close()
        for opened in (self._job, self._holder):
            if opened is not None:
                os.close(opened)

    def _forget_holder(self) -> None:
        if self._holder is not None:
            os.close(self._holder)
        self._holder, self._holder_number = None, 0

    def _signal(self, number: int, workers: Collection[int]) -> None:
        for worker in workers:
            signal_group(worker, number)
        if self._job is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._job, number)


def _is_foreground(job: int) -> bool:
    """Whether a shell waits for the process and would report a pause as a suspended job."""
    fields = Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()
    group, terminal = int(fields[2]), int(fields[4])
    return group == job and terminal != 0


def _lives(process: int) -> bool:
    """Whether the process of a pidfd is alive."""
    return not select.select([process], [], [], 0)[0]
