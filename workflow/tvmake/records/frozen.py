"""The part of run.lock that stages read: the tuning records, layouts and precisions of a run.

It is a file part of its own because no other part of a lock changes a stage's result.
"""

from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from tvmake.errors import InputError
from tvmake.quantize.precision import LayerAssignment
from tvmake.records.record import Digest, Generation, TuningContext
from tvmake.storage import documents
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import canonical_json
from tvmake.storage.permissions import unreadable_error
from tvmake.storage.plain_files import open_plain
from tvmake.transform.options import Layout

Part = TypeVar("Part", bound=BaseModel)

SCHEMA_VERSION: Final = 1

MOST_BYTES = 256 << 20
"""A lock is read as a whole; one of a hundred variants has a few MB."""


class LockedKernel(FailsFast, BaseModel):
    """A kernel of a run's best.json, with its record by digest."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str
    """The kernel's name in the model."""
    workload: Digest
    record: Digest | None = None
    latency_ms: float | None = None
    trials: int = Field(ge=0)
    """How many candidates were measured when the lock was written."""
    curve: tuple[tuple[int, float], ...]
    """The trials that improved on all before: trial number and latency in ms."""
    reason: str | None = None
    """Why there is no record."""


class LockedRecords(FailsFast, BaseModel):
    """The records of one variant."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    generation: Generation
    """TVM's release."""
    target: JsonValue
    device_class: str
    kernels: tuple[LockedKernel, ...]

    @property
    def context(self) -> TuningContext:
        """The context of the records."""
        return TuningContext(
            generation=self.generation, target=canonical_json(self.target), device_class=self.device_class
        )


class LockedInputs(FailsFast, BaseModel):
    """The parts of a lock that stages read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_version: Literal[1]
    records: dict[str, LockedRecords]
    layouts: dict[str, Layout]
    assignments: dict[str, LayerAssignment] = {}

    def records_of(self, variant: str, lock: Path) -> LockedRecords:
        """The records of a variant (``model/precision/target``).

        Raises:
            InputError: the variant was not tuned when the lock was written.
        """
        if variant not in self.records:
            raise InputError(str(lock), f"has no records of {variant}", f"tuned are {_join_names(self.records)}")
        return self.records[variant]

    def layout_of(self, variant: str, lock: Path) -> Layout:
        """The data layout of a variant whose layout was chosen by measurement.

        Raises:
            InputError: the lock has no layout of this variant.
        """
        if variant not in self.layouts:
            raise InputError(
                str(lock), f"has no data layout of {variant}", f"layouts exist for {_join_names(self.layouts)}"
            )
        return self.layouts[variant]

    def assignment_of(self, variant: str, lock: Path) -> LayerAssignment:
        """The precision of each layer of a variant whose precisions were chosen by measurement.

        Raises:
            InputError: the lock has no precisions of this variant.
        """
        if variant not in self.assignments:
            problem = f"has no layer precisions of {variant}"
            raise InputError(str(lock), problem, f"layer precisions exist for {_join_names(self.assignments)}")
        return self.assignments[variant]


class _Version(FailsFast, BaseModel):
    model_config = ConfigDict(extra="ignore")

    schema_version: JsonValue = None
    written_by: JsonValue = None


def read_frozen(lock: Path) -> LockedInputs:
    """The records and layouts of a lock.

    Raises:
        InputError: the file is missing, damaged or has another schema version.
    """
    return parse(LockedInputs, read_bytes(lock), str(lock))


def read_bytes(lock: Path) -> bytes:
    """A lock's bytes.

    Raises:
        InputError: it cannot be read, or is too large to be a lock.
    """
    try:
        with open_plain(lock) as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise InputError(str(lock), "no such lock", "`tvmake lock` writes one after `tvmake make`") from None
    except OSError as error:
        raise unreadable_error(lock, error) from None
    if len(data) > MOST_BYTES:
        raise InputError(str(lock), f"is not a lock: larger than {MOST_BYTES >> 20} MiB")
    return data


def parse(kind: type[Part], data: bytes, where: str) -> Part:
    """Parse a lock, or a part of it, after checking its schema version.

    Raises:
        InputError: damaged, or another schema version.
    """
    remedy = "write it again with `tvmake lock`, or copy it again from where it came"
    try:
        head = documents.parse(_Version, data)
    except ValidationError:
        raise InputError(where, "is not a lock, or truncated: not a JSON object", remedy) from None
    if head.schema_version != SCHEMA_VERSION or isinstance(head.schema_version, bool):
        by = f" ({head.written_by[:40]})" if isinstance(head.written_by, str) else ""
        raise InputError(
            where,
            f"has schema version {canonical_json(head.schema_version)[:20]}, expected {SCHEMA_VERSION}",
            f"use the tvmake that wrote it{by}, or write one with `tvmake lock`",
        )
    try:
        return documents.parse(kind, data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(where, f"is damaged ({key}: {first['msg'].lower()})", remedy) from None


def _join_names(names: dict[str, Any]) -> str:
    return ", ".join(names) or "none"
