"""Check that a tuned kernel computes the same as the unscheduled one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import tvm
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.size_points import SizePoint, describe_sizes
from tvmake.codegen.compiler_errors import explain
from tvmake.codegen.run_kernel import ENTRY, Tensor
from tvmake.codegen.scheduling.light_intrinsics import light_intrinsics
from tvmake.codegen.scheduling.replay import replay
from tvmake.errors import MachineError
from tvmake.ir.dimensions import fix_dimensions
from tvmake.process.isolation import Refused, map_isolated
from tvmake.records.record import Record, Verdict
from tvmake.records.workload import Workload
from tvmake.storage.temporary import temporary_directory
from tvmake.targets.backends import backend_of, kernel_pipeline
from tvmake.targets.cpu.native import native_attributes
from tvmake.targets.kernels.memory import in_buffers, memory_scope
from tvmake.targets.weights.prepack import split
from tvmake.tune.measure.cuda.code import machine_code
from tvmake.tune.measure.machine_faults import check_machine
from tvmake.tune.verify.kernel_runner import KernelFailure, KernelRunner, LocalKernelRunner
from tvmake.tune.verify.tolerance import outputs, random_inputs, tolerance

REFERENCE_TIMEOUT_S = 600.0
"""Time limit of an unscheduled kernel on one core: the largest of a ResNet-50 takes seconds, in float16 ten times that."""

BUILD_LIMIT_S = 600
"""Time limit for building a scheduled kernel; large ones take some seconds."""

KERNEL, PACKING = "kernel.so", "packing.so"

REFERENCE_FILL, CHECKED_FILL = 0x00, 0xFF
"""Initial bytes of outputs: unwritten values then differ. 0xFF bytes are NaN as floats."""


class Checker:
    """Compare records of one kernel with the unscheduled kernel, which runs once on this machine's CPU.

    Args:
        points: the sizes of its dynamic dimensions at which it is checked.
    """

    def __init__(self, workload: Workload, runner: KernelRunner, seed: int = 0, points: Sequence[SizePoint] = ()):
        self.workload = workload
        self.runner = runner
        self.seed = seed
        self.points = points
        self._expected: list[_Expected] | None = None

    def check(self, record: Record) -> Verdict:
        """Build the record's kernel, run it on random inputs, and compare its outputs, at each point.

        A kernel that cannot be built, crashes, hangs or gives other values is wrong; the verdict has the reason.

        Raises:
            MachineError: the unscheduled kernel cannot be built or run here, or the machine lacks resources.
            DeviceError: the runner lost its device.
        """
        light_intrinsics(self.workload.target)
        make = partial(replay, self.workload, record.trace)
        try:
            expectations = self._expectations()
            with built_kernel(make, self.workload.target, self.runner.compiler) as built:
                found = [(expected, *self._compare(built, expected)) for expected in expectations]
        except Refused as error:
            check_machine(str(error))
            return _verdict(record, False, None, str(error))
        except KernelFailure as error:
            return _verdict(record, False, None, str(error))
        expected, number, largest = max(found, key=lambda entry: (entry[2].error > entry[0].bound, entry[2].error))
        right = largest.error <= expected.bound
        where = f"output {number}: " if len(expected.outputs) > 1 else ""
        where = f"with {describe_sizes(expected.sizes)}, {where}" if expected.sizes else where
        reason = largest.reason or f"off by {largest.error:.2g} of the RMS, {expected.bound:.2g} is allowed"
        return _verdict(record, right, largest.error, where + reason)

    def _compare(self, built: "BuiltKernel", expected: "_Expected") -> tuple[int, "Comparison"]:
        """The number and the comparison of the output with the largest error."""
        try:
            got = built.run(expected.function, expected.inputs, self.runner)
        except KernelFailure as failure:
            if not expected.sizes:
                raise
            raise KernelFailure(f"with {describe_sizes(expected.sizes)}, {failure}") from None
        worst = [
            compare(want, have, _step(want.dtype, expected.bound))
            for want, have in zip(expected.outputs, got, strict=True)
        ]
        return max(enumerate(worst), key=lambda pair: (pair[1].error > expected.bound, pair[1].error))

    def _expectations(self) -> "list[_Expected]":
        if self._expected is None:
            sizes = [point.sizes for point in self.points] or [{}]
            self._expected = _expectations(in_buffers(self.workload.module["main"]), sizes, self.seed)
        return self._expected


@dataclass(frozen=True)
class BuiltKernel:
    """A scheduled kernel in a directory, with the packing of its weights."""

    directory: Path
    packing: "_Packing"

    def run(
        self, unscheduled: "tvm.tirx.PrimFunc", inputs: Sequence[np.ndarray], runner: KernelRunner
    ) -> list[np.ndarray]:
        """Run it once.

        Args:
            unscheduled: the kernel without a schedule, which defines the arguments; its dynamic dimensions are fixed.
            inputs: its inputs; weights that the kernel packs are packed on this machine first.

        Raises:
            KernelFailure: the kernel crashes, hangs or raises an error.
            DeviceError: the device was lost.
        """
        arguments = list(inputs)
        if self.packing.places:
            weights = [inputs[place] for place in self.packing.places]
            packed = LocalKernelRunner().run(self.directory / PACKING, weights, self.packing.results, fill=0)
            for place, value in zip(self.packing.places, packed, strict=True):
                arguments[place] = value
        results = _tensors(outputs(unscheduled))
        scopes = [memory_scope(parameter) for parameter in unscheduled.params[: len(arguments)]]
        return runner.run(self.directory / KERNEL, arguments, results, CHECKED_FILL, scopes)


@contextmanager
def built_kernel(
    make: Callable[[], "tvm.tirx.PrimFunc"], target: "tvm.target.Target", compiler: str
) -> Iterator[BuiltKernel]:
    """Build a scheduled kernel in a fork, in a temporary directory.

    Args:
        make: returns the scheduled kernel; called in the fork.
        compiler: the compiler driver that links it.

    Raises:
        Refused: the kernel cannot be built.
    """
    with temporary_directory("tvmake-check-") as name:
        directory = Path(name)

        def build(_item: None) -> bytes:
            return _build_kernel(make(), target, directory, compiler)

        (answer,) = map_isolated([None], build, "it cannot be built", BUILD_LIMIT_S)
        if isinstance(answer, Refused):
            raise answer
        yield BuiltKernel(directory, _Packing.model_validate_json(answer))


def scheduled_outputs(
    make: Callable[[], "tvm.tirx.PrimFunc"],
    unscheduled: "tvm.tirx.PrimFunc",
    target: "tvm.target.Target",
    inputs: Sequence[np.ndarray],
    runner: KernelRunner,
) -> list[np.ndarray]:
    """Build a scheduled kernel in a fork, and run it once (:meth:`BuiltKernel.run`).

    Args:
        make: returns the scheduled kernel; called in the fork.

    Raises:
        Refused: the kernel cannot be built.
        KernelFailure: the kernel crashes, hangs or raises an error.
        DeviceError: the device was lost.
    """
    with built_kernel(make, target, runner.compiler) as built:
        return built.run(unscheduled, inputs, runner)


@dataclass(frozen=True)
class Comparison:
    """The difference of two outputs."""

    error: float
    """Largest difference of two values, relative to the reference's RMS, or to the value if it is larger; infinite if they are not
    comparable."""
    reason: str | None = None
    """The problem, if the error does not describe it."""


def compare(expected: np.ndarray, got: np.ndarray, step: float = 0.0) -> Comparison:
    """Compare a kernel's output with the reference's.

    Infinite values and NaN are correct if the reference has the same.

    Args:
        step: differences up to this are ignored.
    """
    want, have = (np.asarray(values, np.float64) for values in (expected, got))
    finite = np.isfinite(want)
    if not np.array_equal(want[~finite], have[~finite], equal_nan=True):
        return Comparison(np.inf, "it is finite where the reference is not")
    if bad := int(np.count_nonzero(~np.isfinite(have[finite]))):
        return Comparison(np.inf, f"{bad} of {have.size} values are NaN, infinite or were never written")
    want, have = want[finite], have[finite]
    if not want.size:
        return Comparison(0.0)
    scale = np.maximum(np.sqrt(np.mean(np.square(want))), np.abs(want))
    difference = np.abs(want - have)
    difference[difference <= step] = 0
    worst = np.divide(difference, scale, out=np.where(difference > 0, np.inf, 0.0), where=scale > 0)
    error = float(worst.max())
    return Comparison(error, None if np.isfinite(error) else "it is not zero where the reference is")


@dataclass(frozen=True)
class _Expected:
    function: "tvm.tirx.PrimFunc"
    """The unscheduled kernel with fixed dimensions."""
    sizes: Mapping[str, int]
    """The sizes of its dynamic dimensions."""
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    bound: float


def _step(dtype: np.dtype, bound: float) -> float:
    """Return the largest difference by rounding: floats rounded to 8- or 16-bit integers may fall on either side of a half."""
    return 1.0 if bound and dtype.kind in "iu" and dtype.itemsize <= 2 else 0.0


class _BuildError(Refused):
    """A kernel that cannot be compiled."""


class _Packing(BaseModel):
    """Packed weights of a kernel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    places: tuple[int, ...] = ()
    """Indices of the arguments."""
    results: tuple[Tensor, ...] = ()


def _expectations(function: "tvm.tirx.PrimFunc", sizes: Sequence[Mapping[str, int]], seed: int) -> list[_Expected]:
    """Inputs and the outputs of the unscheduled kernel for each size of its dynamic dimensions."""
    host = tvm.target.Target({"kind": "llvm", **native_attributes()})
    runner = LocalKernelRunner(REFERENCE_TIMEOUT_S)
    try:
        with temporary_directory("tvmake-check-") as name:
            library = Path(name) / "reference.so"
            _build(function, host, runner.compiler, library)
            return [_expectation(function, point, library, runner, seed) for point in sizes]
    except (_BuildError, KernelFailure) as error:
        raise MachineError("checking a kernel", f"the unscheduled kernel gives no reference: {error}") from error


def _expectation(
    function: "tvm.tirx.PrimFunc", sizes: Mapping[str, int], library: Path, runner: KernelRunner, seed: int
) -> _Expected:
    """Inputs and outputs for one size, finite if possible."""
    fixed = fix_dimensions(function, sizes, sizes) if sizes else function
    for positive in (False, True):
        inputs = random_inputs(fixed, seed, positive)
        results = runner.run(library, inputs, _tensors(outputs(fixed)), REFERENCE_FILL)
        expected = _Expected(fixed, sizes, inputs, results, tolerance(fixed, positive))
        if all(np.isfinite(np.asarray(value, np.float64)).all() for value in results):
            break
    return expected


def _build_kernel(kernel: "tvm.tirx.PrimFunc", target: "tvm.target.Target", directory: Path, compiler: str) -> bytes:
    """Build a kernel and its packing of weights for this machine, in a fork; returns a _Packing as JSON."""
    packing = _Packing()
    if parts := split(kernel):
        kernel = parts.compute
        host = tvm.target.Target({"kind": "llvm"})
        _build(parts.packing, host, LocalKernelRunner().compiler, directory / PACKING)
        packing = _Packing(
            places=tuple(parts.packed), results=tuple(_tensors(parts.packing.params[len(parts.packed) :]))
        )
    _build(kernel, target, compiler, directory / KERNEL)
    return packing.model_dump_json().encode()


def _build(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", compiler: str, library: Path) -> None:
    kernel = backend_of(target).finish_kernel(function)
    module = tvm.IRModule({ENTRY: kernel.with_attr("global_symbol", ENTRY)})
    try:
        with machine_code(target):
            built = tvm.tirx.build(module, target=target, pipeline=kernel_pipeline(target))
        built.export_library(str(library), cc=compiler)
    except (tvm.error.InternalError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise _BuildError(f"it cannot be built: {explain(error)}") from error


def _tensors(parameters: Sequence["tvm.tirx.Var"]) -> list[Tensor]:
    return [
        Tensor(
            dtype=str(parameter.ty.dtype),
            shape=tuple(int(extent) for extent in parameter.ty.shape),
            scope=memory_scope(parameter),
        )
        for parameter in parameters
    ]


def _verdict(record: Record, right: bool, error: float | None, reason: str) -> Verdict:
    return Verdict(
        record=record.digest,
        right=right,
        worst_error=error if error is not None and np.isfinite(error) else None,
        reason=reason,
        checked_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
