"""The result of a search for the first wrong operator, and a directory of it for a bug report."""

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from tvmake.artifact.tensor_file import write_array
from tvmake.storage.files import atomic_directory, write_text

Level = Literal["import", "transform", "build", "device"]
Cause = Literal[
    "model", "importer", "rounding", "precision", "pass", "lowering", "schedule", "code generator or driver", "runtime"
]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LevelFigures(_Record):
    """The network's error relative to the source model after one stage, for one sample."""

    level: Level
    error: float | None
    """Largest difference of an output, relative to its RMS; None if not finite."""
    missed: list[str]
    """The missed goals, in words; the import is judged by those of float32."""


class LayerNoise(_Record):
    """A layer's contribution to the noise at the outputs if only this layer is in 8 bits."""

    operator: str
    values: list[str]
    """Its results: several if layers share a weight."""
    share: float
    """The share of the noise of all layers."""


class Finding(_Record):
    """The first operator that departs; for a precision that is too coarse for the whole network, the one with the highest cost."""

    cause: Cause
    operator: str
    """The wrong operator: a node of the source model, an operator of Relax, or a kernel."""
    value: str
    """The value's name in its graph."""
    shape: tuple[int, ...]
    dtype: str
    error: float | None
    """Largest difference to the correct value, relative to the RMS; None if not finite."""
    departs: bool = True
    """Whether it departs more than others; if none does, the last operator is reported."""
    detail: str
    """The problem, in a line."""
    remedy: str
    """The remedy, in a line."""
    layers: list[LayerNoise] = []
    """For a network in 8 bits: its layers, the one with the highest cost first."""


class Diagnosis(_Record):
    """The result of `tvmake debug`."""

    variant: str
    sample: int
    """The reference's sample that was examined: the one with the largest error."""
    samples: int
    levels: list[LevelFigures]
    """In the order of the pipeline, up to the first stage that misses the goals if the package does."""
    finding: Finding | None
    """None if no stage departs from the original model."""
    missed: list[str] = []
    """The goals that the package misses, over all samples; without a finding, the original model or its data misses them."""


@dataclass(frozen=True)
class Evidence:
    """The files of a reproducer, except the diagnosis."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """``input0`` …, ``expected0`` …, ``got`` …"""
    texts: dict[str, str] = field(default_factory=dict)
    """By file name: kernels and modules."""


DIAGNOSIS, VALUES = "diagnosis.json", "values.npz"


def write_reproducer(diagnosis: Diagnosis, evidence: Evidence, directory: Path) -> None:
    """Write ``diagnosis.json``, ``values.npz`` (the operator's inputs, expected and actual outputs) and its code.

    It contains no weights except the operator's, and nothing else of the network.

    Raises:
        MachineError: it cannot be written.
    """
    with atomic_directory(directory) as temporary:
        write_text(temporary / DIAGNOSIS, diagnosis.model_dump_json(indent=1) + "\n")
        for name, text in evidence.texts.items():
            write_text(temporary / name, text)
        with zipfile.ZipFile(temporary / VALUES, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in evidence.arrays.items():
                write_array(archive, f"{name}.npy", array)
