"""``variants:`` — the model × precision × target combinations to make."""

from pydantic import Field

from tvmake.config.base import Name
from tvmake.options import Strict

LEAVE_OUT = "leave it out with variants.exclude"
"""Remedy for a combination that cannot be made."""


class Combination(Strict):
    """A full or partial combination; a missing key matches everything."""

    model: Name | None = None
    """A name under ``models``."""
    precision: Name | None = None
    """A name under ``precisions``."""
    target: Name | None = None
    """A name under ``targets``."""

    def matches(self, model: str, precision: str, target: str) -> bool:
        """Whether every set key equals the variant's."""
        return self.model in (None, model) and self.precision in (None, precision) and self.target in (None, target)


class VariantFilter(Strict):
    """All combinations except ``exclude``, plus ``include``, as in CI matrices."""

    include: list[Combination] = Field(default_factory=list)
    """Full combinations to add, also excluded ones and those beyond a model's own lists."""
    exclude: list[Combination] = Field(default_factory=list)
    """Partial combinations to leave out."""
