"""Tuning jobs of one machine stand still while one of them times a candidate.

Whoever times tells the templates of the other jobs (:mod:`tvmake.tune.measuring.template`), which stop their job and
their workers. They let them go on when they are told to, when it takes too long, or when the one who times has died.
Each template has a socket in a directory beside the device's lease; its name says whose it is.
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

from tvmake.artifact.files import writing
from tvmake.device.lease import lease_file, of_this_machine
from tvmake.tune.measuring.protocol import signal_group

STOP, GO = b"S", b"G"
ORDER = struct.Struct("!cid")
"""What to do, the process that times, and for how many seconds at most."""

LONGEST_S = 2.0
"""For one candidate. One that takes longer is slow whatever else runs, or hangs."""

CAN = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")
"""Elsewhere than on Linux nobody stands still."""


def gathering_place(device: str) -> Path:
    """The directory of sockets."""
    return lease_file(of_this_machine(device)).with_suffix(".beside")


@contextmanager
def others_still(place: Path, keep: int, longest_s: float = LONGEST_S) -> Iterator[None]:
    """Have the other jobs stand still until the block ends; for whoever holds the device's lease.

    Args:
        place: see :func:`gathering_place`.
        keep: jobs that may go on.
        longest_s: after which they go on in any case.
    """
    told = _others(place)[keep:]
    _tell(place, told, ORDER.pack(STOP, os.getpid(), longest_s))
    try:
        yield
    finally:
        _tell(place, told, ORDER.pack(GO, os.getpid(), 0))


def _others(place: Path) -> list[list[str]]:
    """Sockets by job, without this one's."""
    jobs: dict[str, list[str]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in sorted(one.name for one in place.iterdir()):
            jobs.setdefault(name.partition("-")[0], []).append(name)
    jobs.pop(str(os.getpid()), None)
    return list(jobs.values())


def _tell(place: Path, jobs: Collection[list[str]], message: bytes) -> None:
    if not jobs:
        return
    with _directory(place) as here, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in (name for job in jobs for name in job):
            try:
                sender.sendto(message, f"{here}/{name}")
            except (ConnectionRefusedError, FileNotFoundError):
                (place / name).unlink(missing_ok=True)  # left by one that was killed
            except BlockingIOError:
                continue  # its queue is full: it was told often enough


@contextmanager
def _directory(place: Path) -> Iterator[str]:
    """A short name for it: addresses of sockets have 107 bytes."""
    opened = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)


class Still:
    """In a template: stops its job and workers, and lets them go on.

    Args:
        place: see :func:`gathering_place`.
        job: the process that started the template.

    Raises:
        OSError: the socket cannot be made.
    """

    def __init__(self, place: Path, job: int):
        self._path = place / f"{job}-{os.getpid()}"
        self._job = None if _is_at_a_prompt(job) else os.pidfd_open(job)
        self._holder: int | None = None
        self._holder_number = 0
        self._until = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        with writing(place):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            with _directory(place) as here:
                self._socket.bind(f"{here}/{self._path.name}")

    def files(self) -> list[int]:
        """What to wait for before calling :meth:`look`."""
        return [self._socket.fileno(), *([self._holder] if self._holder is not None else [])]

    def patience_s(self) -> float | None:
        """How long to wait for them at most; None for no limit."""
        return max(self._until - time.monotonic(), 0) if self._holder is not None else None

    def look(self, workers: Collection[int]) -> None:
        """Do as one is told, and go on if the holder is no more."""
        with contextlib.suppress(BlockingIOError):
            while True:
                what, number, longest_s = ORDER.unpack(self._socket.recv(ORDER.size))
                if what == STOP:
                    self._stop(number, longest_s, workers)
                elif number == self._holder_number:
                    self.go_on(workers)
        if self._holder is not None and (time.monotonic() > self._until or not _lives(self._holder)):
            self.go_on(workers)

    def _stop(self, number: int, longest_s: float, workers: Collection[int]) -> None:
        try:
            holder = os.pidfd_open(number)
        except ProcessLookupError:
            return
        self._forget_holder()
        self._holder, self._holder_number, self._until = holder, number, time.monotonic() + longest_s
        self._signal(signal.SIGSTOP, workers)

    def go_on(self, workers: Collection[int]) -> None:
        """Let all go on; nothing happens if they do."""
        if self._holder is not None:
            self._forget_holder()
            self._signal(signal.SIGCONT, workers)

    def close(self) -> None:
        """Forget it all."""
        self.go_on(())
        self._socket.close()
        self._path.unlink(missing_ok=True)
        if self._job is not None:
            os.close(self._job)

    def leave(self) -> None:
        """In a fork of the template: this is not its business."""
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


def _is_at_a_prompt(job: int) -> bool:
    """Whether a shell waits for the process itself, and would take its standing still for a job that was suspended."""
    fields = Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()
    group, terminal = int(fields[2]), int(fields[4])
    return group == job and terminal != 0


def _lives(process: int) -> bool:
    return not select.select([process], [], [], 0)[0]
