"""Options of the report stage."""

from typing import Literal

from pydantic import Field

from tvmake.config.validation import Goals
from tvmake.options import Strict
from tvmake.transform.options import Layout


class VariantRow(Strict):
    """One variant; ``device`` is None if its packages do not run."""

    model: str
    precision: str
    target: str
    device: str | None = None
    is_tuned: bool = False
    is_calibrated: bool = False
    """Whether its activations are stored in 8 bits, with ranges from calibration."""
    is_precision_chosen: bool = False
    """Whether the precision of each layer was chosen by measuring."""
    compares_operators: bool = False
    """Whether each operator was compared with the original network's."""
    layout: Layout | Literal["auto"] = "keep"
    """``auto`` if the data layout was chosen by measuring."""
    goals: Goals = Goals()
    """Goals on latency, memory and size; the validate stage checks those on numerics."""


class PackageEntry(Strict):
    """A package with several functions."""

    model: str
    precision: str
    target: str
    functions: list[str]
    """The networks of its functions, as variants name them."""


class ReportRequest(Strict):
    """Variants of the report."""

    results: str
    variants: list[VariantRow]
    packages: list[PackageEntry] = Field(default_factory=list)
    """The packages with several of these variants as functions."""
    logs: str = "logs"
    """The directory of the jobs' logs."""
    title: str | None = None
    """Heading of the page; the directory's name by default."""
