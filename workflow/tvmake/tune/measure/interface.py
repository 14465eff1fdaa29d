"""The interface of a measurer: candidates in, what became of each out."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tvmake.records.record import Status
from tvmake.targets.kernels.memory import memory_scope
from tvmake.tune.measure.kernel import TensorSpec

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Candidate:
    """One scheduled kernel to measure."""

    number: int
    """The caller's name for it; unique among the candidates measured together."""
    module: "tvm.IRModule"
    """The scheduled kernel as ``main``, postprocessors applied (``candidate.sch.mod``)."""
    args_info: Sequence[object]
    """MetaSchedule's ``ArgInfo`` of every argument of ``main`` (``candidate.args_info``)."""

    def tensors(self) -> tuple[TensorSpec, ...]:
        """The arguments, in order."""
        scopes = [memory_scope(parameter) for parameter in self.module["main"].params]
        return tuple(TensorSpec.of(info, scope) for info, scope in zip(self.args_info, scopes, strict=True))


@dataclass(frozen=True)
class Measured:
    """What became of a candidate."""

    number: int
    status: Status
    """``ok``, ``build_error``, ``run_error``, ``timeout`` or ``device_lost`` (which says nothing about the candidate)."""
    samples_s: tuple[float, ...] = ()
    """Seconds per run, one value per repeat; empty unless ``ok``."""
    error: str | None = None
    """One telling line, unless ``ok``."""
    build_s: float = 0.0
    """Seconds it took to build and link."""
    run_s: float = 0.0
    """Seconds it took to load and time, without waiting for the device."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """What was seen of the device before and after (:mod:`tvmake.device.conditioning.controls`) where it is conditioned, and how the
    time of a CUDA kernel was taken (:data:`tvmake.tune.measure.kernel.TIMER`)."""


class Measurer(Protocol):
    """Builds and times candidates; whatever they do, the caller's process goes on."""

    def measure(self, candidates: Sequence[Candidate]) -> Generator[Measured, None, None]:
        """Yield every candidate's result as soon as there is one, in any order.

        Closing the iterator early stops what is under way.

        Raises:
            DeviceError: there is no device to measure on.
            MachineError: processes or files cannot be made here.
        """
        ...

    def close(self) -> None:
        """End every process and remove every file. A measurer that was closed is of no use any more."""
        ...
