"""Tuning on devices with only a shell: servers on them, a tracker here, and tunnels between them.

Everything belongs to this process and ends with it. A device's lease is held during uploads and timings only
(:meth:`Serving.slot`), so that several processes with a server each share it; or permanently, if others use the servers
through their own tracker. A server that ends is restarted. A device that keeps failing is set aside, and the others
continue.
"""

import atexit
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tvmake.config.device import RpcDeviceConfig, ShellDeviceConfig
from tvmake.device.address import Address
from tvmake.device.rpc.session import FREED_S
from tvmake.device.rpc.tracker import Tracker
from tvmake.device.sharing.group import BusyNotice, is_set_aside, lease_of
from tvmake.device.sharing.lease import take
from tvmake.device.supervisor import ServerSupervisor
from tvmake.device.transport.shell import CONNECT_S, DOCTOR_HINT, Unreachable
from tvmake.device.transport.shell_device import ShellDevice
from tvmake.device.transport.shell_devices import shell_devices
from tvmake.errors import DeviceError, MachineError
from tvmake.process.parent_death import bound_environment
from tvmake.process.python import python_command
from tvmake.process.supervised import ChildProcess

HOST = "127.0.0.1"

READY_S = 180.0
"""How long programs may take to arrive over a slow cable, and a server to register."""

TRACKER_S = 60.0
"""How long the tracker may take to load TVM on a very busy machine."""

POLL_S = 0.3
"""The interval of checks whether a server has registered."""


class Serving:
    """Servers on the devices of a config, until it is closed.

    A :class:`tvmake.device.time_slots.TimeSlots` of these devices.

    Args:
        tracker_port: the port of a tracker on this machine's loopback address, whose users then have the devices to
            themselves. Default: a new tracker.
        on_set_aside: called with one line for each device that is set aside.

    Raises:
        DeviceError: no device can be used.
        InputError: the programs for a device are missing.
        MachineError: the tracker does not start.
    """

    freed_s = FREED_S

    def __init__(
        self,
        name: str,
        config: ShellDeviceConfig,
        tracker_port: int | None = None,
        key: str | None = None,
        with_opencl: bool = False,
        on_set_aside: Callable[[str], None] = lambda _: None,
    ):
        self.name = name
        self.where = f"device '{name}'"
        self._over = threading.Event()
        self._stack = ExitStack()
        self._supervisors: list[ServerSupervisor] = []
        try:
            all_members = shell_devices(name, config)
            members = [member for member in all_members if not is_set_aside(member)] or all_members
            is_shared = tracker_port is None
            if not is_shared:
                members = self._lease(members)
            port = self._start_tracker() if tracker_port is None else tracker_port
            self.config = _over_rpc(name, config, port, key or f"tvmake-{name}")
            for member in members:
                others = len(members) - 1
                supervisor = ServerSupervisor(
                    member, port, str(self.config.key), others, self._over, with_opencl, is_shared, on_set_aside
                )
                self._supervisors.append(supervisor)
                supervisor.start()
            self._await_server()
        except BaseException:
            self.close()
            raise

    def is_serving(self) -> bool:
        """Whether any device has a server, or will have one again soon."""
        return any(supervisor.is_alive() for supervisor in self._supervisors)

    def close(self) -> None:
        """End servers, tunnels and the tracker, and release the devices."""
        self._over.set()
        for supervisor in self._supervisors:
            supervisor.join(3 * CONNECT_S)
        self._supervisors = []
        self._stack.close()

    @contextmanager
    def slot(self, address: Address | None, rest: bool, is_over: Callable[[], bool]) -> Iterator[dict[str, str]]:
        for supervisor in self._supervisors:
            if address is not None and supervisor.port == address.port:
                with supervisor.slot(rest, is_over) as notes:
                    yield notes
                return
        raise Unreachable(self.where, f"its server {address} is gone", DOCTOR_HINT)

    def _lease(self, members: list[ShellDevice]) -> list[ShellDevice]:
        """The free devices, as soon as there are any."""
        first = take([lease_of(member) for member in members], wait=BusyNotice(self.where).report)
        assert first is not None  # only a free device ends the wait
        locks = {first[0]: first[1]}
        for number, member in enumerate(members):
            if number not in locks and (acquired := take([lease_of(member)], is_over=lambda: True)) is not None:
                locks[number] = acquired[1]
        for lock in locks.values():
            self._stack.callback(lock.release)
        return [member for number, member in enumerate(members) if number in locks]

    def _start_tracker(self) -> int:
        process = ChildProcess(
            python_command("-m", "tvmake.device.rpc.tracker_process", HOST, "0"),
            bound_environment({**os.environ, "TVM_USE_RUNTIME_LIB": "1"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        line = self._stack.enter_context(process).read_line(TRACKER_S)
        if not line.startswith("tracker "):
            raise MachineError(self.where, "TVM's tracker does not start", "`tvmake device tracker` shows why")
        return int(line.rpartition(":")[2])

    def _await_server(self) -> None:
        tracker = Tracker.of(self.name, self.config)
        until = time.monotonic() + READY_S
        busy = BusyNotice(self.where)
        while time.monotonic() < until:
            if all(supervisor.is_waiting for supervisor in self._supervisors if supervisor.is_alive()):
                until = time.monotonic() + READY_S
                busy.report()
            with suppress(DeviceError):
                if tracker.servers():
                    return
            if not any(supervisor.is_alive() for supervisor in self._supervisors):
                errors = [supervisor.error for supervisor in self._supervisors if supervisor.error is not None]
                raise next((error for error in errors if not isinstance(error, Unreachable)), errors[0])
            time.sleep(POLL_S)
        problem = f"no server there has registered within {READY_S:g} s"
        raise DeviceError(self.where, problem, f"`tvmake doctor {self.name}` tries each step by itself")


_running: dict[str, Serving] = {}


def serve_devices(
    name: str, config: ShellDeviceConfig, kind: str = "cpu", on_set_aside: Callable[[str], None] = lambda _: None
) -> Serving:
    """The servers on this device; they are started once, and end with this process.

    Args:
        kind: the runtime's name for the kind of device that runs the kernels.
        on_set_aside: called with one line for each device that is set aside.

    Raises:
        DeviceError, InputError, MachineError: as :class:`Serving`.
    """
    if name not in _running:
        _running[name] = Serving(name, config, with_opencl=kind == "opencl", on_set_aside=on_set_aside)
    return _running[name]


@atexit.register
def close_all() -> None:
    """End all servers of this process."""
    while _running:
        _running.popitem()[1].close()


@contextmanager
def ending_servers() -> Iterator[None]:
    """End all servers with this block; a step that was forked from a warm process runs no exit handlers."""
    try:
        yield
    finally:
        close_all()


def _over_rpc(name: str, config: ShellDeviceConfig, port: int, key: str) -> RpcDeviceConfig:
    return RpcDeviceConfig(
        via="rpc",
        tracker=f"{HOST}:{port}",
        key=key,
        threads=config.threads,
        timeout_s=config.timeout_s,
        session_timeout_s=config.session_timeout_s,
        wait_s=config.wait_s,
        soc=config.soc,
    )
