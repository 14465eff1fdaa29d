"""A kernel, as the processes that build and time it describe it to each other."""

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
"""What records of CUDA kernels say among their conditions: how the time was taken."""

GRAPH, LAUNCHES = "CUDA graph", "launches"
"""The ways: many launches of a kernel in a graph, or one after the other, each of which takes the processor 4 µs."""


@dataclass(frozen=True)
class TensorSpec:
    """One argument of a kernel."""

    dtype: str
    shape: tuple[int, ...]
    scope: str = "global"
    """The memory it is in: ``global`` is a buffer, ``global.texture…`` an image."""

    @classmethod
    def of(cls, info: Any, scope: str = "global") -> "TensorSpec":
        """From MetaSchedule's ``ArgInfo``, of which TVM has one kind.

        Raises:
            ValueError: it is not a tensor.
        """
        kind, *rest = info.as_json()
        if kind != "TENSOR":
            raise ValueError(f"arguments of kind {kind} cannot be measured")
        dtype, shape = rest
        return cls(str(dtype), tuple(int(extent) for extent in shape), scope)


@dataclass(frozen=True)
class Loop:
    """TVM's measurement loop, in its own terms and types."""

    number: int
    repeat: int
    min_repeat_ms: int
    cooldown_ms: int

    @classmethod
    def of(cls, options: TrialMeasurement) -> "Loop":
        """From the config; TVM counts whole milliseconds, so parts of one are rounded up."""
        return cls(options.number, options.repeat, _whole(options.min_repeat_ms), _whole(options.cooldown_ms))


def _whole(milliseconds: float) -> int:
    return int(-(-milliseconds // 1))
