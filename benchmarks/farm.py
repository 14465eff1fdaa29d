"""A TVM RPC tracker with servers on this machine, started and stopped like a device farm's."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tvmake.device.rpc.tracker import Tracker

HOST = "127.0.0.1"
KEY = "simulated"
START_S = 60.0

AWAY_S = 2.0
"""How long what was killed stays away."""


class Farm:
    """A tracker and servers of one key; each in a session of its own, because servers leave workers behind."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.port = _free_port()
        self.servers: list[tuple[int, subprocess.Popen[bytes]]] = []
        """Each with its port."""
        self.tracker_process = self._start_tracker()

    @property
    def tracker(self) -> Tracker:
        """For asking it."""
        return Tracker(HOST, self.port, KEY)

    def have(self, count: int) -> None:
        """Add servers up to a number, and wait until the tracker knows all of them."""
        while len(self.servers) < count:
            port = _free_port()
            self.servers.append((port, self._start_server(port)))
        self._await(lambda: len(self.tracker.servers()) == count)

    def restart_server(self, number: int) -> None:
        """Kill a server with all it started, and start it again after a while."""
        port, process = self.servers[number]
        _end(process)
        time.sleep(AWAY_S)
        self.servers[number] = (port, self._start_server(port))

    def restart_tracker(self) -> None:
        """Kill the tracker, and start it again at its address; the servers come back to it by themselves."""
        _end(self.tracker_process)
        time.sleep(AWAY_S)
        self.tracker_process = self._start_tracker()

    def close(self) -> None:
        """End everything."""
        for _, process in self.servers:
            _end(process)
        _end(self.tracker_process)

    def _start_tracker(self) -> subprocess.Popen[bytes]:
        process = self._start("rpc_tracker", "--port", str(self.port), "--port-end", str(self.port + 1))
        self._await(self._is_open)
        return process

    def _start_server(self, port: int) -> subprocess.Popen[bytes]:
        address = ["--port", str(port), "--port-end", str(port + 1)]
        return self._start("rpc_server", *address, "--tracker", f"{HOST}:{self.port}", "--key", KEY)

    def _is_open(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"tvm.exec.{what}", "--host", HOST, *options]
        env = {**os.environ, "TVM_USE_RUNTIME_LIB": "1", "TVM_NUM_THREADS": "1"}
        with (self.directory / f"{what}-{time.monotonic_ns()}.log").open("wb") as log:
            return subprocess.Popen(
                command, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _await(self, is_true: Callable[[], bool]) -> None:
        until = time.monotonic() + START_S
        while not is_true():
            if time.monotonic() > until:
                sys.exit(f"the farm did not start; see {self.directory}")
            time.sleep(0.05)


@contextmanager
def farm(directory: Path, servers: int = 0) -> Iterator[Farm]:
    """A farm until the block ends."""
    directory.mkdir(parents=True, exist_ok=True)
    made = Farm(directory)
    try:
        made.have(servers)
        yield made
    finally:
        made.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return found.getsockname()[1]
