"""best.json: the record that a build may use for each of a variant's kernels, and why some have none."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.records.record import Record
from tvmake.storage.documents import FailsFast


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class BestKernel(_File):
    """One kernel of a variant."""

    workload: str
    """Its identity (``tvmake.records.workload``)."""
    name: str
    """What the model calls it."""
    calls: int = Field(ge=0)
    """How often the model calls it (its weight)."""
    flops: float = Field(ge=0)
    """Arithmetic operations of one call."""
    record: Record | None = None
    """The fastest record whose output is right."""
    latency_ms: float | None = Field(default=None, gt=0)
    """Its latency in ms: the median of its samples, where it was compared with others those of the comparison."""
    trials: int = Field(default=0, ge=0)
    """How many candidates were measured."""
    curve: tuple[tuple[int, float], ...] = ()
    """Where the search got better: trial number and latency in ms."""
    reason: str | None = None
    """Why there is no record."""


class BestSet(_File):
    """What pick_best writes; one file a variant."""

    schema_version: Literal[1] = 1
    target: str
    """The target as canonical JSON."""
    generation: str
    """TVM's release."""
    device_class: str
    """What the devices have in common that the records were measured on."""
    kernels: tuple[BestKernel, ...]

    def by_workload(self) -> dict[str, BestKernel]:
        """The kernels by their identity."""
        return {kernel.workload: kernel for kernel in self.kernels}
