"""What calibration found: the range of every tensor that is to be quantised, and what stays in float."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast


class TensorRange(FailsFast, BaseModel):
    """The numbers that a tensor's 8 bits have to stand for."""

    model_config = ConfigDict(extra="forbid")

    name: str
    """The tensor's name in the network, for people."""
    low: float
    high: float
    lowest: float
    """Of all samples."""
    highest: float


class Kept(FailsFast, BaseModel):
    """A product that stays in float32."""

    model_config = ConfigDict(extra="forbid")

    operator: str
    name: str
    reason: str


class Calibration(FailsFast, BaseModel):
    """The file ``calibration.json``."""

    model_config = ConfigDict(extra="forbid")

    data: Literal["dataset", "random"]
    samples: int
    method: str
    ranges: list[TensorRange]
    """In the order in which the network computes the tensors."""
    kept: list[Kept] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
