"""Where a kernel is run once to look at its output: this machine, or any device that can be taught it."""

import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.tune.measuring.failure import telling_line
from tvmake.tune.run_kernel import KernelRequest, Tensor
from tvmake.warm.client import DIRECTORY, PARENT


class KernelFailure(Exception):
    """A kernel that gave no output; the text says what it did instead, in one line."""


class KernelRunner(Protocol):
    """Runs libraries of one kernel."""

    compiler: str
    """The compiler driver that links libraries for it."""

    def run(
        self, library: Path, inputs: Sequence[np.ndarray], outputs: Sequence[Tensor], fill: int
    ) -> list[np.ndarray]:
        """Run a kernel once.

        Args:
            library: a shared library with the kernel as ``main``, which takes inputs, then outputs.
            fill: the byte that outputs are filled with before.

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
        self, library: Path, inputs: Sequence[np.ndarray], outputs: Sequence[Tensor], fill: int
    ) -> list[np.ndarray]:
        """See :class:`KernelRunner`."""
        with tempfile.TemporaryDirectory(prefix="tvmake-kernel-") as name:
            asked, given, answered = (Path(name) / part for part in ("request.json", "inputs.npz", "outputs.npz"))
            request = KernelRequest(
                library=str(library.resolve()),
                device=self.device,
                inputs=tuple(Tensor(dtype=str(value.dtype), shape=value.shape) for value in inputs),
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
        environment = {**os.environ, PARENT: str(os.getpid())}
        if self.device == "cpu":
            environment["TVM_USE_RUNTIME_LIB"] = "1"
        else:
            # Drivers do not survive a fork.
            environment.pop(DIRECTORY, None)
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
