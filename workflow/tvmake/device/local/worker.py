"""Run one request on this machine, in a separate process: ``main([PACKAGE, REQUEST, INPUTS, RESULT, OUTPUTS, PARTNER])``.

OUTPUTS and PARTNER, the socket of a process that measures alternately (:mod:`tvmake.device.sharing.turns`), may be empty.

It loads TVM's runtime only, verifies every digest before it maps a library, and writes either RESULT or, for an error
that a user can correct, ``RESULT.error`` (kind, where, problem, remedy).
"""

import json
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from tvmake.artifact.manifest import Manifest
from tvmake.artifact.package import LIBRARY, WEIGHTS
from tvmake.artifact.states import StateKey
from tvmake.config.benchmark import Measurement
from tvmake.device import clml
from tvmake.device.code import check_arguments, check_kind
from tvmake.device.fingerprint import local_fingerprint, usable_cores
from tvmake.device.interface import OpTime, RunRequest, RunResult, Timing
from tvmake.device.local.accelerator import accelerator_properties
from tvmake.device.local.cuda_compiler import choose_compiler
from tvmake.device.local.weights import CPU, WeightFile, Weights
from tvmake.device.memory_needs import check_memory, group_limit
from tvmake.device.memory_pool import MemoryPool
from tvmake.device.samples import run_samples, since, time_steps
from tvmake.device.sharing.turns import SEQUENCES, TURNS, Partner, Sampler
from tvmake.device.states import States
from tvmake.device.store import read_stored_manifest
from tvmake.errors import TvmakeError
from tvmake.native.runtime_libraries import present
from tvmake.process.cpu_affinity import tvm_threads

from tvm.runtime.vm import VirtualMachine  # isort: skip

PROFILED_RUNS = 5

BOOKKEEPING = (
    "alloc_shape_heap", "alloc_storage", "alloc_tensor", "check_shape_info", "check_tensor_info", "check_tuple_info", "make_prim_value", "make_shape", "make_tuple",
    "match_prim_value", "match_shape", "null_value", "read_if_cond", "reshape", "shape_of", "tuple_getitem",
)  # fmt: skip
"""Operations of TVM's virtual machine on its own registers (``vm.builtin.…``): each takes less time than a call of the
instrument, which a profile would show as theirs."""

NUMPY_DTYPES = (
    "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Element types that numpy supports natively."""


class LoadedPackage:
    """A package's virtual machine with its parameters loaded.

    Args:
        directory: the directory with its code, and its weights if they are not given.
        weights: of its parameters, in order; they may be shared with others.

    Raises:
        DeviceError: this machine does not have the package's kind of device.
        MachineError: its states need more memory than this process may use.
        InputError: the code does not match its manifest.
    """

    def __init__(self, directory: Path, manifest: Manifest, weights: Weights | None = None):
        self.signature = manifest.signature
        self.kind = manifest.device_kind
        if self.kind == "cpu":
            check_memory(manifest.signature, str(directory), group_limit())
        if self.kind == "cuda":
            choose_compiler()
        self.device = present(self.kind)
        module = tvm.runtime.load_module(str((directory / LIBRARY).resolve()))
        check_kind(module, manifest)
        self.vm = VirtualMachine(module, self.device)
        check_arguments(self.vm.module, manifest)
        self._main = self.vm["main"]
        self._pool = MemoryPool(manifest.signature, tvm_ffi.get_global_func)
        names = [parameter.name for parameter in manifest.parameters]
        given = weights or Weights(WeightFile(directory / WEIGHTS), names)
        self.params = given.on(self.device)
        self.states = self.new_states()
        self._arguments: dict[int, tuple[tvm.runtime.Tensor, np.ndarray, np.ndarray | None]] = {}
        """For ``outputs_of``, by index: the last run's tensors, arrays that share their memory, and constant arrays that were copied."""

    def new_states(self, values: dict[StateKey, Any] | None = None, keys: Sequence[StateKey] | None = None) -> States:
        """States on this device: those of a session, by default new ones at their beginning.

        Args:
            keys: those of the states among the session's values.
        """
        return States(self.signature, lambda value: tvm.runtime.tensor(value, self.device), values, keys)

    def set_inputs(self, inputs: list[np.ndarray]) -> None:
        """Set the arguments of ``main`` for all following runs."""
        states = self.states.values(inputs)
        self._pool.prepare([*inputs, *states])
        tensors = [tvm.runtime.tensor(value, self.device) for value in inputs]
        self.vm.set_input("main", *tensors, *states, *self.params)

    def run(self) -> None:
        """Run ``main`` on the current inputs."""
        self.vm.invoke_stateful("main")

    def outputs(self) -> list[np.ndarray]:
        """The last run's outputs, in signature order."""
        return _arrays(self._results(self.vm.get_outputs("main"))[: len(self.signature.outputs)])

    def advance(self) -> None:
        """Keep the states that the last run gave, for the inputs that are set next."""
        if self.signature.states:
            self.states.keep(self._results(self.vm.get_outputs("main"))[len(self.signature.outputs) :])

    def reset(self) -> None:
        """Restart the states, for the inputs that are set next."""
        self.states.reset()

    def outputs_of(self, inputs: list[np.ndarray], states: States | None = None) -> list[np.ndarray]:
        """Run ``main`` on new inputs in one call, which is faster than setting inputs, running and reading outputs.

        Args:
            states: those of a session, which get their next values; by default the package's own.
        """
        states = self.states if states is None else states
        values = states.values(inputs)
        self._pool.prepare([*inputs, *values])
        tensors = list(map(self._argument, range(len(inputs)), inputs))
        results = self._results(self._main(*tensors, *values, *self.params))
        count = len(self.signature.outputs)
        outputs = _arrays(results[:count])
        # A state may be an input itself, whose memory the next run's input gets.
        taken = {tensor.data_ptr() for tensor in tensors}
        states.keep([value.copyto(self.device) if value.data_ptr() in taken else value for value in results[count:]])
        return outputs

    @staticmethod
    def _results(results: Any) -> list[tvm.runtime.Tensor]:
        return [results] if isinstance(results, tvm.runtime.Tensor) else list(results)

    def _argument(self, index: int, value: np.ndarray) -> tvm.runtime.Tensor:
        """The tensor for an input: the last run's with new values if its shape matches, because creating a tensor takes as long as twenty kernels."""
        if index in self._arguments:
            tensor, array, last = self._arguments[index]
            is_constant = value.base is None and not value.flags.writeable  # as what another function gave
            if is_constant and value is last:
                return tensor
            if array.shape == value.shape and array.dtype == value.dtype:
                np.copyto(array, value)
                self._arguments[index] = tensor, array, value if is_constant else None
                return tensor
        tensor = tvm.runtime.tensor(value, self.device)
        memory = _shared_array(tensor)
        if memory is not None:
            self._arguments[index] = tensor, memory, None
        return tensor


def _arrays(tensors: list[tvm.runtime.Tensor]) -> list[np.ndarray]:
    """Copies of tensors as arrays."""
    arrays = map(_shared_array, tensors)
    return [value.numpy() if array is None else array.copy() for value, array in zip(tensors, arrays, strict=True)]


def _shared_array(tensor: tvm.runtime.Tensor) -> np.ndarray | None:
    """An array that shares a tensor's memory; None for tensors of other devices or of types that numpy lacks."""
    is_known = tensor.__dlpack_device__()[0] == CPU and str(tensor.dtype) in NUMPY_DTYPES
    return np.from_dlpack(tensor) if is_known else None


def main(arguments: list[str]) -> int:
    """Serve one request; the module's docstring describes the arguments."""
    directory, request_file, inputs, result_file = (Path(argument) for argument in arguments[:4])
    outputs, partner = (*arguments[4:], "", "")[:2]
    try:
        request = RunRequest.model_validate_json(request_file.read_bytes())
        result = serve(directory, request, inputs, Path(outputs) if outputs else None, partner)
    except TvmakeError as error:
        Path(f"{result_file}.error").write_text(
            json.dumps([type(error).__name__, error.where, error.problem, error.remedy])
        )
        return 0
    result_file.write_text(result.model_dump_json())
    return 0


def serve(directory: Path, request: RunRequest, inputs: Path, outputs: Path | None, partner: str = "") -> RunResult:
    """Run one request on the package in ``directory``; measure alternately with the process behind ``partner``."""
    manifest = read_stored_manifest(directory)
    tvm_threads()
    cores = usable_cores()
    baseline = _resident_bytes()
    started = time.perf_counter()
    package = LoadedPackage(directory, manifest)
    load_ms = since(started)
    first_run_ms = run_samples(package, manifest, request, inputs, outputs)
    timed = partial(time_steps, package, manifest, inputs, request.timed_steps, partial(_timed_runs, package, 1))
    sequence = timed if request.timed_steps else None
    measured: dict[str, Any] = _measure(package, request.measurement, partner, sequence) if request.measurement else {}
    timing = Timing(
        load_ms=load_ms,
        first_run_ms=first_run_ms,
        peak_memory_bytes=_peak_bytes(),
        baseline_memory_bytes=baseline,
        conditions=clml.conditions(partial(tvm_ffi.get_global_func, allow_missing=True)),
        **measured,
    )
    gpu = accelerator_properties(package.kind, package.device) if package.kind != "cpu" else None
    fingerprint = local_fingerprint(tvm_threads(), package.kind, gpu, cores)
    return RunResult(timing=timing, fingerprint=fingerprint)


def _measure(
    package: LoadedPackage, how: Measurement, address: str, sequence: Callable[[], list[float]] | None
) -> dict[str, Any]:
    partner = Partner(address, how) if address else None
    sampler = Sampler(partial(_timed_runs, package), how, TURNS if partner else 1)
    if partner:
        partner.begin(tvm_ffi.get_global_func("runtime.NumThreads")())
    while not sampler.has_enough:
        sampler.take_turn()
        if partner:
            partner.pass_on()
    steps_ms: list[list[float]] = []
    if sequence:
        for _ in range(SEQUENCES):
            steps_ms.append(sequence())
            if partner:
                partner.time_sequence()
    if partner:
        partner.close()
    op_runs = _profile(package) if how.profile_ops else []
    return {
        "warmup_ms": sampler.warmup_ms,
        "samples_ms": sampler.samples_ms,
        "number": sampler.number,
        "steps_ms": steps_ms,
        "op_runs": op_runs,
    }


def _timed_runs(package: LoadedPackage, number: int) -> float:
    """The mean time of some runs in ms."""
    started = time.perf_counter()
    for _ in range(number):
        package.run()
    package.device.sync()
    return since(started) / number


def _profile(package: LoadedPackage) -> list[OpTime]:
    """Time every kernel call in separate runs, with the VM's instrument."""
    rows: list[OpTime] = []
    began = 0.0
    current = 0

    def instrument(_function: Any, name: str, before: bool, _ret: Any, *_arguments: Any) -> None:
        nonlocal began
        if before:
            began = time.perf_counter()
        elif name.removeprefix("vm.builtin.") not in BOOKKEEPING:
            package.device.sync()
            rows.append(OpTime(name=str(name), run=current, ms=since(began)))

    package.vm.set_instrument(instrument)
    for current in range(PROFILED_RUNS):  # noqa: B007  # read by the instrument
        package.run()
    return rows


def _peak_bytes() -> int:
    """Peak resident memory of this process; ``ru_maxrss`` would include that of its fork's parent."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()
