"""Where a kernel is run once to look at its output: this machine, or a device behind an RPC tracker."""

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.device import DeviceConfig
from tvmake.device.orders import CallKernel
from tvmake.device.rpc import OrderFailed, SessionLate, SessionLost, Sessions
from tvmake.device.serving import served
from tvmake.tune.measuring.failure import telling_line
from tvmake.tune.measuring.kernel import device_kind
from tvmake.tune.run_kernel import ENTRY, KernelRequest, Tensor, filled
from tvmake.warm.client import PARENT

if TYPE_CHECKING:
    from tvmake.quick_tvm import tvm


ATTEMPTS = 2
"""How often a kernel is run while devices are lost; the second loss is taken for its own doing."""


GLOBAL = "global"
"""The memory of a buffer."""


class KernelFailure(Exception):
    """A kernel that gave no output; the text says what it did instead, in one line."""


class KernelRunner(Protocol):
    """Runs libraries of one kernel."""

    compiler: str
    """The compiler driver that links libraries for it."""

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        """Run a kernel once.

        Args:
            library: a shared library with the kernel as ``main``, which takes inputs, then outputs.
            fill: the byte that outputs are filled with before.
            scopes: the memory of each input (``Tensor.scope``); buffers when left out.

        Raises:
            KernelFailure: it crashed, raised an error or did not end; the device is well.
            DeviceError: the device cannot be reached, or was lost.
        """
        ...


class LocalKernelRunner:
    """Runs kernels on this machine, each in a process of its own.

    Args:
        timeout_s: how long loading and running one may take, in seconds.
        device: the runtime's name for the kind of device.
        threads: threads of CPU kernels; the machine's cores by default.
    """

    def __init__(self, timeout_s: float = 60.0, device: str = "cpu", threads: int | None = None, compiler: str = "g++"):
        self.timeout_s = timeout_s
        self.device = device
        self.threads = threads
        self.compiler = compiler

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        """See :class:`KernelRunner`."""
        with tempfile.TemporaryDirectory(prefix="tvmake-kernel-") as name:
            asked, given, answered = (Path(name) / part for part in ("request.json", "inputs.npz", "outputs.npz"))
            request = KernelRequest(
                library=str(library.resolve()),
                device=self.device,
                inputs=tuple(
                    Tensor(dtype=str(value.dtype), shape=value.shape, scope=scope)
                    for value, scope in zip(inputs, scopes or [GLOBAL] * len(inputs), strict=True)
                ),
                outputs=tuple(outputs),
                fill=fill,
            )
            asked.write_text(request.model_dump_json())
            with zipfile.ZipFile(given, "w", zipfile.ZIP_STORED) as archive:
                for number, value in enumerate(inputs):
                    write_array(archive, member("input", None, number), value)
            self._run([str(asked), str(given), str(answered)])
            with zipfile.ZipFile(answered) as archive:
                return [
                    read_array(archive, member("output", None, number), one.dtype) for number, one in enumerate(outputs)
                ]

    def _run(self, arguments: list[str]) -> None:
        environment = {**os.environ, PARENT: str(os.getpid()), "TVM_USE_RUNTIME_LIB": "1"}
        if self.threads:
            environment["TVM_NUM_THREADS"] = str(self.threads)
        command = [sys.executable, "-m", "tvmake.warm.client", "runtime", "kernel", *arguments]
        # A session of its own, so that a hung kernel dies with all it started.
        process = subprocess.Popen(
            command, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _, complaint = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise KernelFailure(f"it did not end within {self.timeout_s:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode < 0:
            raise KernelFailure(f"it ended with {signal.Signals(-process.returncode).name}")
        if process.returncode:
            raise KernelFailure(f"it failed: {telling_line(complaint) or 'no message'}")


class RPCKernelRunner:
    """Runs kernels on a device behind a tracker, each in a session of its own.

    Args:
        reach: gives what reaches the device; asked once, for the first kernel.
        kind: the runtime's name for the kind of device.
    """

    def __init__(self, reach: Callable[[], Sessions], kind: str = "cpu", compiler: str = "g++"):
        self.kind = kind
        self.compiler = compiler
        self._reach = reach

    @cached_property
    def _sessions(self) -> Sessions:
        return self._reach()

    def run(
        self,
        library: Path,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[Tensor],
        fill: int,
        scopes: Sequence[str] = (),
    ) -> list[np.ndarray]:
        """See :class:`KernelRunner`."""
        config = self._sessions.config
        order = CallKernel(
            config=config,
            where=self._sessions.where,
            library=library.resolve(),
            function=ENTRY,
            device=self.kind,
            arguments=[*inputs, *(filled(one, fill) for one in outputs)],
            returned=len(outputs),
            scopes=[*(scopes or [GLOBAL] * len(inputs)), *(one.scope for one in outputs)],
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._sessions.fulfil(order, config.session_timeout_s)
            except OrderFailed as failed:
                raise KernelFailure(f"it failed: {failed}") from None
            except SessionLate:
                raise KernelFailure(f"it did not end within {config.session_timeout_s:g} s") from None
            except SessionLost as lost:
                why = lost.line
                if attempt < ATTEMPTS:
                    line = f"device {lost.address} was lost ({why}) while a kernel was checked; it is tried once more"
                    print(f"warning: {line}", file=sys.stderr)
        raise KernelFailure(f"a device was lost each of the {ATTEMPTS} times it ran ({why})")


def kernel_runner(name: str, config: DeviceConfig, target: "tvm.target.Target", compiler: str) -> KernelRunner:
    """What runs kernels of a target on a device of the config.

    Raises:
        DeviceError: the device cannot be reached.
    """
    kind = device_kind(target)
    match config.via:
        case "local":
            return LocalKernelRunner(device=kind, threads=config.threads, compiler=compiler)
        case "rpc":
            sessions = Sessions(name, config)
            return RPCKernelRunner(lambda: sessions, kind, compiler)
        case "ssh" | "adb":

            def serve() -> Sessions:
                servers = served(name, config, kind)
                return Sessions(name, servers.config, servers)

            return RPCKernelRunner(serve, kind, compiler)
