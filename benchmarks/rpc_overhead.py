"""Time of an inference through the native RPC server on loopback, against the same inference in this process.

    python benchmarks/rpc_overhead.py PACKAGE_DIRECTORY [--runs 30] [--rounds 5]

End to end: new inputs are set, the network is run, its outputs are fetched. Then the same with inputs that are there
already, and how long new ones take by themselves. Both sides use one thread and the same package (ResNet-18 is the
goal's: at most 1.1 times). Blocks of runs alternate, so that a slow minute hits all; further peers are TVM's client, and
TVM's own Python server.
"""

import argparse
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

os.environ["TVM_NUM_THREADS"] = "1"

from tvmake.process.tvm_import import hide_torch_from_tvm

hide_torch_from_tvm()

import numpy as np
import tvm  # noqa: F401
from comparing import report

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import verify_directory
from tvmake.device.local.worker import LoadedPackage
from tvmake.device.rpc.files import files_of
from tvmake.device.rpc.package import RemotePackage
from tvmake.device.rpc.tensors import DirectTensors
from tvmake.native.bundle import bundle

from tvm import rpc  # isort: skip

HOST, KEY = "127.0.0.1", "overhead"


def inputs(manifest: Manifest, seed: int) -> list[np.ndarray]:
    """Random ones; dynamic extents are 1."""
    chance = np.random.default_rng(seed)
    specs = manifest.signature.inputs
    return [
        chance.random([extent if isinstance(extent, int) else 1 for extent in spec.shape]).astype(spec.dtype)
        for spec in specs
    ]


def block_ms(package: LoadedPackage | RemotePackage, given: list[list[np.ndarray]], is_set: bool) -> list[float]:
    """One inference for each of the inputs; for the ones set last if ``is_set``."""
    figures = []
    for values in given:
        began = time.perf_counter()
        if not is_set:
            package.set_inputs(values)
        package.run()
        package.outputs()
        figures.append((time.perf_counter() - began) * 1000)
    return figures


def setting_ms(package: LoadedPackage | RemotePackage, given: list[list[np.ndarray]]) -> list[float]:
    """Setting each of the inputs, without a run."""
    figures = []
    for values in given:
        began = time.perf_counter()
        package.set_inputs(values)
        figures.append((time.perf_counter() - began) * 1000)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--runs", type=int, default=30, help="of a block")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    manifest = verify_directory(asked.package, str(asked.package))
    given = [inputs(manifest, seed) for seed in range(asked.runs)]
    packages: dict[str, LoadedPackage | RemotePackage] = {"in this process": LoadedPackage(asked.package, manifest)}
    with native_server() as native, native_server() as plain, python_server() as python:
        ports = {"native server": native, "native server, TVM's client": plain, "TVM's Python server": python}
        for name, port in ports.items():
            session = rpc.connect(HOST, port, KEY, 3600)
            direct = None if port == plain else DirectTensors.of(session, HOST, port)
            packages[name] = RemotePackage(
                session, asked.package, manifest, "rpc", files_of(session, "rpc", direct), direct
            )
        for is_set, title in ((False, "one inference"), (True, "one inference, inputs there already")):
            figures: dict[str, list[float]] = {name: [] for name in packages}
            for number in range(asked.rounds + 1):
                for name, package in packages.items():
                    block = block_ms(package, given, is_set)
                    if number:  # the first round warms up
                        figures[name].extend(block)
            report(f"{title} of {manifest.model}", figures, "in this process", "ms")
        figures = {name: setting_ms(package, given) for name, package in packages.items()}
        report(f"new inputs of {manifest.model}", figures, "in this process", "ms")
        packages.clear()


@contextmanager
def native_server() -> Iterator[int]:
    """Ours; gives its port."""
    command = [bundle(platform.machine()) / "tvmake-serve", "--port", "0", "--key", KEY, "--threads", "1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline().rpartition(":")[2])
    finally:
        server.terminate()
        server.wait()


@contextmanager
def python_server() -> Iterator[int]:
    """TVM's; gives its port."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        port = found.getsockname()[1]
    command = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", HOST, "--key", KEY]
    command += ["--port", str(port), "--port-end", str(port + 1)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection((HOST, port)) as connection:
                connection.sendall(bytes(4))  # no client's greeting: it hangs up and waits for the next
                break
            time.sleep(0.1)
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


if __name__ == "__main__":
    main()
