"""best.json: the record to build each of a variant's kernels with, or the reason why it has none."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.records.record import Record
from tvmake.storage.documents import FailsFast


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class BestKernel(_File):
    """One kernel of a variant."""

    workload: str
    """The workload's key (``tvmake.records.workload``)."""
    name: str
    """The kernel's name in the model."""
    calls: int = Field(ge=0)
    """How often the model calls it: its weight."""
    flops: float = Field(ge=0)
    """Arithmetic operations of one call."""
    record: Record | None = None
    """The fastest record with a correct output."""
    latency_ms: float | None = Field(default=None, gt=0)
    """The median of the record's samples, in ms; of the comparison's samples if the record was compared with others."""
    trials: int = Field(default=0, ge=0)
    """How many candidates were measured."""
    curve: tuple[tuple[int, float], ...] = ()
    """The trials that improved on all before: trial number and latency in ms."""
    reason: str | None = None
    """Why there is no record."""


class BestSet(_File):
    """The output of pick_best: one file per variant."""

    schema_version: Literal[1] = 1
    target: str
    """The target as canonical JSON."""
    generation: str
    """TVM's release."""
    device_class: str
    """What the devices share on which the records were measured."""
    kernels: tuple[BestKernel, ...]

    def by_workload(self) -> dict[str, BestKernel]:
        """The kernels by workload key."""
        return {kernel.workload: kernel for kernel in self.kernels}
