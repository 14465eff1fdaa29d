"""Leases: one measurement at a time on a device, across processes and workflows, in order of arrival."""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tvmake.device.store import store_root
from tvmake.storage.files import writing

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux's identity of a machine since its last boot."""

POLL_S = 0.02
"""The interval of checks whether a device has become free."""


@contextmanager
def lease(device: str) -> Iterator[None]:
    """Wait for a device of this machine, and exclude other measurements until the block ends.

    Raises:
        MachineError: the lock file cannot be written.
    """
    acquired = take([lease_file(qualify_with_machine(device))])
    assert acquired is not None  # only a free device ends the wait
    try:
        yield
    finally:
        acquired[1].release()


def take(
    files: Sequence[Path], is_over: Callable[[], bool] = lambda: False, wait: Callable[[], None] = lambda: None
) -> tuple[int, FileLock] | None:
    """Wait for the first of these leases to become free; a process that ends releases its leases.

    The longest waiting process is next and holds a second lock to show it. A process that releases its lease and requests it
    again at once finds that another process is next, and waits.

    Args:
        files: the lock files (:func:`lease_file`).
        is_over: ends the wait when it returns true.
        wait: called each time that all leases are held.

    Returns:
        The index and the lock that releases it; None if ``is_over`` became true.

    Raises:
        MachineError: a lock file cannot be written.
    """
    next_up: dict[int, FileLock] = {}
    try:
        while True:
            for number, file in enumerate(files):
                if number not in next_up and (lock := _try(file.with_suffix(".next"))) is not None:
                    next_up[number] = lock
                if number in next_up and (lock := _try(file)) is not None:
                    return number, lock
            if is_over():
                return None
            wait()
            time.sleep(POLL_S)
    finally:
        for lock in next_up.values():
            lock.release()


def _try(file: Path) -> FileLock | None:
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file, thread_local=False)  # another thread may release it
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
    return lock


def try_port(port: int) -> FileLock | None:
    """Reserve this machine's end of a tunnel; None if another process has it.

    Raises:
        MachineError: the lock file cannot be written.
    """
    return _try(lease_file(qualify_with_machine(f"port-{port}")))


def qualify_with_machine(device: str) -> str:
    """A device's name among those of other machines, which may share the directory of leases."""
    try:
        # Containers have different names but the same processor.
        machine = BOOT.read_text()[:8]
    except OSError:
        machine = platform.node()
    return f"{device}@{machine}"


def lease_file(device: str) -> Path:
    """The lock file of a device."""
    return store_root().parent / "leases" / f"{device}.lock"
