"""A tracker with native servers on this machine, and code for them that misbehaves."""

import os
import selectors
import signal
import subprocess
from pathlib import Path

from tests.patience import HANG_S
from tests.tune.measure.farm import HOST, Farm
from tests.tune.measure.processes import children, eventually, state
from tvmake.device.address import Address
from tvmake.device.rpc.tracker import Offer

MISBEHAVING = """
#include <stdlib.h>
#include <unistd.h>
#define KERNEL(name) extern "C" int __tvm_ffi_##name(void*, const void*, int, void*)
KERNEL(hang) { for (;;) pause(); }
KERNEL(spin) { for (volatile int x = 0;; x = x + 1) {} }
KERNEL(slow) { usleep(500000); return 0; }
KERNEL(crash) { raise_at: *(volatile int*)8 = 1; goto raise_at; }
KERNEL(leave) { _exit(7); }
KERNEL(breed) { if (fork() == 0) for (;;) pause(); return 0; }
"""


def misbehaving_library(directory: Path) -> Path:
    """A library whose functions hang, spin, take long, crash, leave and start a process."""
    source, library = directory / "misbehaving.cc", directory / "misbehaving.so"
    source.write_text(MISBEHAVING)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


class Server:
    """One native server, ended when the block ends.

    Args:
        command: how the program is started; an emulator may come before it.
    """

    def __init__(self, command: list[str], directory: Path, *options: str):
        directory.mkdir(parents=True, exist_ok=True)
        self.work = directory / "work"
        self.work.mkdir(exist_ok=True)
        self._log = directory / "server.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", "--workdir", str(self.work), *options],
                env={"PATH": os.environ["PATH"], "TVM_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            assert ready.select(HANG_S), self.log()
        line = self.process.stdout.readline()
        assert line.startswith("listening at "), self.log()
        self.port = int(line.rpartition(":")[2])

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)

    def log(self) -> str:
        return self._log.read_text()

    def sessions(self) -> list[int]:
        """Processes that it started and that are alive."""
        return children(self.process.pid)

    def is_clean(self) -> bool:
        """Whether no session is left, nor any of its files."""
        return not self.sessions() and not list(self.work.iterdir())

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NativeFarm:
    """A tracker, and one native server that registers with it."""

    key = Farm.key

    def __init__(self, command: list[str], directory: Path, *options: str, announced: str = HOST):
        """``announced``: where the tracker sends clients, under the same port."""
        directory.mkdir(parents=True, exist_ok=True)
        self.farm = Farm(directory, servers=0)
        self.port = self.farm.port
        try:
            tracker = ["--tracker", f"{HOST}:{self.farm.port}", "--key", self.key, "--custom-addr", announced]
            self.server = Server(command, directory, *tracker, *options)
            eventually(lambda: self.farm.tracker.servers() == [Address(announced, self.server.port)])
        except BaseException:
            self.farm.close()
            raise

    def offer(self) -> Offer:
        """Be sent to the server, when it is free. The offer holds for seconds: nothing slow may come after it."""
        from tvm import rpc  # noqa: F401

        offer = self.farm.tracker.request(HANG_S)
        assert offer is not None, self.server.log()
        return offer

    def connect(self, timeout_s: float = HANG_S):
        """A session, as TVM's client opens it."""
        offer = self.offer()
        return connect(offer.address.port, offer.match_key, timeout_s)

    def close(self) -> None:
        self.server.close()
        self.farm.close()


def connect(port: int, key: str, timeout_s: float = HANG_S):
    """A session with a server, as TVM's client opens it."""
    import tvm  # noqa: F401

    from tvm import rpc  # isort: skip

    return rpc.connect(HOST, port, key, timeout_s)


def is_gone(process: int) -> bool:
    return state(process) in ("", "Z", "X")
