"""Sizes of dynamic dimensions, or bounds of those that stay dynamic."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from tvmake.options import Positive, Strict

LARGEST_SIZE = 2**31 - 1
"""Of a dimension: kernels count in 32 bits."""


class DimBounds(Strict):
    """The sizes that a dynamic dimension takes."""

    min: Annotated[int, Field(ge=0)] | None = None
    """Smallest size; what the model's file says, or 1, when left out. 0 allows an empty input, such as a past without positions."""
    max: Positive | None = None
    """Largest size, for which memory is planned; what the model's file says, or none, when left out."""

    @model_validator(mode="after")
    def _is_range(self) -> "DimBounds":
        if self.min is None and self.max is None:
            raise ValueError("bounds without a bound; write {min: 1, max: 512}, or one of them")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min is {self.min} and max is {self.max}; write the smaller one as min")
        if (largest := max(self.min or 0, self.max or 0)) > LARGEST_SIZE:
            raise ValueError(
                f"{largest} is beyond what kernels count, {LARGEST_SIZE}; leave max out where there is no bound"
            )
        return self


Dims = dict[str, Positive | DimBounds]
"""By name."""


def fixed_sizes(dims: Mapping[str, int | DimBounds]) -> dict[str, int]:
    """The sizes of those dimensions that are fixed."""
    return {name: size for name, size in dims.items() if isinstance(size, int)}


def sample_sizes(dims: Mapping[str, int | DimBounds], chosen: Mapping[str, int]) -> dict[str, int]:
    """Sizes of dimensions in samples: the fixed ones, the chosen ones, and the smallest ones above 1 of others."""
    bounded = ((name, size.min or 0) for name, size in dims.items() if isinstance(size, DimBounds))
    return {**{name: least for name, least in bounded if least > 1}, **chosen, **fixed_sizes(dims)}
