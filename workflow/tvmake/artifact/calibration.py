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
    """A convolution or product of matrices that stays in float32."""

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
    products: int = 0
    """How many convolutions and products of matrices are computed in integers."""
    tables: int = 0
    """How many tables have rows in 8 bits."""
    shifts: list[list[float]] = Field(default_factory=list)
    """What is taken off each channel of each product, in the network's order; empty where biases are not corrected."""
    kept: list[Kept] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)

    def coverage(self, most: int | None = None) -> str:
        """What is computed in integers and what is not, in one line that names at most so many of the latter."""
        total = self.products + len(self.kept)
        tables = (
            f"; rows of {self.tables} {'tables' if self.tables > 1 else 'table'} are held in 8 bits"
            if self.tables
            else ""
        )
        if not total:
            return f"int8: there are no convolutions or products to quantise{tables}"
        if not self.kept:
            return f"int8: all convolutions and products are integers ({total}){tables}"
        reasons: dict[str, list[str]] = {}
        for one in self.kept:
            reasons.setdefault(one.reason, []).append(f"{one.operator} '{one.name}'")
        named = [
            f"{', '.join(names[:most])}{f' and {len(names) - most} more (calibration.json)' if most and len(names) > most else ''} because {reason}"
            for reason, names in reasons.items()
        ]
        return (
            f"int8: {self.products} of {total} convolutions and products are integers; kept: {'; '.join(named)}{tables}"
        )
