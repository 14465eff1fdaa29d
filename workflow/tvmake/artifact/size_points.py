"""Sizes of dynamic dimensions at which candidates of a kernel are measured."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tvmake.errors import InputError
from tvmake.storage.documents import FailsFast
from tvmake.storage.files import canonical_json

MOST_POINTS = 5
"""Maximum number of sizes at which a kernel is measured."""

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Sizes = dict[str, Annotated[int, Field(ge=0)]]
"""Sizes of dynamic dimensions, by name."""


class SizePoint(FailsFast, BaseModel):
    """One size of each dynamic dimension."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    sizes: Sizes
    weight: Weight = 1.0
    """Share of this point in the kernel's latency; the weights of a kernel's points add up to 1."""


NO_POINTS = "[]"
"""The text of :func:`points_text` for a kernel without dynamic dimensions."""

_POINTS = TypeAdapter(tuple[SizePoint, ...])


def merge_points(points: Iterable[SizePoint]) -> tuple[SizePoint, ...]:
    """The distinct points, the smallest sizes first, with weights that add up to 1; at most :data:`MOST_POINTS`.

    Of more, evenly distributed ones remain.
    """
    weights: dict[tuple[tuple[str, int], ...], float] = {}
    for point in points:
        key = tuple(sorted(point.sizes.items()))
        weights[key] = weights.get(key, 0.0) + point.weight
    keys = sorted(weights, key=lambda key: (math.prod(size for _, size in key), key))
    if len(keys) > MOST_POINTS:
        keys = [keys[round(index * (len(keys) - 1) / (MOST_POINTS - 1))] for index in range(MOST_POINTS)]
    total = sum(weights[key] for key in keys)
    return tuple(SizePoint(sizes=dict(key), weight=round(weights[key] / total, 6)) for key in keys)


def points_text(points: Sequence[SizePoint]) -> str:
    """Points as JSON, for a command."""
    return canonical_json([point.model_dump() for point in points])


def parse_points(text: str) -> tuple[SizePoint, ...]:
    """Points from :func:`points_text`.

    Raises:
        InputError: the text is something else.
    """
    try:
        return _POINTS.validate_json(text)
    except ValidationError as error:
        raise InputError("--points", f"is not a JSON list of sizes ({error.errors()[0]['msg'].lower()})") from None


def describe_sizes(sizes: Mapping[str, int]) -> str:
    """Sizes in a line: ``batch=1, length=16``."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
