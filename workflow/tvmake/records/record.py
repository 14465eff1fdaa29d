"""A record: one candidate schedule, how it was found, and its measurement."""

import math
from importlib import metadata
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    field_validator,
    model_serializer,
)

from tvmake.artifact.fingerprint import Fingerprint
from tvmake.artifact.size_points import SizePoint
from tvmake.storage.files import canonical_json, digest_bytes

Status = Literal["ok", "build_error", "run_error", "timeout", "wrong_output", "device_lost"]
"""The outcome of a candidate. ``wrong_output`` is set later, when a winner is checked."""

Generation = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=80)]
"""A TVM release; also a directory name."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A full sha256 as hex."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TuningContext(_Line):
    """The conditions under which records are valid. A schedule for one target is wrong or slow for another."""

    generation: Generation
    """TVM's release (``tvm-0.27.0.post1``): traces are replayed by primitive and attribute name."""
    target: str
    """The target as canonical JSON (``tvmake.records.workload.target_identity``)."""
    device_class: str
    """What interchangeable devices share: SoC or CPU model, and threads."""

    @property
    def digest(self) -> str:
        """sha256 of the context."""
        return digest_bytes(canonical_json(self.model_dump()).encode())


class PointSamples(SizePoint):
    """The samples of a candidate at one size of its dynamic dimensions."""

    samples_s: tuple[float, ...] = ()
    """Seconds per run, one value per repeat; empty unless ``ok``."""

    @property
    def point(self) -> SizePoint:
        """The size, without the samples."""
        return SizePoint(sizes=self.sizes, weight=self.weight)


class Measurement(_Line):
    """A record without its trace, which most readers do not need."""

    status: Status
    samples_s: tuple[float, ...] = ()
    """Seconds per run, one value per repeat; empty unless ``ok``. With dynamic dimensions, the weighted sum over ``points``."""
    error: str | None = None
    """The line of the failure's output that explains it, unless ``ok``."""
    measured_at: str
    """UTC, ISO 8601."""
    device: Fingerprint
    strategy: str
    cost_model: str
    seed: int
    batch: int = Field(ge=0)
    """The number of the job's batch that had this candidate."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """The device's state before and after: temperature, governor, conditioning and thermal throttling; for CUDA the
    ``timer``. Not written if empty."""
    points: tuple[PointSamples, ...] = Field(default=(), exclude_if=lambda points: not points)
    """For a kernel with dynamic dimensions, the sizes at which it was measured. Not written if empty."""

    @model_serializer(mode="wrap")
    def _omit_empty(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        if not self.conditions:
            fields.pop("conditions", None)
        return fields


class Record(Measurement):
    """One measured candidate."""

    trace: Any
    """The schedule as MetaSchedule's trace JSON; replaying it on the workload gives the kernel."""

    @property
    def digest(self) -> str:
        """sha256 of the record: its name."""
        return digest_bytes(canonical_json(self.model_dump(mode="json")).encode())


class Verdict(_Line):
    """The result of a later check of a record's output on its device."""

    record: Digest
    """The record's digest."""
    right: bool
    worst_error: float | None = None
    """Largest absolute difference from the unscheduled kernel, relative to its output's RMS; None if not finite."""
    reason: str
    checked_at: str
    """UTC, ISO 8601."""

    @field_validator("worst_error")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None


class Comparison(_Line):
    """Candidates that were timed again, interleaved, so that the machine's load affects all of them alike."""

    samples_s: dict[Digest, tuple[float, ...]]
    """Seconds per run of each record, by its digest; empty if it failed this time."""
    compared_at: str
    """UTC, ISO 8601."""
    device: Fingerprint
    points: dict[Digest, tuple[PointSamples, ...]] = Field(default_factory=dict, exclude_if=lambda points: not points)
    """The samples of each record of a kernel with dynamic dimensions at each size. Not written if empty."""

    @property
    def digest(self) -> str:
        """sha256 of the comparison: its name."""
        return digest_bytes(canonical_json(self.model_dump(mode="json")).encode())


def current_generation() -> str:
    """The installed TVM's generation, without loading TVM."""
    return f"tvm-{metadata.version('apache-tvm')}"
