"""One measurement at a time on a device, across processes and workflows."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from tvmake.artifact.files import writing
from tvmake.device.store import store_root

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux's identity of a machine since it was started."""


@contextmanager
def lease(device: str) -> Iterator[None]:
    """Wait for a device of this machine and keep others from measuring on it meanwhile.

    Raises:
        MachineError: the lock file cannot be written.
    """
    lock = lease_file(of_this_machine(device))
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock)
        held.acquire()
    try:
        yield
    finally:
        held.release()


def of_this_machine(device: str) -> str:
    """Its name among those of other machines, which may share the directory of leases."""
    try:
        # Containers have names of their own, and the same processor.
        machine = BOOT.read_text()[:8]
    except OSError:
        machine = platform.node()
    return f"{device}@{machine}"


def lease_file(device: str) -> Path:
    """What is locked for it."""
    return store_root().parent / "leases" / f"{device}.lock"
