"""What a search for the first wrong operator found."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

Level = Literal["import", "transform", "build", "device"]
Cause = Literal[
    "model", "importer", "rounding", "precision", "pass", "lowering", "schedule", "code generator or driver", "runtime"
]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LevelFigures(_Record):
    """How far the network is from the source model after one stage, for the sample looked at."""

    level: Level
    error: float | None
    """Largest difference of an output, as a share of its RMS; None where it is no number."""
    missed: list[str]
    """The goals that are missed, in words; the import is judged by those of float32."""


class LayerNoise(_Record):
    """What a layer makes of the noise at the outputs, where it alone is in 8 bits."""

    operator: str
    values: list[str]
    """Its results: several where layers have the same weight."""
    share: float
    """Of the noise of all layers."""


class Finding(_Record):
    """The first operator that departs; of a precision that is too coarse for the network as a whole, the one that costs most."""

    cause: Cause
    operator: str
    """What computes the wrong value: a node of the source model, an operator of Relax, or a kernel."""
    value: str
    """The value's name in its graph."""
    shape: tuple[int, ...]
    dtype: str
    error: float | None
    """Largest difference to the value that it should be, as a share of the RMS; None where it is no number."""
    departs: bool = True
    """Whether it departs more than others; where none does, the last operator is named."""
    detail: str
    """What is wrong, in a line."""
    remedy: str
    """What to do, in a line."""
    layers: list[LayerNoise] = []
    """Of a network in 8 bits: its layers, the one that costs most first."""


class Diagnosis(_Record):
    """The whole answer."""

    variant: str
    sample: int
    """Which of the reference's samples was looked at: the one with the largest error."""
    samples: int
    levels: list[LevelFigures]
    """In the order of the pipeline, up to the first that misses its goals if the package does."""
    finding: Finding | None
    """None where no stage departs from the original model."""
    missed: list[str] = []
    """The goals that the package misses, over all samples: those without a finding are the original model's, or of its data."""


@dataclass(frozen=True)
class Evidence:
    """What a reproducer holds beside the diagnosis."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    """``input0`` …, ``expected0`` …, ``got`` …"""
    texts: dict[str, str] = field(default_factory=dict)
    """By file name: kernels and modules."""
