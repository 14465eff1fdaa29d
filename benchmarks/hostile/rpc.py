"""Client messages for tvmake's RPC server and tracker: after any of them, an honest client is served."""

import atexit
import json
import os
import platform
import random
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cases import Case
from .mutate import NUMBERS, TEXTS, dumps, mutate_bytes, mutate_json

HOST = "127.0.0.1"
KEY = "soak"
SERVER_MAGIC, TRACKER_MAGIC = struct.pack("<i", 0xFF271), struct.pack("<i", 0x2F271)

PATIENCE_S = 25.0
"""For an honest client; less than what counts as a hang."""

SESSION_S = 3
"""The longest session of a hostile client, by the server's options: one may keep a server busy for as long as that."""

TRACKER_MB = 300
"""What a tracker may have come to use, TVM's runtime included."""


class Server:
    """Frames of a session that worked, changed, and a handshake; then a session that has to work."""

    preload = ("tvmake.cli.app", "tvmake.process.tvm_import", "tvmake.device.rpc.tracker")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        from tests.device.rpc.proxy import ELSEWHERE, Proxy

        from tvmake.native.bundle import bundle

        os.symlink(bundle(platform.machine()), samples / "programs")  # noqa: PTH211
        server, port = _started(samples, samples)
        proxy = Proxy(port)
        # In a process of its own: TVM's threads would not live on in the cases' processes.
        code = f"import sys; sys.path[:0] = {sys.path!r}; from hostile.rpc import work; work({ELSEWHERE!r}, {port})"
        subprocess.run([sys.executable, "-c", code], check=True)
        proxy.close()
        server.terminate()
        server.wait()
        (samples / "sent").write_bytes(bytes(proxy.sent))

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        greeting, packets = _packets((samples / "sent").read_bytes())
        clients = [_hostile(greeting, packets, chance) for _ in range(chance.choice((1, 1, 3, 8)))]
        kept_open = chance.random() < 0.3

        def serve() -> int:
            """A server, hostile clients, an honest one, and the server's end."""
            server, port = _started(samples, directory)
            held = [one for _, data in clients if (one := _say(port, data)) and kept_open]
            problem = _served(port) or _ended(server, directory)
            for one in held:
                one.close()
            if problem:
                (directory / "wrong").write_text(f"{problem}; {(directory / 'server.log').read_text()[-500:]}")
            return 0

        def wrong() -> str | None:
            found = directory / "wrong"
            return found.read_text() if found.exists() else None

        what = ", ".join(how for how, _ in clients)
        return Case(what, [serve], wrong, ("work/", "server.log", "wrong"))


class Tracker:
    """Messages to one tracker, which lives through all of them."""

    preload = ("tvmake.cli.app", "tvmake.device.rpc.tracker")

    def prepare(self, samples: Path) -> None:
        """See :class:`cases.Kind`."""
        command = [sys.executable, "-m", "tvmake.device.rpc.tracker_process", HOST, "0"]
        with (samples / "tracker.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        atexit.register(process.kill)
        assert process.stdout is not None
        (samples / "port").write_text(process.stdout.readline().rpartition(":")[2])
        (samples / "pid").write_text(str(process.pid))

    def case(self, samples: Path, directory: Path, chance: random.Random) -> Case:
        """See :class:`cases.Kind`."""
        port = int((samples / "port").read_text())
        clients = [_messages(chance) for _ in range(chance.choice((1, 1, 3, 40)))]
        kept_open = chance.random() < 0.3

        def ask() -> int:
            """Hostile clients, and an honest one."""
            held = [one for _, data in clients if (one := _say(port, data)) and kept_open]
            problem = _tracked(port)
            for one in held:
                one.close()
            if problem:
                (directory / "wrong").write_text(problem)
            return 0

        def wrong() -> str | None:
            found = directory / "wrong"
            log = (samples / "tracker.log").read_text()
            if "Traceback" in log:
                (samples / "tracker.log").write_text("")
                return f"the tracker said: {log[-500:]}"
            resident = Path(f"/proc/{(samples / 'pid').read_text()}/status").read_text().partition("VmRSS:")[2].split()
            if int(resident[0]) > TRACKER_MB << 10:
                return f"the tracker takes {int(resident[0]) >> 10} MB"
            return found.read_text() if found.exists() else None

        return Case(", ".join(how for how, _ in clients[:5]), [ask], wrong, ("wrong",))


def work(host: str, port: int, timeout_s: float = 0) -> None:
    """A session as clients have them: files come back as they went, functions are called, tensors copied."""
    from tvmake.process.tvm_import import hide_torch_from_tvm

    hide_torch_from_tvm()
    import numpy as np
    import tvm

    from tvm import rpc  # isort: skip

    session = rpc.connect(host, port, KEY, session_timeout=timeout_s)
    content = bytearray(range(256)) * 4
    session.upload(content, "content")
    array = np.arange(64, dtype="float32")
    tensor = tvm.runtime.tensor(array, session.cpu(0))
    session.get_function("runtime.NumThreads")()
    if session.download("content") != content or not np.array_equal(tensor.numpy(), array):
        raise SystemExit("content was lost")
    del tensor, session


def _started(samples: Path, directory: Path) -> tuple["subprocess.Popen[str]", int]:
    programs = samples / "programs"
    (directory / "work").mkdir(exist_ok=True)
    options = ["--port", "0", "--key", KEY, "--workdir", str(directory / "work"), "--session-timeout", str(SESSION_S)]
    with (directory / "server.log").open("ab") as log:
        server = subprocess.Popen(
            [str(programs / "tvmake-serve"), *options],
            env={**os.environ, "LD_LIBRARY_PATH": str(programs), "TVM_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert server.stdout is not None
    return server, int(server.stdout.readline().rpartition(":")[2])


def _packets(sent: bytes) -> tuple[bytes, list[bytes]]:
    """The greeting of a session, and what its packets hold."""
    (length,) = struct.unpack_from("<i", sent, 4)
    at = 8 + length
    greeting, packets = sent[:at], []
    while at < len(sent):
        (size,) = struct.unpack_from("<Q", sent, at)
        packets.append(sent[at + 8 : at + 8 + size])
        at += 8 + size
    return greeting, packets


def _hostile(greeting: bytes, packets: list[bytes], chance: random.Random) -> tuple[str, bytes]:
    how = chance.choice(("greeting", "bytes", "packet", "packet", "packet", "length", "order"))
    framed = [struct.pack("<Q", len(packet)) + packet for packet in packets]
    index = chance.randrange(len(packets))
    match how:
        case "greeting":
            return how, _greeting(greeting, chance)
        case "bytes":
            return how, greeting + mutate_bytes(b"".join(framed), chance)
        case "packet":
            changed = mutate_bytes(packets[index], chance)
            if chance.random() < 0.5 and len(changed) >= 12:  # another code, or number, in a packet of the same size
                at = chance.choice((0, 4, chance.randrange(len(changed) // 4) * 4))
                changed = (
                    changed[:at]
                    + struct.pack("<I", chance.choice((*range(24), *NUMBERS)) & 0xFFFFFFFF)
                    + changed[at + 4 :]
                )
            framed[index] = struct.pack("<Q", len(changed)) + changed
        case "length":
            claimed = chance.choice(NUMBERS) % (1 << 64)
            framed[index] = struct.pack("<Q", claimed) + packets[index]
        case "order":
            chance.shuffle(framed)
            framed = framed * chance.choice((1, 1, 20))
    return how, greeting + b"".join(framed)


def _greeting(sound: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return mutate_bytes(sound, chance)
    text = chance.choice(
        (*TEXTS, f"client:{KEY} -timeout=nan", f"client:{KEY} -timeout=1e999", f"client:{KEY} -timeout=-1")
    )
    said = text.encode(errors="surrogatepass")
    return SERVER_MAGIC + struct.pack("<I", chance.choice((len(said), chance.choice(NUMBERS) & 0xFFFFFFFF))) + said


def _messages(chance: random.Random) -> tuple[str, bytes]:
    """Messages to a tracker: usual ones, changed."""
    usual: list[Any] = [
        [3, KEY, [9091, f"{KEY}:0.5"], None],
        [4, KEY, "user", 1],
        [5, {"key": f"server:{KEY}", "addr": [None, 9091]}],
        [6],
        [7],
        [2],
        [1, "stop"],
    ]
    sent = []
    for _ in range(chance.choice((1, 2, 30))):
        message = chance.choice(usual)
        changed = dumps(mutate_json(message, chance)) if chance.random() < 0.8 else dumps(message)
        if chance.random() < 0.15:
            changed = mutate_bytes(changed, chance)
        length = len(changed) if chance.random() < 0.9 else chance.choice(NUMBERS) & 0xFFFFFFFF
        sent.append(struct.pack("<I", length & 0xFFFFFFFF) + changed)
    data = TRACKER_MAGIC + b"".join(sent)
    return "messages", mutate_bytes(data, chance) if chance.random() < 0.15 else data


def _say(port: int, data: bytes) -> socket.socket | None:
    """Send all, and read what comes for a moment; returns the connection where it is still open."""
    with suppress(OSError):
        connection = socket.create_connection((HOST, port), 5)
        connection.settimeout(0.2)
        with suppress(OSError):
            connection.sendall(data)
            while connection.recv(1 << 16):
                pass
        return connection
    return None


def _served(port: int) -> str | None:
    """What is wrong with an honest client's session."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            work(HOST, port, SESSION_S)
        except Exception as error:  # noqa: BLE001  # whatever it is, the client may come again until its patience ends
            if time.monotonic() > until:
                return f"an honest client was not served: {error}"
            time.sleep(0.2)
        else:
            return None


def _tracked(port: int) -> str | None:
    with suppress(OSError), socket.create_connection((HOST, port), PATIENCE_S) as connection:
        connection.sendall(TRACKER_MAGIC)
        if connection.recv(4) != TRACKER_MAGIC:
            return "the tracker greets no more"
        message = json.dumps([6]).encode()
        connection.sendall(struct.pack("<i", len(message)) + message)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack("<i", answer.read(4) or bytes(4))
            if size and json.loads(answer.read(size))[0] == 0:
                return None
    return "the tracker does not answer"


def _ended(server: "subprocess.Popen[str]", directory: Path) -> str | None:
    """Have the server end; what is left of it, or of its sessions."""
    if server.poll() is not None:
        return f"the server has ended with {server.returncode}"
    server.terminate()
    code = server.wait(PATIENCE_S)
    if code:
        return f"the server ended with {code}"
    left = list((directory / "work").iterdir())
    return f"{left[0].name} is left" if left else None
