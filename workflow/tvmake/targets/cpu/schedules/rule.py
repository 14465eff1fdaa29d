"""Choose a kernel's schedule: inline blocks, then apply the first suitable rule to each remaining block."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import estimate_extent, is_known
from tvmake.ir.expressions import is_call
from tvmake.targets.backend import NO_WIDTHS
from tvmake.targets.cpu.schedules import loops
from tvmake.targets.cpu.schedules.accesses import SPATIAL, extent, innermost, is_fixed, is_injective, loads_in
from tvmake.targets.cpu.schedules.dotted import DotTiles, tensorize_dots
from tvmake.targets.cpu.schedules.flatten_rows import flatten_rows
from tvmake.targets.cpu.schedules.grouped_sums import sum_by_groups
from tvmake.targets.cpu.schedules.inlining import inline
from tvmake.targets.cpu.schedules.machine import Machine, machine
from tvmake.targets.cpu.schedules.padding import pad, padded_weights
from tvmake.targets.cpu.schedules.rows import schedule_by_rows
from tvmake.targets.cpu.schedules.tiled import TiledReduction
from tvmake.targets.cpu.schedules.winograd import winograd
from tvmake.targets.cpu.vectors.split_concat_loops import CONDITIONALS
from tvmake.targets.kernels.scheduled_kernel import is_scheduled, with_scheduled_body
from tvmake.targets.weights.layout_free import ATTRIBUTE

from tvm.s_tir.dlight import analysis  # isort: skip

FAILURES = (tvm.s_tir.ScheduleError, tvm.error.InternalError, ValueError, TypeError, IndexError)
"""Exceptions of TVM if a step does not suit a kernel."""

FURTHER = 7
"""Additional schedules of a kernel from which a search starts."""

FURTHER_DYNAMIC = 31
"""Additional schedules of a kernel with dynamic dimensions."""


@dataclass(frozen=True)
class _RuleContext:
    """The settings of the rules that schedule blocks."""

    unit: Machine
    weights: list[Any]
    """Buffers that may be reordered when the package is built."""
    choice: int = 0
    """The rank of a reduction's tile among the good ones, the best first."""
    width: int | None = None
    """The number of adjacent results of a tile whose weights have a layout already."""
    done: set[str] = field(default_factory=set)
    """Names of the scheduled blocks."""


def form_for_schedules(function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The form of a kernel to which the steps of its schedules apply; unchanged without dynamic dimensions."""
    return flatten_rows(function) if isinstance(function.body, tvm.s_tir.SBlockRealize) else function


def schedule_kernel(
    function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", width: int | None = None
) -> "tvm.tirx.PrimFunc | None":
    """Schedule a kernel for a CPU; None if no rule suits it.

    Args:
        width: the number of adjacent results of a tile, if the kernel's weights have a layout already.
    """
    schedule = _schedule(function, target, 0, width)
    return schedule.mod["main"] if schedule is not None else None


def schedule_by_rule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> "tvm.s_tir.Schedule | None":
    """A kernel's schedule for a CPU, with its trace; None if no rule suits it.

    If one step does not suit a block, all steps for the block are undone.
    """
    return _schedule(function, target, 0)


def further_schedules(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> Iterator["tvm.s_tir.Schedule"]:
    """Schedules that may be better than :func:`schedule_by_rule`'s and are worth measuring: the next good tiles of its
    reductions. Some may be equal.

    With dynamic dimensions, which have no other candidates, there are more.
    """
    for choice in range(1, 1 + (FURTHER_DYNAMIC if _is_dynamic(function) else FURTHER)):
        schedule = _schedule(function, target, choice)
        if schedule is not None:
            yield schedule


def _is_dynamic(function: "tvm.tirx.PrimFunc") -> bool:
    return any(
        not is_known(extent) for parameter in function.params for extent in getattr(parameter.ty, "shape", None) or ()
    )


def _schedule(
    function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", choice: int, width: int | None = None
) -> "tvm.s_tir.Schedule | None":
    if not isinstance(function.body, tvm.s_tir.SBlockRealize):
        return None
    weights = [function.params[int(index)] for index in (function.attrs or {}).get(ATTRIBUTE, [])]
    try:
        return _apply_rules(function, _RuleContext(machine(target), weights, choice, width))
    except FAILURES:
        return None


def _apply_rules(function: "tvm.tirx.PrimFunc", context: _RuleContext) -> "tvm.s_tir.Schedule | None":
    schedule = tvm.s_tir.Schedule(flatten_rows(function))
    root = analysis.get_root_block(schedule)
    if (complete := _by_winograd(schedule, context)) is not None:
        return complete
    inline(schedule, root)
    if (complete := _by_groups(schedule, context)) is not None:
        return complete
    context.weights.extend(_pad_all(schedule, root, context.unit, context.weights))
    if (complete := _by_rows(schedule, context.unit)) is not None:
        return complete
    names = _names(schedule)
    # A reduction's epilogue and its padding are scheduled with it.
    for is_reduction in (True, False):
        for name in names:
            if name in context.done or name not in _names(schedule):  # the latter was inlined
                continue
            if is_injective(schedule.get(schedule.get_sblock(name))) != is_reduction:
                schedule, scheduled_names = _with_block(schedule, name, context)
                context.done.update(scheduled_names)
    tensorize_dots(schedule)
    return schedule if context.done else None


def _names(schedule: Any) -> list[str]:
    """Names of the blocks, in order."""
    root = analysis.get_root_block(schedule)
    return [str(schedule.get(block).name_hint) for block in schedule.get_child_blocks(root)]


def _by_winograd(schedule: Any, context: _RuleContext) -> Any | None:
    """The schedule of a convolution in Winograd's form; None for other kernels, or if the epilogue does not suit it."""
    trial = schedule.copy()
    try:
        return trial if winograd(trial, context.unit, context.weights, context.choice, context.width) else None
    except FAILURES:
        return None


def _by_groups(schedule: Any, context: _RuleContext) -> Any | None:
    """The schedule of a row's matmul by integer weights; None for other kernels, or if the epilogue does not suit it."""
    trial = schedule.copy()
    try:
        return trial if sum_by_groups(trial, context.unit, context.weights, context.choice, context.width) else None
    except FAILURES:
        return None


def _by_rows(schedule: Any, unit: Machine) -> Any | None:
    """A schedule of all blocks together; None if they do not compute row by row."""
    trial = schedule.copy()
    try:
        blocks = trial.get_child_blocks(analysis.get_root_block(trial))
        return trial if schedule_by_rows(trial, blocks, unit) else None
    except FAILURES:
        return None


def _pad_all(schedule: Any, root: Any, unit: Machine, weights: list[Any]) -> list[Any]:
    """Pad matmuls that need it; returns the padded weights."""
    blocks = [block for block in schedule.get_child_blocks(root) if not is_injective(schedule.get(block))]
    padded = []
    for block in blocks:
        if is_fixed(schedule.get(block)) and pad(schedule, block, unit):
            padded += padded_weights(schedule, block, weights)
    if blocks:
        inline(schedule, root)
    return padded


def _with_block(schedule: Any, name: str, context: _RuleContext) -> tuple[Any, set[str]]:
    """Schedule a block by the first suitable rule; returns the schedule and the names of the scheduled blocks."""
    statement = schedule.get(schedule.get_sblock(name))
    rules: list[Any] = (
        [_elementwise] if is_injective(statement) else [_dots, _plain_dots, _tiles, _plain_tiles, _reduction]
    )
    for apply_rule in rules:
        trial = schedule.copy()
        try:
            names = apply_rule(trial, trial.get_sblock(name), context)
        except FAILURES:
            continue
        if names is not None:
            return trial, {name, *names}
    return schedule, set()


def _elementwise(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    if not schedule.get_loops(block):
        return None
    loops.elementwise(schedule, block, context.unit)
    return set()


def _reduction(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    statement = schedule.get(block)
    if len(schedule.get_loops(block)) != len(statement.iter_vars):
        return None
    loops.reduction(schedule, block, context.unit)
    return set()


def _dots(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    return _apply_dots(schedule, block, context, _epilogue(schedule, block, context.done))


def _plain_dots(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    return _apply_dots(schedule, block, context, None)


def _apply_dots(schedule: Any, block: Any, context: _RuleContext, epilogue: Any | None) -> set[str] | None:
    dotted = DotTiles.of(
        schedule, block, context.unit, context.weights, context.unit.dots, context.choice, context.width
    )
    if dotted is None:
        return None
    names = {str(schedule.get(epilogue).name_hint)} if epilogue is not None else set()
    dotted.apply(epilogue, None)
    return names


def _tiles(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    return _apply_tiles(schedule, block, context, _epilogue(schedule, block, context.done), _padding(schedule, block))


def _plain_tiles(schedule: Any, block: Any, context: _RuleContext) -> set[str] | None:
    """Like :func:`_tiles`, without the epilogue and the padding."""
    return _apply_tiles(schedule, block, context, None, None)


def _apply_tiles(
    schedule: Any, block: Any, context: _RuleContext, epilogue: Any | None, padding: Any | None
) -> set[str] | None:
    if not TiledReduction.suits(schedule, block):
        return None
    names = {str(schedule.get(epilogue).name_hint)} if epilogue is not None else set()
    tiled = TiledReduction(schedule, block, context.unit, context.weights, context.choice, context.width)
    if tiled.apply(epilogue, padding) and padding is not None:
        names.add(str(schedule.get(padding).name_hint))
    return names


def _epilogue(schedule: Any, block: Any, done: set[str]) -> Any | None:
    """The only user of a reduction's result, if it computes one value from each."""
    users = schedule.get_consumers(block)
    if len(users) != 1 or not isinstance(schedule.get(block).body, tvm.tirx.BufferStore):
        return None
    statement, user = schedule.get(block), schedule.get(users[0])
    if str(user.name_hint) in done or not is_injective(user):
        return None
    loads = [load for load in loads_in(user.body) if load.source.same_as(statement.body.buffer)]
    axes = {str(axis.var.name): extent(axis) for axis in user.iter_vars}
    shape = list(map(estimate_extent, statement.body.buffer.ty.shape))
    lanes = innermost(statement.body.indices, [axis for axis in statement.iter_vars if axis.iter_type == SPATIAL])
    for load in loads:
        for index, size, written in zip(load.indices, shape, statement.body.indices, strict=True):
            axis = axes.get(str(getattr(index, "name", "")))
            if size != 1 and (axis is None or axis > size):
                return None
            if lanes is not None and written.same_as(lanes.var) and axis != size:
                return None  # with padded lanes, the epilogue is a separate pass
    values = math.prod(axes.values())
    return users[0] if math.prod(shape) // 2 < values <= math.prod(shape) else None


def _padding(schedule: Any, block: Any) -> Any | None:
    """The block that pads a reduction's input, if it does nothing else and has no other user."""
    for producer in schedule.get_producers(block):
        statement = schedule.get(producer)
        if is_injective(statement) and len(schedule.get_consumers(producer)) == 1 and _has_guard(statement):
            return producer
    return None


def _has_guard(block: Any) -> bool:
    guards: list[Any] = []

    def note(call: Any) -> None:
        if is_call(call, *CONDITIONALS):
            guards.append(call)

    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, note))
    return bool(guards)


def apply_rules(
    module: "tvm.IRModule",
    target: "tvm.target.Target",
    refused: Collection[str] = (),
    widths: Mapping[str, int] = NO_WIDTHS,
) -> tuple["tvm.IRModule", frozenset[str]]:
    """Schedule the unscheduled kernels of a module.

    Args:
        widths: the numbers of adjacent results of tiles, by kernel, if weights have a layout already.

    Returns:
        The module, and the names of the kernels that rules scheduled.
    """
    functions = dict(module.functions_items())
    names = set()
    for variable, function in functions.items():
        name = str(variable.name_hint)
        is_kernel = isinstance(function, tvm.tirx.PrimFunc) and not is_scheduled(function)
        schedule = schedule_kernel(function, target, widths.get(name)) if is_kernel and name not in refused else None
        if schedule is not None:
            functions[variable] = with_scheduled_body(function, schedule)
            names.add(name)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos), frozenset(names)
