"""The result of calibration: the range of every tensor to quantise, and the layers that stay in float."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tvmake.storage.documents import FailsFast


class TensorRange(FailsFast, BaseModel):
    """The range of values that a tensor's 8 bits represent."""

    model_config = ConfigDict(extra="forbid")

    name: str
    """The tensor's name in the network, for people."""
    low: float
    high: float
    lowest: float
    """Of all samples."""
    highest: float


class Kept(FailsFast, BaseModel):
    """A convolution or matmul that stays in float32."""

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
    """The number of convolutions and matmuls that are computed in integers."""
    tables: int = 0
    """How many tables have rows in 8 bits."""
    shifts: list[list[float]] = Field(default_factory=list)
    """The bias correction of each channel of each convolution or matmul, in the network's order; empty without correction."""
    kept: list[Kept] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)

    def coverage(self, most: int | None = None) -> str:
        """The integer and float layers in one line, which names at most this many of the latter."""
        total = self.products + len(self.kept)
        tables = (
            f"; rows of {self.tables} {'tables' if self.tables > 1 else 'table'} are stored in 8 bits"
            if self.tables
            else ""
        )
        if not total:
            return f"int8: no convolutions or matmuls to quantise{tables}"
        if not self.kept:
            return f"int8: all convolutions and matmuls use integers ({total}){tables}"
        reasons: dict[str, list[str]] = {}
        for layer in self.kept:
            reasons.setdefault(layer.reason, []).append(f"{layer.operator} '{layer.name}'")
        named = [
            f"{', '.join(names[:most])}{f' and {len(names) - most} more (calibration.json)' if most and len(names) > most else ''} because {reason}"
            for reason, names in reasons.items()
        ]
        return f"int8: {self.products} of {total} convolutions and matmuls use integers; in float32: {'; '.join(named)}{tables}"
