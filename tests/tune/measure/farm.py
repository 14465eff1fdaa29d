"""A real tracker and real servers on this machine."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.tune.measure.processes import eventually
from tvmake.device import address as addresses
from tvmake.device.address import Address
from tvmake.device.rpc import device, tracker
from tvmake.device.rpc.tracker import Tracker
from tvmake.errors import DeviceError
from tvmake.tune.measure import device_threads

HOST = "127.0.0.1"


def wait_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the limits of operations that end eventually, so that only a hang reaches them."""
    for module in (addresses, tracker, device, device_threads):
        monkeypatch.setattr(module, "CONNECT_S", HANG_S)


def free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return free.getsockname()[1]


class Farm:
    """A tracker with servers of one key, each in a new session, because they leave workers that continue to serve."""

    key = "phone"

    def __init__(self, directory: Path, servers: int):
        self.directory = directory
        # What they load of TVM is all they need, and a third of it. Devices have no torch, which TVM would load too.
        self.environment = {"TVM_USE_RUNTIME_LIB": "1", "PYTHONPATH": _without_torch(directory / "without-torch")}
        self.port = free_port()
        self._running: list[subprocess.Popen[bytes]] = []
        self._logs: dict[int, Path] = {}
        self.start_tracker()
        self.servers: dict[Address, subprocess.Popen[bytes]] = {}
        self.restore(servers)

    def start_tracker(self) -> None:
        """Start or restart the tracker; servers reconnect."""
        self.tracker_process = self._start("rpc_tracker", "--port", str(self.port), "--port-end", str(self.port + 1))
        eventually(self._answers)

    def lose_tracker(self) -> None:
        """Kill the tracker, as when its machine fails."""
        _end(self.tracker_process)

    @property
    def tracker(self) -> Tracker:
        return Tracker(HOST, self.port, self.key)

    def restore(self, servers: int) -> None:
        """Set the number of servers and replace dead ones."""
        alive = self.tracker.servers()
        for address in [address for address in self.servers if address not in alive]:
            self.lose(address)
        while len(self.servers) < servers:
            self.add()
        eventually(lambda: {*self.tracker.servers()} == {*self.servers})

    def add(self, port: int | None = None, announced: str = HOST) -> Address:
        """Start a server; it takes a second to be there.

        Args:
            announced: where the tracker sends clients, under the same port.
        """
        port = port or free_port()
        options = ["--port", str(port), "--port-end", str(port + 1)]
        options += ["--tracker", f"{HOST}:{self.port}", "--key", self.key]
        options += ["--custom-addr", announced] if announced != HOST else []
        address = Address(announced, port)
        self.servers[address] = self._start("rpc_server", *options)
        return address

    def lose(self, address: Address) -> None:
        """Kill a server, as in a power failure, except that connections are closed."""
        _end(self.servers.pop(address))

    def log(self, address: Address) -> str:
        """The output of a server."""
        return self._logs[self.servers[address].pid].read_text()

    def freeze(self, address: Address) -> None:
        """Stop a server: it accepts connections and does not answer."""
        os.killpg(self.servers[address].pid, signal.SIGSTOP)

    def close(self) -> None:
        for process in self._running:
            _end(process)

    def _answers(self) -> bool:
        """Whether the tracker answers; an open port is not enough, because early connections may be refused."""
        try:
            self.tracker.servers()
        except DeviceError:
            return False
        return True

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tvm.exec.{what}", "--host", HOST, *options]
        environment = {**os.environ, "TVM_NUM_THREADS": "1", **self.environment}
        path = self.directory / f"{what}-{time.monotonic_ns()}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._running.append(process)
        self._logs[process.pid] = path
        return process


def _without_torch(place: Path) -> str:
    """A PYTHONPATH on which torch cannot be imported."""
    place.mkdir(exist_ok=True)
    (place / "torch.py").write_text("raise ImportError('there is no torch here')\n")
    return os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
