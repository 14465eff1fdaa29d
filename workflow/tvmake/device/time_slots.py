"""Time slots: for many short measurements on a device, alternating with other processes, alone on it and conditioned."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tvmake.config.device import Conditioning
from tvmake.device.address import Address
from tvmake.device.conditioning.controls import Files, Preparation, conditions, observe, prepare, restore
from tvmake.device.sharing.lease import lease_file, qualify_with_machine, take
from tvmake.errors import DeviceError

CHECK_S = 0.1
"""The interval of checks whether a rest is over."""


class SlotCancelled(Exception):
    """The wait for a time slot was cancelled."""


class TimeSlots(Protocol):
    """How processes share devices."""

    freed_s: float
    """How long a hanging call may continue after its process was ended, in seconds; the slot includes this time."""

    def slot(
        self, address: Address | None, rest: bool, is_over: Callable[[], bool]
    ) -> AbstractContextManager[dict[str, str]]:
        """Wait for a device, and exclude others until the block ends.

        Args:
            address: its server's address; None for this machine.
            rest: let it cool down first.
            is_over: ends the wait when it returns true.

        Returns:
            The device's state before and after, filled when the block ends; empty without conditioning.

        Raises:
            SlotCancelled: ``is_over`` became true.
            DeviceError: it stays too hot, refuses a setting, or was lost (``Unreachable``).
            MachineError: a lock file cannot be written.
        """
        ...


class SessionSlots:
    """Devices behind a tracker of others: a session is the lease, and nothing can be read or set."""

    freed_s = 0.0

    def __init__(self, conditioning: Conditioning | None = None):
        self._pause_s = conditioning.pause_s if conditioning else 0.0

    @contextmanager
    def slot(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        if not (rest and self._pause_s):
            yield {}
            return
        cancellable_sleep(is_over)(self._pause_s)
        yield {"paused_s": f"{self._pause_s:g}", "throttled": "not known"}


class LocalSlots:
    """This machine."""

    freed_s = 0.0

    def __init__(self, device: str, files: Files, conditioning: Conditioning | None):
        self._file = lease_file(qualify_with_machine(device))
        self._conditioner = Conditioner(files, conditioning)

    @contextmanager
    def slot(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        with exclusive(self._file, is_over), self._conditioner.condition(rest, is_over) as notes:
            yield notes

    def close(self) -> None:
        """Restore the settings."""
        if self._conditioner.has_set:
            with exclusive(self._file):
                self._conditioner.restore()


def cancellable_sleep(is_over: Callable[[], bool]) -> Callable[[float], None]:
    """``time.sleep`` that raises :class:`SlotCancelled` as soon as ``is_over`` is true."""

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            if is_over():
                raise SlotCancelled
            time.sleep(min(remaining, CHECK_S))

    return sleep


@contextmanager
def exclusive(
    file: Path, is_over: Callable[[], bool] = lambda: False, wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lease for a block; see :func:`tvmake.device.sharing.lease.take`.

    Raises:
        SlotCancelled: ``is_over`` became true.
        MachineError: the lock file cannot be written.
    """
    acquired = take([file], is_over, wait)
    if acquired is None:
        raise SlotCancelled
    try:
        yield
    finally:
        acquired[1].release()


class Conditioner:
    """Keeps a device in the state that its config asks for, for one of several processes; used while its lease is held.

    Settings stay from slot to slot and are checked in each: another process restores its own settings when it ends.
    """

    def __init__(self, files: Files, conditioning: Conditioning | None):
        self._files = files
        self._conditioning = conditioning
        self._preparations: list[Preparation] = []

    @contextmanager
    def condition(self, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """Condition for a block; the dictionary is filled when it ends.

        Raises:
            SlotCancelled: ``is_over`` became true.
            DeviceError: as :func:`tvmake.device.conditioning.controls.prepare`.
        """
        notes: dict[str, str] = {}
        if self._conditioning is None:
            yield notes
            return
        conditioning = (
            self._conditioning if rest else self._conditioning.model_copy(update={"pause_s": 0.0, "below_c": None})
        )
        preparation = prepare(self._files, conditioning, cancellable_sleep(is_over))
        if preparation.settings:
            self._preparations.append(preparation)
        yield notes
        notes.update(conditions(preparation, observe(self._files, conditioning.sensors)))

    @property
    def has_set(self) -> bool:
        """Whether there are settings to restore."""
        return bool(self._preparations)

    def restore(self) -> None:
        """Restore the settings; a device that cannot be reached restores them itself."""
        while self._preparations:
            with suppress(DeviceError, TimeoutError):
                restore(self._files, self._preparations.pop())
