"""A record: one candidate schedule, how it was found, and what measuring it gave."""

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
from tvmake.storage.files import canonical_json, digest_bytes

Status = Literal["ok", "build_error", "run_error", "timeout", "wrong_output", "device_lost"]
"""What became of a candidate. ``wrong_output`` is found later, when a winner is checked."""

Generation = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$", max_length=80)]
"""A TVM release; becomes a directory."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A full sha256 as hex."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TuningContext(_Line):
    """Where records are valid: never mixed, because a schedule for one target is wrong or slow for another."""

    generation: Generation
    """TVM's release (``tvm-0.27.0.post1``): traces are replayed by primitive and attribute name."""
    target: str
    """The target as canonical JSON (``tvmake.records.workload.target_identity``)."""
    device_class: str
    """What equal devices share: SoC or CPU model, and threads."""

    @property
    def digest(self) -> str:
        """sha256 of the place."""
        return digest_bytes(canonical_json(self.model_dump()).encode())


class Measured(_Line):
    """A record without its trace: what is read of every record."""

    status: Status
    samples_s: tuple[float, ...] = ()
    """Seconds per run, one value per repeat; empty unless ``ok``."""
    error: str | None = None
    """The telling line, unless ``ok``."""
    measured_at: str
    """UTC, ISO 8601."""
    device: Fingerprint
    strategy: str
    cost_model: str
    seed: int
    batch: int = Field(ge=0)
    """Which batch of its job the candidate was in."""
    conditions: dict[str, str] = Field(default_factory=dict)
    """What was seen of the device before and after: its temperature and governor, what was done, and whether heat slowed it
    down, where it is conditioned; for CUDA how the time was taken (``timer``). Not written where it is empty."""

    @model_serializer(mode="wrap")
    def _written(self, plainly: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = plainly(self)
        if not self.conditions:
            written.pop("conditions", None)
        return written


class Record(Measured):
    """One candidate as it was measured."""

    trace: Any
    """The schedule as MetaSchedule's trace JSON; replaying it on the workload gives the kernel."""

    @property
    def digest(self) -> str:
        """sha256 of the record: its name."""
        return digest_bytes(canonical_json(self.model_dump(mode="json")).encode())


class Verdict(_Line):
    """What a later check of a record's output on its device found."""

    record: Digest
    """The record's digest."""
    right: bool
    worst_error: float | None = None
    """Largest absolute difference from the unscheduled kernel, as a share of its output's RMS; None if not finite."""
    reason: str
    checked_at: str
    """UTC, ISO 8601."""

    @field_validator("worst_error")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None


class Comparison(_Line):
    """Candidates that were timed again, in turns: a machine's slow and fast minutes fall to all of them alike."""

    samples_s: dict[Digest, tuple[float, ...]]
    """Seconds per run of each record, by its digest; none where it failed this time."""
    compared_at: str
    """UTC, ISO 8601."""
    device: Fingerprint

    @property
    def digest(self) -> str:
        """sha256 of the comparison: its name."""
        return digest_bytes(canonical_json(self.model_dump(mode="json")).encode())


def current_generation() -> str:
    """The installed TVM's generation, without loading TVM."""
    return f"tvm-{metadata.version('apache-tvm')}"
