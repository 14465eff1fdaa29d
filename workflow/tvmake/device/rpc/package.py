"""A package loaded on a device over RPC: only inputs and outputs are transferred, and the device measures."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.config.benchmark import Measurement
from tvmake.device.architecture import name_of
from tvmake.device.memory_pool import MemoryPool
from tvmake.device.rpc.files import NativeFiles, PlainFiles
from tvmake.device.rpc.tensors import DirectTensors, fits
from tvmake.device.states import States
from tvmake.errors import DeviceError

from tvm.runtime.vm import VirtualMachine  # isort: skip

NOTES = {
    "load_and_first_run": "with the connection: libraries and weights are sent first, unless the server has them",
    "operator_times": "not available over RPC",
}
"""Conditions of every measurement over RPC. The virtual machine's instrument is a function, which RPC cannot transfer."""


class RemotePackage:
    """A package's virtual machine on a device, with its parameters loaded; a ``samples.Package``.

    Args:
        where: the beginning of errors.
        files: sends the package's files.
        direct: transfers tensors if the server can; otherwise TVM's client does.
    """

    def __init__(
        self,
        session: Any,
        directory: Path,
        manifest: Manifest,
        where: str,
        files: NativeFiles | PlainFiles,
        direct: DirectTensors | None = None,
    ):
        self.direct = direct
        self.inputs: list[Any] = []
        kind = str(manifest.target.get("kind", "llvm"))
        self.device = session.device("cpu" if kind in ("llvm", "c") else kind, 0)
        if not self.device.exist:
            remedy = "start the server with a runtime for it (`rpc_server --load-library`), or give the target another device"
            raise DeviceError(where, f"its server has no {kind} device", remedy)
        files.have(directory / LIBRARY, LIBRARY)
        module = load_library(session, directory / LIBRARY, LIBRARY, where)
        self.vm = VirtualMachine(module, self.device)
        self._pool = MemoryPool(manifest.signature, session.get_function)
        self.states = States(manifest.signature, self._to_device)
        self._outputs = len(manifest.signature.outputs)
        names = [parameter.name for parameter in manifest.parameters]
        self.params = files.have_parameters(directory / WEIGHTS, WEIGHTS, names, self.device)

    def set_inputs(self, inputs: list[np.ndarray]) -> None:
        states = self.states.values(inputs)
        self._pool.prepare([*inputs, *states])
        if self.direct is None:
            self.vm.set_input("main", *(self._to_device(value) for value in inputs), *states, *self.params)
            return
        # A state may be an input itself, so inputs keep their memory only without states.
        if (
            not states
            and self.inputs
            and all(fits(tensor, value) for tensor, value in zip(self.inputs, inputs, strict=True))
        ):
            for tensor, value in zip(self.inputs, inputs, strict=True):
                self.direct.write(tensor, value)
            return
        placed = [self._to_device(value) for value in inputs]
        self.direct.set_input(self.vm, "main", [*placed, *states, *self.params])
        self.inputs = placed

    def run(self) -> None:
        self.vm.invoke_stateful("main")

    def outputs(self) -> list[np.ndarray]:
        read = tvm.runtime.Tensor.numpy if self.direct is None else self.direct.read
        return [read(value) for value in self._results()[: self._outputs]]

    def advance(self) -> None:
        if not len(self.states):
            return
        if self.direct is None:
            self.states.keep(self._results()[self._outputs :])
        else:
            indices = range(self._outputs, self._outputs + len(self.states))
            self.states.keep([self.direct.output(self.vm, "main", index) for index in indices])

    def reset(self) -> None:
        self.states.reset()

    def _results(self) -> list[Any]:
        got = self.vm.get_outputs("main")
        return [got] if isinstance(got, tvm.runtime.Tensor) else list(got)

    def _to_device(self, value: np.ndarray) -> Any:
        return tvm.runtime.tensor(value, self.device) if self.direct is None else self.direct.create(value, self.device)

    def measure(self, how: Measurement) -> dict[str, Any]:
        """Fields of a ``Timing``. The loop runs on the device, by its clock."""
        warmup_ms = self._samples_ms(1, how.warmup) if how.warmup else []
        number = how.number
        if how.min_repeat_ms:
            number = max(number, self._runs_lasting(how.min_repeat_ms))
        samples_ms = self._samples_ms(number, how.repeat, how.cooldown_s)
        while (missing_ms := how.min_duration_s * 1000 - sum(samples_ms) * number) > 0:
            mean_ms = max(sum(samples_ms) * number / len(samples_ms), 1e-3)
            samples_ms += self._samples_ms(number, math.ceil(missing_ms / mean_ms), how.cooldown_s)
        return {"warmup_ms": warmup_ms, "samples_ms": samples_ms, "number": number}

    def timed_run(self) -> float:
        """The time of one run in ms, by the device's clock. Another run precedes it, on the same inputs and states."""
        return self._samples_ms(1, 1)[0]

    def _samples_ms(self, number: int, repeat: int, cooldown_s: float = 0.0) -> list[float]:
        evaluator = self.vm.time_evaluator(
            "invoke_stateful",
            self.device,
            number=number,
            repeat=repeat,
            cooldown_interval_ms=math.ceil(cooldown_s * 1000),
        )
        return [float(seconds) * 1000 for seconds in evaluator("main").results]

    def _runs_lasting(self, min_ms: float) -> int:
        """Raise the count until a sample is long enough, as TVM's time_evaluator does without reporting the count."""
        number = 1
        while (lasted := self._samples_ms(number, 1)[0] * number) < min_ms:
            number = max(number + 1, int(number * min(10.0, 1.2 * min_ms / max(lasted, 1e-6))))
        return number


def load_library(session: Any, library: Path, name: str, where: str) -> Any:
    """Load an uploaded library.

    Raises:
        DeviceError: the device's loader refuses it.
    """
    try:
        return session.load_module(name)
    except tvm.error.RPCError as error:
        line = str(error).strip().splitlines()[-1]
        if "load dynamic shared library" not in line:
            raise
        # glibc reports code for another processor as a missing file.
        _, _, reason = line.rpartition(": ")
        problem = f"it cannot load {library.name}, which is code for {name_of(library)} ({reason.strip()})"
        remedy = "compile for this device: the target's mtriple and mcpu, and cc that links for it (docs/guides/devices-rpc.md)"
        raise DeviceError(where, problem, remedy) from None
