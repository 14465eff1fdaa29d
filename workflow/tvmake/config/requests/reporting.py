"""Options of the report stage."""

from typing import Literal

from tvmake.config.validation import Goals
from tvmake.options import Strict
from tvmake.transform.options import Layout


class VariantRow(Strict):
    """One variant and where its results lie; None for stages that were not asked for."""

    model: str
    precision: str
    target: str
    device: str | None = None
    is_tuned: bool = False
    is_calibrated: bool = False
    """Whether its activations are held in 8 bits, by ranges that calibration found."""
    is_precision_chosen: bool = False
    """Whether the precision of each of its layers was chosen by measuring."""
    layout: Layout | Literal["auto"] = "keep"
    """``auto`` for one that has chosen its data layout by measuring."""
    goals: Goals = Goals()
    """Those of latency, memory and size; numerics are judged where they are measured."""


class ReportRequest(Strict):
    """What the report covers."""

    results: str
    variants: list[VariantRow]
    title: str | None = None
    """Heading of the page; the directory's name when left out."""
