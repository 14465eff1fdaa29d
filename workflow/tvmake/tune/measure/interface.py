"""The interface of measurers: from candidates to their results."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tvmake.artifact.size_points import SizePoint
from tvmake.codegen.dynamic_sizes import shape_at
from tvmake.records.record import Status
from tvmake.targets.kernels.memory import memory_scope
from tvmake.tune.measure.kernel import ArgumentSet, TensorSpec

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Candidate:
    """One scheduled kernel to measure."""

    number: int
    """The caller's name; unique among the candidates measured together."""
    module: "tvm.IRModule"
    """The scheduled kernel as ``main``, postprocessors applied (``candidate.sch.mod``)."""
    args_info: Sequence[object] = ()
    """MetaSchedule's ``ArgInfo`` of every argument of ``main`` (``candidate.args_info``); none with dynamic dimensions."""
    points: Sequence[SizePoint] = ()
    """The sizes of its dynamic dimensions at which it is timed."""

    def argument_sets(self) -> tuple[ArgumentSet, ...]:
        """The arguments for each point, or the only ones without dynamic dimensions."""
        parameters = self.module["main"].params
        scopes = [memory_scope(parameter) for parameter in parameters]
        if not self.points:
            tensors = [TensorSpec.of(info, scope) for info, scope in zip(self.args_info, scopes, strict=True)]
            return (ArgumentSet(tuple(tensors)),)
        return tuple(
            ArgumentSet(
                tuple(
                    TensorSpec(str(parameter.ty.dtype), shape_at(parameter, point.sizes), scope)
                    for parameter, scope in zip(parameters, scopes, strict=True)
                ),
                point.weight,
            )
            for point in self.points
        )


@dataclass(frozen=True)
class Measured:
    """The result of a candidate."""

    number: int
    status: Status
    """``ok``, ``build_error``, ``run_error``, ``timeout`` or ``device_lost`` (independent of the candidate)."""
    samples_s: tuple[float, ...] = ()
    """Seconds per run, one value per repeat; empty unless ``ok``. With several points, the weighted sum over them."""
    error: str | None = None
    """One descriptive line, unless ``ok``."""
    build_s: float = 0.0
    """Seconds to build and link."""
    run_s: float = 0.0
    """Seconds to load and time, without waiting for the device."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Conditions of the device before and after (:mod:`tvmake.device.conditioning.controls`) if it is conditioned, and the timing
    method of a CUDA kernel (:data:`tvmake.tune.measure.kernel.TIMER`)."""
    samples_by_point: tuple[tuple[float, ...], ...] = ()
    """Seconds per run at each of the candidate's points."""


def point_samples(measured: Measured, points: Sequence[SizePoint]) -> tuple[tuple[float, ...], ...]:
    """Seconds per run at each of the points of a working candidate."""
    return (measured.samples_s,) if len(points) == 1 else measured.samples_by_point


class Measurer(Protocol):
    """Builds and times candidates without endangering the caller's process."""

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        """Yield the results of all candidates as they become available, in any order.

        Closing the iterator early cancels running work.

        Raises:
            DeviceError: no device is available.
            MachineError: processes or files cannot be created.
        """
        ...

    def close(self) -> None:
        """End every process and remove every file. A closed measurer cannot be used again."""
        ...
