"""The files of tuning tasks: a variant's kernels, and the trials for each kernel of a target."""

from pydantic import BaseModel, ConfigDict, Field

from tvmake.artifact.size_points import SizePoint
from tvmake.storage.documents import FailsFast

DYNAMIC = "its shapes are dynamic, and such kernels are tuned for CPUs and GPUs only"
"""Why a kernel with dynamic dimensions is not tuned."""


class _File(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Task(_File):
    """One kernel of a variant."""

    workload: str
    """Its identity: sha256 over structure, buffers, target and TVM generation."""
    names: list[str]
    """The functions of the fused module that are this kernel."""
    calls: int
    """How often the model calls it (its weight)."""
    flops: float
    """Floating point operations of one call; with dynamic dimensions, the weighted mean over ``points``."""
    trivial: str | None = None
    """Why it is not tuned; None for a kernel that is."""
    points: tuple[SizePoint, ...] = Field(default=(), exclude_if=lambda points: not points)
    """Sizes of its dynamic dimensions at which candidates are measured. Not written without dynamic dimensions."""


class TaskList(_File):
    """The output of the extract stage."""

    schema_version: int = 1
    target: str
    """The target as canonical JSON."""
    generation: str
    tasks: list[Task]


class KernelBudget(_File):
    """One kernel's share of the trials."""

    name: str
    trials: int = Field(ge=0)
    """The number of measured candidates at the end of this round, including earlier runs."""
    users: list[str]
    """The variants that contain it, as ``model/precision``."""
    points: tuple[SizePoint, ...] = Field(default=(), exclude_if=lambda points: not points)
    """Sizes of its dynamic dimensions at which candidates are measured. Not written without dynamic dimensions."""


class Budget(_File):
    """The output of the budget stage: every kernel to tune for a target, most expensive first."""

    schema_version: int = 1
    target_name: str
    number: int
    kernels: dict[str, KernelBudget]
    """By workload."""
    trials_shared: int
    """Trials saved because variants share kernels."""
