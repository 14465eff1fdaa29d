"""Check that the native RPC server survives clients that end, crash, hang, are killed or lose the connection.

    python benchmarks/server_soak.py [--sessions 1000] [--seed 0]

A tracker and one native server run on this machine; the tracker gives each client the server, one after the other. What
a client does is chosen at random: most are ended in the middle in some way. The server has to serve every well-behaved
one correctly, be alive in the end, leave no process and no file behind, and hold its memory: within 2 % of what it had
after the first tenth of the sessions. Exit code 0 says that it did. 1000 sessions take about ten minutes.
"""

import argparse
import json
import os
import platform
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tvmake.process.tvm_import import hide_torch_from_tvm

hide_torch_from_tvm()

import tvm
from comparing import machine
from farm import HOST, Farm

from tvmake.device.rpc.tracker import Offer, Tracker
from tvmake.native.bundle import bundle

from tvm import rpc  # isort: skip

KEY = "soak"
MEMORY_DRIFT = 0.02
PATIENCE_S = 30.0
HANG_TIMEOUT_S = 0.3

CODE = """
#include <unistd.h>
#define KERNEL(name) extern "C" int __tvm_ffi_##name(void*, const void*, int, void*)
KERNEL(quick) { return 0; }
KERNEL(slow) { usleep(100000); return 0; }
KERNEL(hang) { for (;;) pause(); }
KERNEL(crash) { for (;;) *(volatile int*)8 = 1; }
KERNEL(leave) { _exit(7); }
KERNEL(breed) { if (fork() == 0) for (;;) pause(); return 0; }
"""

MAGIC = struct.pack("<i", 0xFF271)
SAYINGS = (b"", b"GET / HTTP/1.1\r\n\r\n", MAGIC, MAGIC + b"\xff\xff\xff\xff", MAGIC + struct.pack("<i", 90) + b"cli")


class Soak:
    """Clients of one server.

    Args:
        tracker: gives them the server.
        library: code for it.
        chance: what is chosen by.
    """

    def __init__(self, tracker: Tracker, library: Path, chance: random.Random):
        self.tracker = tracker
        self.library = library
        self.chance = chance
        self.kinds: dict[Callable[[Offer], None], int] = {
            self.well: 8,
            self.dies_in_the_middle: 4,
            self.dies_with_a_reply_unread: 3,
            self.dies_idle: 3,
            self.is_cut_off: 3,
            self.code_crashes: 3,
            self.code_leaves: 2,
            self.code_hangs: 3,
            self.code_starts_a_process: 2,
            self.talks_nonsense: 2,
        }
        self.counts: Counter[str] = Counter()

    def session(self) -> None:
        """One client, of a kind chosen at random."""
        kind = self.chance.choices([*self.kinds], [*self.kinds.values()])[0]
        offer = self.tracker.request(PATIENCE_S)
        if offer is None:
            sys.exit(f"the server is not offered again within {PATIENCE_S:g} s, after {dict(self.counts)}")
        kind(offer)
        self.counts[kind.__name__.replace("_", " ")] += 1

    def well(self, offer: Offer) -> None:
        """Bytes come back as they went, and code runs."""
        with client(offer, self._works) as process:
            if process.wait() != 0:
                sys.exit(f"a client that did nothing wrong was not served, after {dict(self.counts)}")

    def dies_in_the_middle(self, offer: Offer) -> None:
        """At any moment of its life."""
        with client(offer, self._works) as process:
            time.sleep(self.chance.uniform(0, 0.08))
            process.kill()

    def dies_with_a_reply_unread(self, offer: Offer) -> None:
        """The system resets its connection, where TVM's own server ends."""
        with client(offer, lambda session: self._call(session, "slow")) as process:
            time.sleep(self.chance.uniform(0.02, 0.08))
            process.stop()
            time.sleep(0.12)
            process.kill()

    def dies_idle(self, offer: Offer) -> None:
        """With an open session in which nothing happens."""
        with client(offer, lambda session: time.sleep(60)) as process:
            time.sleep(self.chance.uniform(0.01, 0.05))
            process.kill()

    def is_cut_off(self, offer: Offer) -> None:
        """In the middle of a message, by a reset."""
        with suppress(OSError), socket.create_connection((offer.address.host, offer.address.port), 5) as connection:
            key = f"client:{offer.match_key} -timeout=5".encode()
            connection.sendall(MAGIC + struct.pack("<i", len(key)) + key)
            connection.recv(64)
            connection.sendall(
                struct.pack("<q", 1 << self.chance.randrange(40)) + os.urandom(self.chance.randrange(99))
            )
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def code_crashes(self, offer: Offer) -> None:
        """SIGSEGV."""
        self._fails(offer, "crash", 5.0)

    def code_leaves(self, offer: Offer) -> None:
        """The code ends its process."""
        self._fails(offer, "leave", 5.0)

    def code_hangs(self, offer: Offer) -> None:
        """Until the session's time is over."""
        self._fails(offer, "hang", HANG_TIMEOUT_S)

    def code_starts_a_process(self, offer: Offer) -> None:
        """Which hangs."""
        with client(offer, lambda session: self._call(session, "breed")) as process:
            process.wait()

    def talks_nonsense(self, offer: Offer) -> None:
        """Many connections that say nothing sensible; then one that uses the key."""
        address = (offer.address.host, offer.address.port)
        others = [socket.create_connection(address, 5) for _ in range(20)]
        for other in others:
            with suppress(OSError):
                other.sendall(self.chance.choice(SAYINGS))
        self.well(offer)
        for other in others:
            other.close()

    def _works(self, session: "rpc.RPCSession") -> None:
        content = bytearray(os.urandom(1 << 16))
        session.upload(content, "content")
        tensor = tvm.runtime.empty((1 << 14,), "float32", session.cpu(0))
        if session.download("content") != content or tensor.numpy().shape != (1 << 14,):
            raise SystemExit("content was lost")
        self._call(session, "quick")

    def _call(self, session: "rpc.RPCSession", name: str) -> None:
        session.upload(str(self.library), "code.so")
        session.load_module("code.so")[name]()

    def _fails(self, offer: Offer, name: str, timeout_s: float) -> None:
        with client(offer, lambda session: self._call(session, name), timeout_s) as process:
            if process.wait() == 0:
                sys.exit(f"code that should {name} did not")


class Process:
    """A client in a process of its own."""

    def __init__(self, pid: int):
        self._pid: int | None = pid

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        assert self._pid is not None
        pid, self._pid = self._pid, None
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def stop(self) -> None:
        """Have it read no more."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGSTOP)

    def kill(self) -> None:
        """End it, unless it has ended."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self.wait()


@contextmanager
def client(offer: Offer, work: Callable[["rpc.RPCSession"], None], timeout_s: float = 5.0) -> Iterator[Process]:
    """A process with a session; TVM is loaded already, because it is forked from this one."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open(os.devnull, "w") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), 2)
            session = rpc.connect(offer.address.host, offer.address.port, offer.match_key, timeout_s)
            work(session)
            del session
            code = 0
        finally:
            os._exit(code)
    process = Process(pid)
    try:
        yield process
    finally:
        process.kill()


def resident_kb(pid: int) -> int:
    """Resident memory of a process, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def descendants(pid: int) -> list[int]:
    """Living processes of a process group or below a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found


def using(library: Path) -> list[int]:
    """Living processes that have a session's copy of a library in them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"{library}" in (entry / "maps").read_text():
                found.append(int(entry.name))
    return found


def eventually(is_true: Callable[[], bool], problem: str) -> None:
    """Wait for something, or end with what is wrong."""
    until = time.monotonic() + PATIENCE_S
    while not is_true():
        if time.monotonic() > until:
            sys.exit(problem)
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    program = bundle(platform.machine()) / "tvmake-serve"
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "code.cc").write_text(CODE)
        library = root / "code.so"
        subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(root / "code.cc")], check=True)
        work = root / "work"
        work.mkdir()
        farm = Farm(root)
        tracker = Tracker(HOST, farm.port, KEY)
        options = ["--port", "0", "--tracker", f"{HOST}:{farm.port}", "--key", KEY, "--workdir", str(work)]
        with (root / "server.log").open("wb") as log:
            server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=log)
        try:
            soak = Soak(tracker, library, random.Random(asked.seed))
            settle, began, memory = max(1, asked.sessions // 10), time.monotonic(), []
            for number in range(1, asked.sessions + 1):
                soak.session()
                if number % settle == 0:
                    eventually(lambda: not descendants(server.pid), "a session's process does not end")
                    memory.append(resident_kb(server.pid))
                    print(
                        f"{number}/{asked.sessions}: {memory[-1]} KiB, {time.monotonic() - began:.0f} s",
                        file=sys.stderr,
                    )
            seconds = time.monotonic() - began
            if server.poll() is not None:
                sys.exit(f"the server has ended; its last words: {(root / 'server.log').read_text()[-500:]}")
            eventually(lambda: not any(work.iterdir()), "files of sessions are left")
            orphans = [pid for pid in using(work) if pid != os.getpid()]
            drift = memory[-1] / memory[0] - 1
            server.send_signal(signal.SIGTERM)
            code = server.wait(20)
        finally:
            server.kill()
            server.wait()
            farm.close()
    figures = {
        "sessions": dict(soak.counts),
        "seconds": round(seconds, 1),
        "server_kib": memory,
        "memory_drift": round(drift, 4),
        "orphans": len(orphans),
        "exit_code": code,
        "where": machine(),
    }
    print(json.dumps(figures))
    if orphans or code != 0 or abs(drift) > MEMORY_DRIFT:
        sys.exit("the server did not hold")


if __name__ == "__main__":
    main()
