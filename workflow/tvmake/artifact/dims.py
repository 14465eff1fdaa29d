"""Sizes of dynamic dimensions, or bounds of those that stay dynamic."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tvmake.options import Positive, Strict

LARGEST_SIZE = 2**31 - 1
"""Of a dimension: kernels count in 32 bits."""


class DimBounds(Strict):
    """The sizes that a dynamic dimension takes."""

    min: Annotated[int, Field(ge=0)] | None = None
    """Smallest size; what the model's file says, or 1, when left out (0 for the length of a state that grows). 0 allows an empty input, such as a past without positions."""
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

    def has(self, size: int) -> bool:
        """Whether a size is within the stated bounds."""
        return (self.min or 0) <= size and (self.max is None or size <= self.max)


Dims = dict[str, Annotated[int, Field(ge=0, le=LARGEST_SIZE)] | DimBounds]
"""By name; 0 makes inputs of that dimension empty, such as a past without positions."""


MOST_SHAPES = 16
"""Of a package: each is code of its own, and they are compared one after another in each call."""

Shape = Annotated[dict[str, Positive], Field(min_length=1)]
"""Sizes of dynamic dimensions, by name."""


def _differ(shapes: list[dict[str, int]]) -> list[dict[str, int]]:
    for number, shape in enumerate(shapes):
        if shape in shapes[:number]:
            raise ValueError(f"{spell_shape(shape)} is there twice; leave one out")
        if (largest := max(shape.values())) > LARGEST_SIZE:
            raise ValueError(f"{largest} is beyond what kernels count, {LARGEST_SIZE}; choose a smaller size")
    if len(shapes) > MOST_SHAPES:
        raise ValueError(
            f"{len(shapes)} shapes are more than a package has, {MOST_SHAPES}; name the most frequent ones"
        )
    return shapes


Shapes = Annotated[list[Shape], AfterValidator(_differ)]


def spell_shape(shape: Mapping[str, int]) -> str:
    """``{batch: 8, length: 128}``, as in a config."""
    return f"{{{', '.join(f'{name}: {size}' for name, size in shape.items())}}}"


def fixed_sizes(dims: Mapping[str, int | DimBounds]) -> dict[str, int]:
    """The sizes of those dimensions that are fixed."""
    return {name: size for name, size in dims.items() if isinstance(size, int)}


def sample_sizes(dims: Mapping[str, int | DimBounds], chosen: Mapping[str, int]) -> dict[str, int]:
    """Sizes of dimensions in samples: the fixed ones, the chosen ones, and the smallest ones above 1 of others."""
    bounded = ((name, size.min or 0) for name, size in dims.items() if isinstance(size, DimBounds))
    return {**{name: least for name, least in bounded if least > 1}, **chosen, **fixed_sizes(dims)}
