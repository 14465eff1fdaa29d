"""Descriptions of a kernel for the processes that build and time it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmake.config.tuning import TrialMeasurement

if TYPE_CHECKING:
    pass

ENTRY = "main"
"""The kernel's name in its module and library."""

CUDA = "cuda"
"""The runtime's name for NVIDIA's GPUs."""

TIMER = "timer"
"""Key of a record's conditions: the timing method of CUDA kernels."""

GRAPH, LAUNCHES = "CUDA graph", "launches"
"""The timing methods: many launches in a graph, or single launches, which take the processor 4 µs each."""


@dataclass(frozen=True)
class TensorSpec:
    """One argument of a kernel."""

    dtype: str
    shape: tuple[int, ...]
    scope: str = "global"
    """Memory scope: ``global`` is a buffer, ``global.texture…`` an image."""

    @classmethod
    def of(cls, info: Any, scope: str = "global") -> "TensorSpec":
        """Convert MetaSchedule's ``ArgInfo``.

        Raises:
            ValueError: the argument is not a tensor.
        """
        kind, *rest = info.as_json()
        if kind != "TENSOR":
            raise ValueError(f"arguments of kind {kind} cannot be measured")
        dtype, shape = rest
        return cls(str(dtype), tuple(int(extent) for extent in shape), scope)


@dataclass(frozen=True)
class ArgumentSet:
    """All arguments of a kernel for one size of its dynamic dimensions."""

    tensors: tuple[TensorSpec, ...]
    weight: float = 1.0
    """Weight of the time with these arguments in the kernel's time."""


def weighted_samples(
    samples: Sequence[Sequence[float]], sets: Sequence[ArgumentSet]
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Samples of a kernel: the weighted sum of each repeat, and, if there are several sets of arguments, those of each."""
    if len(sets) == 1:
        return tuple(samples[0]), ()
    weights = [arguments.weight for arguments in sets]
    total = sum(weights)
    combined = tuple(
        sum(weight * sample for weight, sample in zip(weights, repeat, strict=True)) / total
        for repeat in zip(*samples, strict=True)
    )
    return combined, tuple(map(tuple, samples))


@dataclass(frozen=True)
class Loop:
    """Parameters of TVM's measurement loop."""

    number: int
    repeat: int
    min_repeat_ms: int
    cooldown_ms: int

    @classmethod
    def of(cls, options: TrialMeasurement) -> "Loop":
        """Convert from the config; TVM takes integer milliseconds, so fractions are rounded up."""
        return cls(options.number, options.repeat, _whole(options.min_repeat_ms), _whole(options.cooldown_ms))


def _whole(milliseconds: float) -> int:
    return int(-(-milliseconds // 1))
