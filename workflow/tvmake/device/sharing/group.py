"""Several equal devices as one: whichever is free serves, alone; one that fails is replaced by another."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.config.device import ShellDeviceConfig
from tvmake.device.interface import Deployment, RunRequest, RunResult
from tvmake.device.sharing.health import clear_failures, file_name, health, record_failure
from tvmake.device.sharing.lease import lease_file, take
from tvmake.device.transport.shell import Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.errors import DeviceError, TvmakeError

SOON_S = 3.0
"""How long to wait for a device without a message: a candidate of another job is timed in less."""

Result = TypeVar("Result")


class Group:
    """A :class:`tvmake.device.interface.Device` of one or more equal devices behind a shell.

    Runs and pushes hold their device's lease, so that nothing measures beside them. A device that cannot be reached is
    skipped, and set aside after some failures in a row; results say so.
    """

    def __init__(self, name: str, config: ShellDeviceConfig, members: Sequence[ShellDevice]):
        self.name = name
        self.config = config
        self.members = list(members)
        self._held: ShellDevice | None = None

    def push(self, package: Path) -> Deployment:
        """See :class:`tvmake.device.interface.Device`: one device has it then, the others get it when they need it."""
        return self.on_free_member(lambda member: member.push(package))

    def push_everywhere(self, package: Path) -> dict[str, tuple[Deployment, int] | DeviceError]:
        """Push to every device; what became of each, by name, with the bytes sent."""
        pushed: dict[str, tuple[Deployment, int] | DeviceError] = {}
        for member in self.members:
            try:
                with first_free([member], member.where):
                    pushed[member.member] = member.push_counted(package)
            except DeviceError as error:
                pushed[member.member] = error
        return pushed

    def fingerprint(self, kind: str = "cpu") -> Fingerprint:
        """See :class:`tvmake.device.interface.Device`."""
        tried: list[ShellDevice] = []
        while True:  # which need not wait for a device to come free
            member = self._untried(tried)[0]
            try:
                fingerprint = member.fingerprint(kind)
            except Unreachable as error:
                self._note(member, error)
                tried.append(member)
                if not self._untried(tried):
                    raise
            else:
                clear_failures(device_id(member))
                return fingerprint

    def execute(self, deployment: Deployment, request: RunRequest, inputs: Path, outputs: Path | None) -> RunResult:
        """See :class:`tvmake.device.interface.Device`."""
        return self.run_on_free_member(lambda member: member.execute(deployment, request, inputs, outputs))

    def run_on_free_member(self, work: Callable[[ShellDevice], RunResult]) -> RunResult:
        """As :meth:`on_free_member`, for a run; its conditions name the devices that are set aside."""
        return self._with_set_aside(self.on_free_member(work))

    def on_free_member(self, work: Callable[[ShellDevice], Result]) -> Result:
        """Do something on a device that is free and can be reached.

        Raises:
            DeviceError: the last one's error, when none is left, or another than that it cannot be reached.
        """
        tried: list[ShellDevice] = []
        while True:
            with self._free_member(tried) as member:
                try:
                    result = work(member)
                except Unreachable as error:
                    self._note(member, error)
                    tried.append(member)
                    if not self._untried(tried):
                        raise
                    continue
                clear_failures(device_id(member))
            return result

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """See :class:`tvmake.device.interface.Device`."""
        with self._free_member([]) as member:
            self._held = member
            try:
                yield
            finally:
                self._held = None

    def _with_set_aside(self, result: RunResult) -> RunResult:
        aside = [f"{member.member}: {health(device_id(member)).why}" for member in self.members if is_set_aside(member)]
        if not aside:
            return result
        conditions = {**result.timing.conditions, "set_aside": "; ".join(aside)}
        return result.model_copy(update={"timing": result.timing.model_copy(update={"conditions": conditions})})

    def _untried(self, tried: Sequence[ShellDevice]) -> list[ShellDevice]:
        """Those that were not tried; those that were set aside only when there is no other."""
        left = [member for member in self.members if member not in tried]
        return [member for member in left if not is_set_aside(member)] or left

    @contextmanager
    def _free_member(self, tried: Sequence[ShellDevice]) -> Iterator[ShellDevice]:
        """A device that is free; the one that is held already, while it can be reached."""
        if self._held is not None and self._held not in tried:
            yield self._held
            return
        with first_free(self._untried(tried), f"device '{self.name}'") as member:
            yield member

    def _note(self, member: ShellDevice, error: DeviceError) -> None:
        note_failure(member, error, len(self.members) - 1)


def device_id(member: ShellDevice) -> str:
    """What a device's lease and health go by: two names in configs may mean the same device."""
    return f"{member.config.via}-{member.address}"


def is_set_aside(member: ShellDevice) -> bool:
    """Whether it failed too often lately."""
    return health(device_id(member)).is_set_aside


def note_failure(member: ShellDevice, error: TvmakeError, others: int) -> bool:
    """Remember that a device could not be reached, and print it where others go on.

    Returns:
        Whether it is set aside now.
    """
    now = record_failure(device_id(member), error.problem)
    if others:
        aside = "; set aside" if now.is_set_aside else "; another one is taken"
        print(f"warning: {member.where}: {error.problem}{aside}", file=sys.stderr)
    return now.is_set_aside


@contextmanager
def first_free(members: Sequence[ShellDevice], where: str) -> Iterator[ShellDevice]:
    """Wait until one of these is free, and keep others from it until the block ends.

    Raises:
        MachineError: a lock file cannot be written.
    """
    taken = take([lease_of(member) for member in members], wait=BusyNotice(where).report)
    assert taken is not None  # nothing ends the wait but a device
    number, lock = taken
    try:
        yield members[number]
    finally:
        lock.release()


def lease_of(member: ShellDevice) -> Path:
    """What is locked by whoever uses a device alone."""
    return lease_file(file_name(device_id(member)))


class BusyNotice:
    """Prints once that there is a wait for a device that others use, unless it comes free soon.

    Args:
        where: which device it is.
    """

    def __init__(self, where: str):
        self._where = where
        self._since = time.monotonic()
        self._is_reported = False

    def report(self) -> None:
        """It is still busy."""
        if not self._is_reported and time.monotonic() - self._since > SOON_S:
            print(f"{self._where}: busy; waiting", file=sys.stderr)
            self._is_reported = True
