"""Schedule kernels with dynamic dimensions for ranges of sizes; a kernel selects its code when it is launched.

The best tiles for one image and for a hundred differ by a factor. Rules choose a tile for each of some sizes as they do
for static dimensions. A kernel has code for as few of these tiles as are nearly the best ones for all sizes.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import tvm
import tvm_ffi

from tvmake.ir.dimensions import dynamic_dimensions, fix_dimensions
from tvmake.targets.gpu.blocks import CHECKED
from tvmake.targets.gpu.bound_rule import BoundRule
from tvmake.targets.gpu.product_form import product_of
from tvmake.targets.gpu.ranges.dynamic_launches import run_if

from tvm import s_tir, tirx  # isort: skip

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048)
"""Sizes for which tiles are compared."""

OTHER_SIZE = 4
"""Assumed size of dimensions that do not determine the tile: batches of separate matmuls."""

MOST_RANGES = 4
"""Maximum number of ranges of a kernel; each has separate code."""

WORTH = 0.03
"""Minimum gain of a further range: the sum, over all sizes, of logarithms of relative times."""

WEIGHT_OF_ONE = 2
"""Weight of the size 1 among the others: most services run single images."""

UNKNOWN = 1.6
"""Assumed relative time of parameters if it cannot be estimated, as of a rule that does not suit a size."""


Parameters = tuple[int, ...]
"""A rule's parameters, such as those of a tile; equal for equal schedules."""


@dataclass(frozen=True)
class Choice:
    """A rule's parameters for a kernel with static dimensions."""

    parameters: Parameters
    time: Callable[[Parameters], float | None] = lambda _parameters: None
    """The estimated time with given parameters, in any unit; None if the kernel cannot have them."""
    form: Hashable = None
    """Schedules with equal forms have the same steps, so that TVM's checks accept all of them or none."""
    further: Callable[[], Sequence[Parameters]] = tuple
    """Other parameters that are worth measuring, the best first."""


class SizedRule(Protocol):
    """A rule whose schedule depends on the sizes of a kernel by a few parameters."""

    def choose(self, func: Any, target: "tvm.target.Target") -> Choice | None:
        """The parameters for a kernel with static dimensions; None if the rule does not suit it."""

    def with_parameters(self, parameters: Parameters) -> Any:
        """The rule that schedules each kernel with these parameters."""


@dataclass(frozen=True)
class RuleChoice:
    """A rule's parameters for a size, and their estimated times as :class:`Choice` has them."""

    rank: int
    """The rule's position among the rules."""
    rule: SizedRule
    choice: Choice

    @property
    def form(self) -> Hashable:
        """Equal for schedules with the same steps."""
        return self.rule, self.choice.form

    def loss(self, other: "RuleChoice") -> float:
        """The logarithm of the estimated time with another choice, relative to this one."""
        if other.rank != self.rank:
            # A later rule does not replace an earlier one.
            return math.log(UNKNOWN) if other.rank < self.rank else math.inf
        mine, theirs = self.choice.parameters, other.choice.parameters
        if theirs == mine:
            return 0.0
        own, best = self.choice.time(theirs), self.choice.time(mine)
        return math.log(UNKNOWN if own is None or best is None else max(own / best, 1.0))


@dataclass(frozen=True)
class SizeRange:
    """Sizes with the same code."""

    largest: int
    size: int
    """One of them."""
    chosen: RuleChoice
    choices: tuple[RuleChoice, ...]
    """The best choice of each compared size."""


@dataclass(frozen=True)
class RangePlan:
    """The ranges of a kernel's sizes, and the scheduled kernel of each."""

    ranges: Sequence[SizeRange]
    kernels: Sequence[Any]


def schedule_ranges(
    func: Any, target: "tvm.target.Target", rules: Sequence[Any], bounds: Mapping[str, tuple[int, int | None]]
) -> Any | None:
    """A scheduled kernel with code for ranges of its dynamic dimensions; None if no rule suits it, or none is dynamic.

    Args:
        rules: the first one that suits most sizes schedules the kernel.
        bounds: smallest and largest sizes of dimensions, by name.
    """
    dimensions = leading_dimensions(func)
    if not dimensions:
        return None
    sizes = _sizes([str(dimension.name) for dimension in dimensions], bounds)
    plan = plan_ranges(func, target, rules, dimensions, sizes)
    return select_by_size(dimensions, [part.largest for part in plan.ranges], plan.kernels) if plan else None


def plan_ranges(
    func: Any,
    target: "tvm.target.Target",
    rules: Sequence[Any],
    dimensions: Sequence[Any],
    sizes: Sequence[int],
    most: int = MOST_RANGES,
) -> RangePlan | None:
    """Divide sizes into ranges, and schedule a kernel for each; None if no rule suits it.

    Args:
        rules: the first one that suits most sizes schedules the kernel.
        dimensions: see :func:`leading_dimensions`.
        sizes: of their product, to compare.
        most: maximum number of ranges.
    """
    fixed = [fix_leading(func, dimensions, size) for size in sizes]
    checked = func.with_attr(CHECKED, True)
    sized = sized_rules(rules)
    with target:
        while True:
            choices = [_choose(sized, kernel, target) for kernel in fixed]
            if sum(choice is not None for choice in choices) * 2 < len(sizes):
                return None
            ranges = _ranges(sizes, choices, most)
            static = {part.chosen.form: fixed[sizes.index(part.size)] for part in ranges}
            kernels, unsuitable = _schedule(checked, static, ranges, target)
            if unsuitable is None:
                return RangePlan(ranges, kernels)
            sized.remove(unsuitable)


def sized_rules(rules: Sequence[Any]) -> list[SizedRule]:
    """The rules that schedule ranges of sizes."""
    return [rule for rule in rules if hasattr(rule, "choose")]


def _schedule(
    func: Any, static: Mapping[Any, Any], ranges: Sequence[SizeRange], target: "tvm.target.Target"
) -> tuple[list[Any], SizedRule | None]:
    """The scheduled kernels of ranges, or a rule that cannot schedule the kernel.

    Args:
        static: a kernel with static dimensions for each rule and form, whose schedule TVM checks.
    """
    kernels = []
    accepted: set[Any] = set()
    for part in ranges:
        chosen = part.chosen
        rule = BoundRule(chosen.rule.with_parameters(chosen.choice.parameters))
        if chosen.form not in accepted and rule.apply(static[chosen.form], target, False) is None:
            return [], chosen.rule
        accepted.add(chosen.form)
        schedule = rule.apply(func, target, False)
        if schedule is None:
            return [], chosen.rule
        kernels.append(schedule.mod["main"])
    return kernels, None


def _choose(rules: Sequence[SizedRule], kernel: Any, target: "tvm.target.Target") -> RuleChoice | None:
    """The choice of the first rule that suits a kernel."""
    for rank, rule in enumerate(rules):
        choice = rule.choose(kernel, target)
        if choice is not None:
            return RuleChoice(rank, rule, choice)
    return None


def leading_dimensions(func: Any) -> list[Any]:
    """The dimensions whose product determines the tile: those of a matmul's rows and columns, or else all.

    None for kernels with scalar arguments, which may be dimensions.
    """
    if not isinstance(func, tirx.PrimFunc) or not (dimensions := list(dynamic_dimensions(func).values())):
        return []
    if not all(hasattr(parameter.ty, "shape") for parameter in func.params):
        return []
    product = product_of(func)
    if product is None:
        return dimensions
    used: list[Any] = []
    extents = [axis.dom.extent for axis in (*product.axes.rows, *product.axes.columns)]
    tvm_ffi.structural_walk(extents, (tvm.ir.Var, used.append))
    leading = [dimension for dimension in dimensions if any(dimension.same_as(variable) for variable in used)]
    return leading or dimensions


def _sizes(names: Sequence[str], bounds: Mapping[str, tuple[int, int | None]]) -> list[int]:
    """The sizes to compare, within the bounds of the dimensions' product."""
    least, most = 1, 1
    for name in names:
        lower, upper = bounds.get(name, (0, None))
        least, most = least * max(1, lower), most * (upper or SIZES[-1])
    sizes = [size for size in SIZES if least <= size <= most]
    return sizes or [max(1, most)]


def fix_leading(func: Any, dimensions: Sequence[Any], size: int) -> Any:
    """A kernel with static dimensions; the product of some of them is a given size."""
    names = dynamic_dimensions(func)
    *others, last = [str(dimension.name) for dimension in dimensions]
    return fix_dimensions(func, dict.fromkeys(names, OTHER_SIZE) | dict.fromkeys(others, 1) | {last: size}, names)


def _ranges(sizes: Sequence[int], choices: Sequence[RuleChoice | None], most: int) -> list[SizeRange]:
    """Ranges of sizes, each with parameters that are nearly the best for all its sizes."""
    known = [(size, choice) for size, choice in zip(sizes, choices, strict=True) if choice is not None]
    losses = [
        [choice.loss(other) * (WEIGHT_OF_ONE if size == 1 else 1) for _, other in known] for size, choice in known
    ]

    def best_choice(start: int, end: int) -> tuple[float, int]:
        sums = [sum(losses[size][number] for size in range(start, end)) for number in range(len(known))]
        return min(zip(sums, range(len(known)), strict=True))

    # The least loss for the first sizes, with the ends and choices of the ranges.
    nothing: list[tuple[int, int]] = []
    plans = [(0.0, nothing)] + [(math.inf, nothing)] * len(known)
    best = math.inf, nothing
    for count in range(1, most + 1):
        longer = [(math.inf, nothing)] * len(plans)
        for end in range(1, len(plans)):
            for start in range(end):
                loss, number = best_choice(start, end)
                longer[end] = min(longer[end], (plans[start][0] + loss, [*plans[start][1], (end, number)]))
        plans = longer
        best = min(best, (plans[-1][0] + count * WORTH, plans[-1][1]))
    starts = [0, *(end for end, _ in best[1])]
    return [
        SizeRange(
            _largest([size for size, _ in known], end),
            known[end - 1][0],
            known[number][1],
            tuple(choice for _, choice in known[start:end]),
        )
        for start, (end, number) in zip(starts, best[1], strict=False)
    ]


def _largest(sizes: Sequence[int], count: int) -> int:
    """The largest size of a range that ends with a given number of sizes: half of the way to the next one."""
    if count == len(sizes):
        return sizes[-1]
    return sizes[count - 1] if sizes[count] - sizes[count - 1] < 2 else (sizes[count - 1] + sizes[count]) // 2


def select_by_size(dimensions: Sequence[Any], limits: Sequence[int], kernels: Sequence[Any]) -> Any:
    """One kernel that runs the first of several with a sufficient limit, or else the last.

    Args:
        dimensions: whose product is compared with the limits.
    """
    size = reduce(lambda product, dimension: product * dimension, dimensions)
    blocks = [kernel.body.block for kernel in kernels]
    parts, buffers = [], []
    above: Any = None
    for limit, block in zip([*limits[:-1], None], blocks, strict=True):
        bound = None if limit is None else tirx.const(limit, size.ty.dtype)
        conditions = [] if above is None else [size > above]
        conditions += [] if bound is None else [size <= bound]
        parts.append(run_if(reduce(tirx.And, conditions), block.body) if conditions else block.body)
        buffers += block.alloc_buffers
        above = bound
    root = blocks[-1]
    body = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, tirx.SeqStmt(parts) if parts[1:] else parts[0],
        root.init, buffers, root.match_buffers, root.annotations,
    )  # fmt: skip
    kernel = kernels[0]
    return kernel.with_body(s_tir.SBlockRealize(kernel.body.iter_values, kernel.body.predicate, body))
