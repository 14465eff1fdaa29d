"""Options of the report stage."""

from tvmake.config.base import Strict


class VariantRow(Strict):
    """One variant and where its results lie; None for stages that were not asked for."""

    model: str
    precision: str
    target: str
    device: str | None = None
    is_tuned: bool = False


class ReportRequest(Strict):
    """What the report covers."""

    results: str
    variants: list[VariantRow]
