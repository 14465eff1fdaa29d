"""One measurement at a time on a device, across processes and workflows, each in its turn."""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tvmake.device.store import store_root
from tvmake.storage.files import writing

BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux's identity of a machine since it was started."""

POLL_S = 0.02
"""How often to check whether a device has come free."""


@contextmanager
def lease(device: str) -> Iterator[None]:
    """Wait for a device of this machine and keep others from measuring on it meanwhile.

    Raises:
        MachineError: the lock file cannot be written.
    """
    taken = take([lease_file(of_this_machine(device))])
    assert taken is not None  # nothing ends the wait but the device
    try:
        yield
    finally:
        taken[1].release()


def take(
    files: Sequence[Path], is_over: Callable[[], bool] = lambda: False, wait: Callable[[], None] = lambda: None
) -> tuple[int, FileLock] | None:
    """Wait for the first of these leases that comes free; a process that ends gives its leases back.

    Whoever waits longest is next up, and holds a second lock that says so. One that gives its lease back and wants it again
    at once finds somebody next up, and waits.

    Args:
        files: what is locked (:func:`lease_file`).
        is_over: ends the wait when true.
        wait: called each time that all of them are taken.

    Returns:
        Which one, and what gives it back; None when ``is_over`` became true.

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
        lock = FileLock(file, thread_local=False)  # whoever ends it may be another thread
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
    return lock


def try_port(port: int) -> FileLock | None:
    """This machine's end of a tunnel, or None when another process has it.

    Raises:
        MachineError: the lock file cannot be written.
    """
    return _try(lease_file(of_this_machine(f"port-{port}")))


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
