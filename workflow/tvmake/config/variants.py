"""``variants:`` — which model × precision × target combinations are made."""

from pydantic import Field

from tvmake.config.base import Name
from tvmake.options import Strict

LEAVE_OUT = "leave it out with variants.exclude"
"""The remedy for combinations that cannot be made, in a config."""


class Combination(Strict):
    """A full or partial combination; what is left out matches everything."""

    model: Name | None = None
    """A name under ``models``."""
    precision: Name | None = None
    """A name under ``precisions``."""
    target: Name | None = None
    """A name under ``targets``."""

    def matches(self, model: str, precision: str, target: str) -> bool:
        """Whether every given part equals the variant's."""
        return self.model in (None, model) and self.precision in (None, precision) and self.target in (None, target)


class VariantFilter(Strict):
    """As in CI matrices: all combinations, less ``exclude``, plus ``include``."""

    include: list[Combination] = Field(default_factory=list)
    """Full combinations to add back or beyond a model's own lists."""
    exclude: list[Combination] = Field(default_factory=list)
    """Partial combinations to leave out."""
