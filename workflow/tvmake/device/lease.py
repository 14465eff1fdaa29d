"""One measurement at a time on a device, across processes and workflows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from tvmake.artifact.files import writing
from tvmake.device.store import store_root


@contextmanager
def lease(device: str) -> Iterator[None]:
    """Wait for the device and keep others from measuring on it meanwhile.

    Raises:
        MachineError: the lock file cannot be written.
    """
    lock = lease_file(device)
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock)
        held.acquire()
    try:
        yield
    finally:
        held.release()


def lease_file(device: str) -> Path:
    """What is locked for it."""
    return store_root().parent / "leases" / f"{device}.lock"
