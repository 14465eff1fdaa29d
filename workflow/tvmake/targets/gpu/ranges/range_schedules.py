"""Candidates for kernels with code for ranges of sizes, and the schedules of their records.

Candidates are other parameters of the rules that schedule an untuned kernel. Sizes above the largest one at which candidates
are measured keep the rules' parameters.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import tvm

from tvmake.artifact.range_traces import RangeSchedule, range_of
from tvmake.ir.dimensions import dynamic_dimensions
from tvmake.targets.gpu.blocks import CHECKED
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.ranges.narrow_indices import narrow_kernels
from tvmake.targets.gpu.ranges.size_ranges import (
    SIZES,
    Parameters,
    SizeRange,
    fix_leading,
    leading_dimensions,
    plan_ranges,
    select_by_size,
    sized_rules,
)

FURTHER = 7
"""Additional parameters of each range from which a search starts."""

MOST_TRIES = 14
"""Parameters of a range that are tried to find these; some do not suit a kernel."""


def leading_size(func: Any, sizes: Mapping[str, int]) -> int:
    """The size that selects a kernel's code.

    Args:
        sizes: of the dynamic dimensions, by name.
    """
    return max(1, math.prod(sizes[str(dimension.name)] for dimension in leading_dimensions(func)))


def ranged_kernels(
    func: Any, target: "tvm.target.Target", rules: Sequence[Any], points: Sequence[Mapping[str, int]]
) -> Iterator[tuple[list[RangeSchedule], "tvm.tirx.PrimFunc"]]:
    """Schedules of a kernel, that of the rules first; none if the rules do not schedule ranges of its sizes.

    The others have further parameters in all ranges that contain a point.

    Args:
        points: the sizes of the dynamic dimensions at which kernels are measured.
    """
    func = _narrow(func)
    dimensions = leading_dimensions(func)
    if not dimensions or any(name not in point for point in points for name in dynamic_dimensions(func)):
        return
    sizes = [leading_size(func, point) for point in points]
    least, most = min(sizes), max(sizes)
    compared = [size for size in SIZES if least <= size <= most] or [most]
    plan = plan_ranges(func, target, rules, dimensions, compared)
    if plan is None:
        return
    measured = [*plan.ranges[:-1], replace(plan.ranges[-1], largest=most)]
    larger = [size for size in SIZES if size > most]
    rest = plan_ranges(func, target, rules, dimensions, larger, most=1) if larger else None
    parts = [*measured, *(rest.ranges if rest else [])]
    own = [_range_schedule(part, part.chosen.choice.parameters) for part in parts]
    builder = _Builder(func, target, rules, dimensions)
    builder.known.update(zip(own, [*plan.kernels, *(rest.kernels if rest else [])], strict=True))
    yield own, builder.build(own)
    has_point = {range_of(own, size) for size in sizes}
    further = [
        list(islice(builder.usable(_further(part)), FURTHER)) if number in has_point else []
        for number, part in enumerate(parts)
    ]
    for rank in range(max(map(len, further))):
        ranges = [
            others[rank] if rank < len(others) else schedule for schedule, others in zip(own, further, strict=True)
        ]
        yield ranges, builder.build(ranges)


def schedule_recorded_ranges(
    func: Any, target: "tvm.target.Target", rules: Sequence[Any], ranges: Sequence[RangeSchedule]
) -> "tvm.tirx.PrimFunc":
    """A kernel with the schedules of a record.

    Raises:
        ValueError: they do not suit the kernel.
    """
    func = _narrow(func)
    dimensions = leading_dimensions(func)
    if not dimensions:
        raise ValueError("the record is for ranges of a dynamic dimension, which the kernel does not have")
    return _Builder(func, target, rules, dimensions).build(ranges)


def _narrow(func: Any) -> Any:
    """The kernel with the indices that it has without a record."""
    return narrow_kernels(tvm.IRModule({"main": func}))["main"]


def _range_schedule(part: SizeRange, parameters: Parameters) -> RangeSchedule:
    return RangeSchedule(part.largest, type(part.chosen.rule).__name__, parameters)


def _further(part: SizeRange) -> Iterator[RangeSchedule]:
    """Other schedules of a range by its rule, those with the lowest estimated time over its sizes first."""
    choices = [choice.choice for choice in part.choices if choice.rank == part.chosen.rank]
    listed = dict.fromkeys(
        parameters for choice in choices for parameters in (choice.parameters, *choice.further()[:MOST_TRIES])
    )
    listed.pop(part.chosen.choice.parameters, None)

    def estimate(parameters: Parameters) -> float:
        times = [choice.time(parameters) for choice in choices]
        return sum(math.log(time) for time in times if time)

    for parameters in sorted(listed, key=estimate):
        yield _range_schedule(part, parameters)


@dataclass
class _Builder:
    """Schedules a kernel for ranges of its sizes."""

    func: Any
    target: "tvm.target.Target"
    rules: Sequence[Any]
    dimensions: Sequence[Any]
    known: dict[RangeSchedule, Any] = field(default_factory=dict)

    def build(self, ranges: Sequence[RangeSchedule]) -> Any:
        """The kernel with code for all ranges; adjacent ranges with equal schedules share code.

        Raises:
            ValueError: a schedule does not suit the kernel.
        """
        codes = [(part.rule, part.parameters) for part in ranges]
        last = [part for part, own, after in zip(ranges, codes, [*codes[1:], None], strict=True) if own != after]
        kernels = [self._schedule(part) for part in last]
        return select_by_size(self.dimensions, [part.largest for part in last], kernels)

    def usable(self, ranges: Iterator[RangeSchedule]) -> Iterator[RangeSchedule]:
        """The first ones that suit the kernel."""
        for part in islice(ranges, MOST_TRIES):
            try:
                self._schedule(part)
            except ValueError:
                continue
            yield part

    def _schedule(self, part: RangeSchedule) -> Any:
        if part not in self.known:
            self.known[part] = self._apply(part)
        return self.known[part]

    def _apply(self, part: RangeSchedule) -> Any:
        sized = next((rule for rule in sized_rules(self.rules) if type(rule).__name__ == part.rule), None)
        if sized is None:
            raise ValueError(f"the record names a rule that this version does not have: {part.rule}")
        static = fix_leading(self.func, self.dimensions, max(size for size in SIZES if size <= max(part.largest, 1)))
        try:
            rule = BoundRule(sized.with_parameters(part.parameters))
        except (TypeError, ValueError):
            raise ValueError(f"the record has other parameters than {part.rule} takes") from None
        with self.target:
            # TVM checks the steps of a schedule for static dimensions.
            is_valid = rule.apply(static, self.target, False) is not None
            schedule = rule.apply(self.func.with_attr(CHECKED, True), self.target, False) if is_valid else None
        if schedule is None:
            values = ", ".join(map(str, part.parameters))
            raise ValueError(f"{part.rule} has no schedule of this kernel with {values}")
        return schedule.mod["main"]
