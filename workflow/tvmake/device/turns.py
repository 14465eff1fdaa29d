"""Timing many short things on a device, in turn with other processes: alone on it, and conditioned."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from tvmake.config.device import Conditioning
from tvmake.device.conditioning import Conditioned, Files, observe, prepare, restore, told
from tvmake.device.lease import lease_file, of_this_machine, take
from tvmake.device.tracker import Address
from tvmake.errors import DeviceError

GLANCE_S = 0.1
"""How often to look whether a rest is over."""


class Over(Exception):
    """The wait for a turn was given up, as asked."""


class Turns(Protocol):
    """How devices are shared."""

    freed_s: float
    """How long what hangs there may go on after the process that used it was ended, in seconds; to be spent in the turn."""

    def turn(
        self, address: Address | None, rest: bool, is_over: Callable[[], bool]
    ) -> AbstractContextManager[dict[str, str]]:
        """Wait for a device, and keep others from it until the block ends.

        Args:
            address: of its server; None for this machine.
            rest: have it cool down first.
            is_over: ends the wait when true.

        Returns:
            What was seen of the device before and after, once the block has ended; nothing where no conditioning is asked
            for.

        Raises:
            Over: ``is_over`` became true.
            DeviceError: it stays too hot, cannot be set as asked, or was lost (``Unreachable``).
            MachineError: a lock file cannot be written.
        """
        ...


class Sessions:
    """Devices behind a tracker of somebody else's: a session is the lease, and nothing can be read or set there."""

    freed_s = 0.0

    def __init__(self, how: Conditioning | None = None):
        self._pause_s = how.pause_s if how else 0.0

    @contextmanager
    def turn(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """See :class:`Turns`."""
        if not (rest and self._pause_s):
            yield {}
            return
        sleeping(is_over)(self._pause_s)
        yield {"paused_s": f"{self._pause_s:g}", "throttled": "not known"}


class Local:
    """This machine."""

    freed_s = 0.0

    def __init__(self, device: str, files: Files, how: Conditioning | None):
        self._file = lease_file(of_this_machine(device))
        self._conditioner = Conditioner(files, how)

    @contextmanager
    def turn(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """See :class:`Turns`."""
        with alone(self._file, is_over), self._conditioner.conditioned(rest, is_over) as notes:
            yield notes

    def close(self) -> None:
        """Put back what was set."""
        if self._conditioner.has_set:
            with alone(self._file):
                self._conditioner.restore()


def sleeping(is_over: Callable[[], bool]) -> Callable[[float], None]:
    """``time.sleep`` that raises :class:`Over` as soon as ``is_over`` is true."""

    def sleep(seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if is_over():
                raise Over
            time.sleep(min(left, GLANCE_S))

    return sleep


@contextmanager
def alone(
    file: Path, is_over: Callable[[], bool] = lambda: False, wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold a lease for a block; see :func:`tvmake.device.lease.take`.

    Raises:
        Over: ``is_over`` became true.
        MachineError: the lock file cannot be written.
    """
    taken = take([file], is_over, wait)
    if taken is None:
        raise Over
    try:
        yield
    finally:
        taken[1].release()


class Conditioner:
    """Keeps one device as its config wants it, for one process among several; for whoever holds its lease.

    What is set stays set from turn to turn, and is looked at in each: another process puts back at its end what it had set.
    """

    def __init__(self, files: Files, how: Conditioning | None):
        self._files = files
        self._how = how
        self._done: list[Conditioned] = []

    @contextmanager
    def conditioned(self, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        """Condition for a block; the dictionary is filled when it ends.

        Raises:
            Over: ``is_over`` became true.
            DeviceError: as :func:`tvmake.device.conditioning.prepare`.
        """
        notes: dict[str, str] = {}
        if self._how is None:
            yield notes
            return
        how = self._how if rest else self._how.model_copy(update={"pause_s": 0.0, "below_c": None})
        done = prepare(self._files, how, sleeping(is_over))
        if done.settings:
            self._done.append(done)
        yield notes
        notes.update(told(done, observe(self._files, how.sensors)))

    @property
    def has_set(self) -> bool:
        """Whether there is something to put back."""
        return bool(self._done)

    def restore(self) -> None:
        """Put back what was set; what cannot be, a device that is gone puts back itself."""
        while self._done:
            with suppress(DeviceError, TimeoutError):
                restore(self._files, self._done.pop())
