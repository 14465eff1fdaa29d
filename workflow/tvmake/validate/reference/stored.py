"""Inputs, the reference's outputs and labels in one file, computed once per model and read by all validations.

A tensor file (``tvmake.artifact.tensor_file``) with the kinds ``input``, ``output`` and, with labels, ``labels`` or
``truth``, and ``reference_set.json``, which describes them. Equal content is equal bytes.
"""

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tvmake.artifact.signature import Signature
from tvmake.artifact.tensor_file import DAMAGE, entry, member, read_array, write_array
from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast, parse
from tvmake.storage.files import atomic_path

DESCRIPTION = "reference_set.json"


class ReferenceSetInfo(FailsFast, BaseModel):
    """The description of a reference set. ``samples`` counts calls of the model, ``labelled`` the images with labels."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    signature: Signature
    runtime: str
    data: Literal["dataset", "random"]
    seed: int
    label_names: list[str] = []
    truth: list[str] = []
    samples: int = 0
    labelled: int = 0
    steps: int = Field(default=0, exclude_if=lambda value: not value)
    """Samples in a sequence, with each of which states restart; 0: all are one."""
    continued: int = Field(default=0, exclude_if=lambda value: not value)
    """The first samples that are a language model's own tokens after a prompt."""
    why_not: str = ""
    """Why there are fewer samples than requested, or none."""


@dataclass(frozen=True)
class ReferenceSample:
    """One call: inputs and reference outputs by their names in the source, labels int64 [batch] or None, and
    further arrays of the dataset by key."""

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    labels: np.ndarray | None
    truth: dict[str, np.ndarray] = field(default_factory=dict)


def write_reference_set(
    destination: Path, info: ReferenceSetInfo, samples: Iterable[ReferenceSample]
) -> ReferenceSetInfo:
    """Write samples as they are computed, atomically; returns ``info`` with the counts.

    Raises:
        InputError: there are no samples, and ``info`` has no reason.
        MachineError: the disk is full or cannot be written.
    """
    count = labelled = 0
    with atomic_path(destination) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for count, sample in enumerate(samples, 1):
            _write_tensors(archive, count - 1, input=sample.inputs, output=sample.outputs, truth=sample.truth)
            if sample.labels is not None:
                write_array(archive, member("labels", None, count - 1), sample.labels)
                labelled += len(sample.labels)
        if not count and not info.why_not:
            raise InputError(str(destination), "no samples to compare", "raise `samples`, or the dataset's `limit`")
        info = info.model_copy(update={"samples": count, "labelled": labelled})
        archive.writestr(entry(DESCRIPTION), info.model_dump_json(indent=1).encode())
    return info


def write_samples(destination: Path, samples: Iterable[ReferenceSample]) -> None:
    """Write inputs and outputs only, for a package's self-test."""
    with zipfile.ZipFile(destination, "w", zipfile.ZIP_STORED) as archive:
        for number, sample in enumerate(samples):
            _write_tensors(archive, number, input=sample.inputs, output=sample.outputs)


def _write_tensors(archive: zipfile.ZipFile, number: int, **kinds: dict[str, np.ndarray]) -> None:
    for kind, tensors in kinds.items():
        for name, array in tensors.items():
            write_array(archive, member(kind, name, number), array)


class ReferenceSet:
    """A reference set on disk; iterating reads one sample at a time."""

    def __init__(self, path: Path):
        """Open ``path``.

        Raises:
            InputError: the file is missing, or is not a reference set of this version.
        """
        self.path = Path(path)
        try:
            with zipfile.ZipFile(self.path) as archive:
                self.info = parse(ReferenceSetInfo, archive.read(DESCRIPTION))
        except FileNotFoundError:
            raise InputError(str(path), "no such file", "run the reference stage") from None
        except (*DAMAGE, ValidationError) as error:
            raise InputError(
                str(path),
                f"not a reference set ({type(error).__name__})",
                "delete it and run the reference stage again",
            ) from None

    def __len__(self) -> int:
        return self.info.samples

    @property
    def sequence_length(self) -> int:
        """The number of samples in the first sequence; 0 for a model without states."""
        if not self.info.signature.states:
            return 0
        return min(self.info.steps or len(self), len(self))

    def __iter__(self) -> Iterator[ReferenceSample]:
        with zipfile.ZipFile(self.path) as archive:
            members = set(archive.namelist())
            for number in range(len(self)):
                inputs, outputs = self._tensors(archive, number)
                has_labels = member("labels", None, number) in members
                labels = self._read(archive, "labels", None, number, "int64") if has_labels else None
                truth = {key: self._read(archive, "truth", key, number, None) for key in self.info.truth}
                yield ReferenceSample(inputs, outputs, labels, truth)

    def _tensors(self, archive: zipfile.ZipFile, number: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        signature = self.info.signature
        inputs, outputs = (
            {spec.name: self._read(archive, kind, spec.name, number, spec.dtype) for spec in specs}
            for kind, specs in (("input", signature.inputs), ("output", signature.outputs))
        )
        return inputs, outputs

    def _read(
        self, archive: zipfile.ZipFile, kind: str, name: str | None, number: int, dtype: str | None
    ) -> np.ndarray:
        try:
            return read_array(archive, member(kind, name, number), dtype)
        except DAMAGE as error:
            raise InputError(
                str(self.path),
                f"{member(kind, name, number)} cannot be read ({error})",
                "delete it and run the reference stage again",
            ) from None
