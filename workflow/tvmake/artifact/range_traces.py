"""Traces of kernels with code for ranges of sizes: for each range, a rule and its parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STEP = "SizeRange"
"""The name of the steps of such a trace; TVM has none of this name."""

LARGEST_PARAMETER = 1 << 10
"""Maximum of a rule's parameters, which are sides of tiles and numbers of threads."""

INVALID = "not ranges of sizes, each with a rule and its parameters"


@dataclass(frozen=True)
class RangeSchedule:
    """A range of sizes, and how its code is scheduled."""

    largest: int
    """The last range has code for all larger sizes, too."""
    rule: str
    """The name of the rule's class."""
    parameters: tuple[int, ...]


def write_trace(ranges: Sequence[RangeSchedule]) -> list[Any]:
    """Ranges in the form of MetaSchedule's trace JSON, with a step for each."""
    return [[[STEP, [part.largest], [part.rule, *part.parameters], []] for part in ranges], []]


def read_trace(trace: Any) -> list[RangeSchedule] | None:
    """The ranges of a trace; None for MetaSchedule's traces.

    Args:
        trace: a list of steps and a list of decisions.

    Raises:
        ValueError: the ranges are invalid.
    """
    steps, decisions = trace
    if not any(isinstance(step, list) and step[:1] == [STEP] for step in steps):
        return None
    try:
        ranges = [RangeSchedule(largest, rule, tuple(values)) for _, (largest,), (rule, *values), () in steps]
    except (TypeError, ValueError):
        raise ValueError(INVALID) from None
    limits = [part.largest for part in ranges]
    values = [value for part in ranges for value in part.parameters]
    if decisions or any(type(number) is not int for number in [*limits, *values]):
        raise ValueError(INVALID)
    if any(not 1 <= value <= LARGEST_PARAMETER for value in values):
        raise ValueError(INVALID)
    if limits != sorted(set(limits)) or limits[0] < 1:
        raise ValueError(f"not ranges of sizes: their largest sizes are {', '.join(map(str, limits))}")
    return ranges


def range_of(ranges: Sequence[RangeSchedule], size: int) -> int:
    """The number of the range of a size."""
    return next((number for number, part in enumerate(ranges) if size <= part.largest), len(ranges) - 1)
