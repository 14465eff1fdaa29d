"""Time slots: for timing many short things on a device, in turn with other processes, alone on it and conditioned."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tvmake.config.device import Conditioning
from tvmake.device.address import Address
from tvmake.device.conditioning.controls import Files, Preparation, conditions, observe, prepare, restore
from tvmake.device.sharing.lease import lease_file, of_this_machine, take
from tvmake.errors import DeviceError

CHECK_S = 0.1
"""How often to check whether a rest is over."""


class SlotCancelled(Exception):
    """The wait for a time slot was cancelled."""


class TimeSlots(Protocol):
    """How devices are shared."""

    freed_s: float
    """How long what hangs there may go on after the process that used it was ended, in seconds; to be spent in the slot."""

    def slot(
        self, address: Address | None, rest: bool, is_over: Callable[[], bool]
    ) -> AbstractContextManager[dict[str, str]]:
        """Wait for a device, and keep others from it until the block ends.

        Args:
            address: of its server; None for this machine.
            rest: have it cool down first.
            is_over: ends the wait when true.

        Returns:
            What was seen of the device before and after, once the block has ended; nothing where no conditioning is
            wanted.

        Raises:
            SlotCancelled: ``is_over`` became true.
            DeviceError: it stays too hot, cannot be set as wanted, or was lost (``Unreachable``).
            MachineError: a lock file cannot be written.
        """
        ...


class SessionSlots:
    """Devices behind a tracker of somebody else's: a session is the lease, and nothing can be read or set there."""

    freed_s = 0.0

    def __init__(self, conditioning: Conditioning | None = None):
        self._pause_s = conditioning.pause_s if conditioning else 0.0

    @contextmanager
    def slot(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """See :class:`TimeSlots`."""
        if not (rest and self._pause_s):
            yield {}
            return
        cancellable_sleep(is_over)(self._pause_s)
        yield {"paused_s": f"{self._pause_s:g}", "throttled": "not known"}


class LocalSlots:
    """This machine."""

    freed_s = 0.0

    def __init__(self, device: str, files: Files, conditioning: Conditioning | None):
        self._file = lease_file(of_this_machine(device))
        self._conditioner = Conditioner(files, conditioning)

    @contextmanager
    def slot(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """See :class:`TimeSlots`."""
        with exclusive(self._file, is_over), self._conditioner.conditioned(rest, is_over) as notes:
            yield notes

    def close(self) -> None:
        """Put back what was set."""
        if self._conditioner.has_set:
            with exclusive(self._file):
                self._conditioner.restore()


def cancellable_sleep(is_over: Callable[[], bool]) -> Callable[[float], None]:
    """``time.sleep`` that raises :class:`SlotCancelled` as soon as ``is_over`` is true."""

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if is_over():
                raise SlotCancelled
            time.sleep(min(left, CHECK_S))

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
    taken = take([file], is_over, wait)
    if taken is None:
        raise SlotCancelled
    try:
        yield
    finally:
        taken[1].release()


class Conditioner:
    """Keeps one device as its config wants it, for one process among several; for whoever holds its lease.

    What is set stays set from slot to slot, and is checked in each: another process puts back at its end what it had set.
    """

    def __init__(self, files: Files, conditioning: Conditioning | None):
        self._files = files
        self._conditioning = conditioning
        self._preparations: list[Preparation] = []

    @contextmanager
    def conditioned(self, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
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
        """Whether there is something to put back."""
        return bool(self._preparations)

    def restore(self) -> None:
        """Put back what was set; what cannot be, a device that is gone puts back itself."""
        while self._preparations:
            with suppress(DeviceError, TimeoutError):
                restore(self._files, self._preparations.pop())
