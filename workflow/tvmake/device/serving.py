"""Tuning on devices that have only a shell: servers there, a tracker here, and tunnels between them.

Everything belongs to this process and ends with it. The devices' leases are held meanwhile, so nothing else measures on
them. A server that ends is started again; a device that keeps failing is set aside, and the others go on.
"""

import atexit
import os
import selectors
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from filelock import FileLock

from tvmake.config.device import Conditioning, DeviceConfig
from tvmake.device.conditioning import prepare, restore
from tvmake.device.conditioning_files import ShellFiles
from tvmake.device.group import is_set_aside, note_failure, place, try_lease
from tvmake.device.health import FAILURES, recovered
from tvmake.device.programs import SERVE, bring
from tvmake.device.shell import CONNECT_S, Shell, Started, Unreachable, joined, last_line
from tvmake.device.shell_device import ShellDevice
from tvmake.device.shell_devices import shell_devices
from tvmake.device.tracker import Tracker
from tvmake.errors import DeviceError, MachineError
from tvmake.warm.client import PARENT

if TYPE_CHECKING:
    # Started as a process below, by name; this line lets the code fingerprint follow.
    from tvmake.device import tracker_process  # noqa: F401

HOST = "127.0.0.1"

READY_S = 180.0
"""For programs to arrive on a device behind a slow cable, and a server to register."""

TRACKER_S = 60.0
"""For the tracker to load TVM, on a machine that hardly moves."""

STEADY_S = 60.0
"""A server that ran this long had started well: its end counts as a first failure."""

PAUSE_S = 1.0
"""Before a server is started again; twice as long each time."""

POLL_S = 0.3

LOGGED = 60
"""Lines of a server that ended, for this process's log."""

PORTS = range(20_000, 32_000)
"""Below those that systems hand out by themselves. Each device has a place in it, so that a tunnel that adb kept from a
process that was killed is taken over by the next."""

BUSY_S = 1.0
"""How often to look for a device that has come free."""


class Serving:
    """Servers on the devices of a config, until it is closed.

    Args:
        tracker_port: of a tracker on this machine's loopback address to register with; a tracker of its own when None.
        key: what the servers call themselves.
        with_opencl: have the servers run OpenCL kernels.

    Raises:
        DeviceError: none of the devices can be used.
        InputError: the programs for it are missing.
        MachineError: the tracker does not start.
    """

    def __init__(
        self,
        name: str,
        config: DeviceConfig,
        tracker_port: int | None = None,
        key: str | None = None,
        with_opencl: bool = False,
    ):
        self.name = name
        self.where = f"device '{name}'"
        self._over = threading.Event()
        self._stack = ExitStack()
        self._keepers: list[_Keeper] = []
        try:
            members = self._leased(shell_devices(name, config))
            port = self._start_tracker() if tracker_port is None else tracker_port
            self.config = _over_rpc(name, config, port, key or f"tvmake-{name}")
            for member in members:
                keeper = _Keeper(member, port, str(self.config.key), len(members) - 1, self._over, with_opencl)
                self._keepers.append(keeper)
                keeper.start()
            self._await_server()
        except BaseException:
            self.close()
            raise

    def is_serving(self) -> bool:
        """Whether a device is left that has, or soon has again, a server."""
        return any(keeper.is_alive() for keeper in self._keepers)

    def close(self) -> None:
        """End servers, tunnels and the tracker, and give the devices back."""
        self._over.set()
        for keeper in self._keepers:
            keeper.join(3 * CONNECT_S)
        self._keepers = []
        self._stack.close()

    def _leased(self, members: list[ShellDevice]) -> list[ShellDevice]:
        """Those that are free, as soon as there are any; those set aside only when there is no other."""
        wanted = [member for member in members if not is_set_aside(member)] or members
        was_told = False
        while True:
            locks: list[tuple[ShellDevice, FileLock]] = []
            for member in wanted:
                if (lock := try_lease(member)) is not None:
                    locks.append((member, lock))
                    self._stack.callback(lock.release)
            if locks:
                return [member for member, _ in locks]
            if not was_told:
                print(f"{self.where}: busy; waiting", file=sys.stderr)
                was_told = True
            time.sleep(BUSY_S)

    def _start_tracker(self) -> int:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tvmake.device.tracker_process", HOST, "0"],
            env={**os.environ, "TVM_USE_RUNTIME_LIB": "1", PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline().decode() if selector.select(TRACKER_S) else ""
        if not line.startswith("tracker "):
            raise MachineError(self.where, "TVM's tracker does not start", "`tvmake device tracker` shows why")
        return int(line.rpartition(":")[2])

    def _await_server(self) -> None:
        tracker = Tracker.of(self.name, self.config)
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            with suppress(DeviceError):
                if tracker.servers():
                    return
            if not any(keeper.is_alive() for keeper in self._keepers):
                errors = [keeper.error for keeper in self._keepers if keeper.error is not None]
                raise next((one for one in errors if not isinstance(one, Unreachable)), errors[0])
            time.sleep(POLL_S)
        raise DeviceError(
            self.where,
            f"no server there has registered within {READY_S:g} s",
            f"`tvmake device doctor {self.name}` tries each step by itself",
        )


class _Keeper(threading.Thread):
    """Keeps a server running on one device."""

    def __init__(
        self,
        member: ShellDevice,
        tracker_port: int,
        key: str,
        others: int,
        over: threading.Event,
        with_opencl: bool,
    ):
        super().__init__(name=f"serving-{member.member}", daemon=True)
        self.error: Exception | None = None
        self._member = member
        self._tracker_port = tracker_port
        self._key = key
        self._others = others
        self._over = over
        self._with_opencl = with_opencl
        self._attempt = 0

    def run(self) -> None:
        failures, pause = 0, PAUSE_S
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._serve()
            except Unreachable as error:
                self.error = error
            except Exception as error:  # noqa: BLE001  # raised again where servers are awaited
                self.error = error
                return
            if self._over.is_set():
                return
            self._attempt += 1
            failures = 1 if time.monotonic() - began > STEADY_S else failures + 1
            assert isinstance(self.error, Unreachable)
            note_failure(self._member, self.error, self._others)
            if failures >= FAILURES:
                print(f"warning: {self._member.where}: set aside after {failures} failures", file=sys.stderr)
                return
            self._over.wait(pause)
            pause *= 2

    def _serve(self) -> None:
        member = self._member
        with member.shell() as shell, ExitStack() as stack:
            known = member.facts(shell)
            programs = bring(shell, member.config, known, member.name, member.is_android, self._with_opencl)
            self._condition(shell, stack)
            port = self._forward(shell)
            tracker = shell.reverse(self._tracker_port)
            work = f"{known.directory}/serving"
            shell.run(joined(["mkdir", "-p", work]))
            command = [*programs.command(SERVE, member.config), "--workdir", work, "--key", self._key]
            command += ["--host", shell.loopback, "--port", str(port), "--tracker", f"{shell.loopback}:{tracker}"]
            started = shell.start(f"exec {joined(command)}")
            stack.callback(started.stop)
            self._watch(started)

    def _watch(self, started: Started) -> None:
        began = time.monotonic()
        steady = False
        while not self._over.is_set():
            finished = started.wait(POLL_S)
            if finished is not None:
                for line in started.said().splitlines()[-LOGGED:]:
                    print(f"{self._member.member}: {line}", file=sys.stderr)
                said = last_line(finished.complaint) or last_line(finished.output) or "no message"
                self.error = Unreachable(
                    self._member.where,
                    f"its server ended with code {finished.code} ({said})",
                    f"`tvmake device doctor {self._member.name}` tries each step by itself",
                )
                return
            if not steady and time.monotonic() - began > STEADY_S:
                steady = True
                recovered(place(self._member))

    def _forward(self, shell: Shell) -> int:
        for attempt in range(self._attempt, self._attempt + 5):
            port = PORTS[(zlib.crc32(place(self._member).encode()) + 97 * attempt) % len(PORTS)]
            try:
                shell.forward(port)
            except Unreachable:
                raise
            except DeviceError as error:
                taken = error
                continue
            return port
        raise taken

    def _condition(self, shell: Shell, stack: ExitStack) -> None:
        """Governor and clocks for as long as the server runs; rests are for single measurements."""
        how = self._member.config.conditioning
        if how is None or not (how.governor or how.clocks):
            return
        files = ShellFiles(shell)
        done = prepare(files, Conditioning(governor=how.governor, clocks=how.clocks))
        stack.callback(restore, files, done)


_running: dict[str, Serving] = {}


def served(name: str, config: DeviceConfig, kind: str = "cpu") -> DeviceConfig:
    """This device's config as that of servers behind a tracker; they are started once, and end with this process.

    Args:
        kind: the runtime's name for the kind of device that kernels are for.

    Raises:
        DeviceError, InputError, MachineError: as :class:`Serving`.
    """
    if name not in _running:
        _running[name] = Serving(name, config, with_opencl=kind == "opencl")
    return _running[name].config


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


def _over_rpc(name: str, config: DeviceConfig, port: int, key: str) -> DeviceConfig:
    return DeviceConfig(
        via="rpc",
        tracker=f"{HOST}:{port}",
        key=key,
        threads=config.threads,
        timeout_s=config.timeout_s,
        session_timeout_s=config.session_timeout_s,
        wait_s=config.wait_s,
        soc=config.soc,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
