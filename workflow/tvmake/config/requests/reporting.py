"""Options of the report stage."""

from typing import Literal

from tvmake.config.base import Strict
from tvmake.config.transform import Layout


class VariantRow(Strict):
    """One variant and where its results lie; None for stages that were not asked for."""

    model: str
    precision: str
    target: str
    device: str | None = None
    is_tuned: bool = False
    layout: Layout | Literal["auto"] = "keep"
    """``auto`` for one that has chosen its data layout by measuring."""


class ReportRequest(Strict):
    """What the report covers."""

    results: str
    variants: list[VariantRow]
