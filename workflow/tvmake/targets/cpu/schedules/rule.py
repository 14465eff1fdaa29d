"""The schedule of a kernel: what is inlined, and which rule schedules each of the blocks that are left."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.dimensions import estimate_extent
from tvmake.ir.expressions import is_call
from tvmake.targets.cpu.schedules import loops
from tvmake.targets.cpu.schedules.accesses import SPATIAL, extent, innermost, is_fixed, is_injective, loads_in
from tvmake.targets.cpu.schedules.dotted import Dotted, put_instructions
from tvmake.targets.cpu.schedules.flatten_rows import flatten_rows
from tvmake.targets.cpu.schedules.inlining import inline
from tvmake.targets.cpu.schedules.machine import Machine, machine
from tvmake.targets.cpu.schedules.padding import pad, padded_weights
from tvmake.targets.cpu.schedules.rows import by_rows
from tvmake.targets.cpu.schedules.tiled import Tiled
from tvmake.targets.cpu.schedules.winograd import winograd
from tvmake.targets.cpu.vectors.split_concat_loops import CONDITIONALS
from tvmake.targets.weights.layout_free import ATTRIBUTE

from tvm.s_tir.dlight import analysis  # isort: skip

FAILURES = (tvm.s_tir.ScheduleError, tvm.error.InternalError, ValueError, TypeError, IndexError)
"""What TVM raises, here or there, where a step does not suit a kernel."""

FURTHER = 7
"""Schedules of a kernel, besides the one of its rule, that a search starts from."""


@dataclass(frozen=True)
class _Given:
    """What the ways to schedule a block go by, besides the block itself."""

    unit: Machine
    weights: list[Any]
    """Buffers that may be reordered when the package is built."""
    choice: int = 0
    """Which of the good tiles a reduction takes, the best one first."""
    done: set[str] = field(default_factory=set)
    """Names of the blocks that are scheduled."""


def scheduled(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> "tvm.tirx.PrimFunc | None":
    """A kernel with a schedule for a CPU; None where no rule suits it."""
    found = schedule_by_rule(function, target)
    return found.mod["main"] if found is not None else None


def schedule_by_rule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> "tvm.s_tir.Schedule | None":
    """A kernel's schedule for a CPU, with its trace; None where no rule suits it.

    The steps for a block are taken back together where one of them does not suit it.
    """
    return _schedule(function, target, 0)


def further_schedules(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target") -> Iterator["tvm.s_tir.Schedule"]:
    """Schedules that may be better than :func:`schedule_by_rule`'s, and are worth measuring: the next good tiles of
    its reductions. Some may be the same."""
    for choice in range(1, 1 + FURTHER):
        found = _schedule(function, target, choice)
        if found is not None:
            yield found


def _schedule(function: "tvm.tirx.PrimFunc", target: "tvm.target.Target", choice: int) -> "tvm.s_tir.Schedule | None":
    if not isinstance(function.body, tvm.s_tir.SBlockRealize):
        return None
    weights = [function.params[int(index)] for index in (function.attrs or {}).get(ATTRIBUTE, [])]
    try:
        return _scheduled(function, _Given(machine(target), weights, choice))
    except FAILURES:
        return None


def _scheduled(function: "tvm.tirx.PrimFunc", given: _Given) -> "tvm.s_tir.Schedule | None":
    schedule = tvm.s_tir.Schedule(flatten_rows(function))
    root = analysis.get_root_block(schedule)
    if (whole := _by_winograd(schedule, given)) is not None:
        return whole
    inline(schedule, root)
    given.weights.extend(_pad_all(schedule, root, given.unit, given.weights))
    if (whole := _by_rows(schedule, given.unit)) is not None:
        return whole
    names = _names(schedule)
    # What follows a reduction is scheduled with it, and what makes its padding too.
    for is_reduction in (True, False):
        for name in names:
            if name in given.done or name not in _names(schedule):  # the latter was put into another one
                continue
            if is_injective(schedule.get(schedule.get_sblock(name))) != is_reduction:
                schedule, taken = _with_block(schedule, name, given)
                given.done.update(taken)
    put_instructions(schedule)
    return schedule if given.done else None


def _names(schedule: Any) -> list[str]:
    """Of the blocks, in order."""
    root = analysis.get_root_block(schedule)
    return [str(schedule.get(block).name_hint) for block in schedule.get_child_blocks(root)]


def _by_winograd(schedule: Any, given: _Given) -> Any | None:
    """A schedule of a convolution in Winograd's form; None where it is another kernel, or what follows does not suit it."""
    trial = schedule.copy()
    try:
        return trial if winograd(trial, given.unit, given.weights, given.choice) else None
    except FAILURES:
        return None


def _by_rows(schedule: Any, unit: Machine) -> Any | None:
    """A schedule of all blocks together; None where they do not compute row by row."""
    trial = schedule.copy()
    try:
        blocks = trial.get_child_blocks(analysis.get_root_block(trial))
        return trial if by_rows(trial, blocks, unit) else None
    except FAILURES:
        return None


def _pad_all(schedule: Any, root: Any, unit: Machine, weights: list[Any]) -> list[Any]:
    """Pad products of matrices that need it; the padded weights."""
    blocks = [block for block in schedule.get_child_blocks(root) if not is_injective(schedule.get(block))]
    found = []
    for block in blocks:
        if is_fixed(schedule.get(block)) and pad(schedule, block, unit):
            found += padded_weights(schedule, block, weights)
    if blocks:
        inline(schedule, root)
    return found


def _with_block(schedule: Any, name: str, given: _Given) -> tuple[Any, set[str]]:
    """A schedule with one more block scheduled, by the first way that suits it; and the blocks that are, then."""
    statement = schedule.get(schedule.get_sblock(name))
    ways: list[Any] = (
        [_elementwise] if is_injective(statement) else [_dotted, _plain_dotted, _tiled, _plain_tiled, _reduction]
    )
    for way in ways:
        trial = schedule.copy()
        try:
            taken = way(trial, trial.get_sblock(name), given)
        except FAILURES:
            continue
        if taken is not None:
            return trial, {name, *taken}
    return schedule, set()


def _elementwise(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    if not schedule.get_loops(block):
        return None
    loops.elementwise(schedule, block, given.unit)
    return set()


def _reduction(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    statement = schedule.get(block)
    if len(schedule.get_loops(block)) != len(statement.iter_vars):
        return None
    loops.reduction(schedule, block, given.unit)
    return set()


def _dotted(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    return _dotted_with(schedule, block, given, _epilogue(schedule, block, given.done))


def _plain_dotted(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    return _dotted_with(schedule, block, given, None)


def _dotted_with(schedule: Any, block: Any, given: _Given, epilogue: Any | None) -> set[str] | None:
    dotted = Dotted.of(schedule, block, given.unit, given.weights, given.unit.dots, given.choice)
    if dotted is None:
        return None
    taken = {str(schedule.get(epilogue).name_hint)} if epilogue is not None else set()
    dotted.apply(epilogue, None)
    return taken


def _tiled(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    return _tiled_with(schedule, block, given, _epilogue(schedule, block, given.done), _padding(schedule, block))


def _plain_tiled(schedule: Any, block: Any, given: _Given) -> set[str] | None:
    """As :func:`_tiled`, where what comes before or after does not suit it."""
    return _tiled_with(schedule, block, given, None, None)


def _tiled_with(schedule: Any, block: Any, given: _Given, epilogue: Any | None, padding: Any | None) -> set[str] | None:
    if not Tiled.suits(schedule, block):
        return None
    taken = {str(schedule.get(epilogue).name_hint)} if epilogue is not None else set()
    tiled = Tiled(schedule, block, given.unit, given.weights, given.choice)
    if tiled.apply(epilogue, padding) and padding is not None:
        taken.add(str(schedule.get(padding).name_hint))
    return taken


def _epilogue(schedule: Any, block: Any, done: set[str]) -> Any | None:
    """The one block that uses a reduction's result, if it computes a value of each."""
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
                return None  # with lanes of padding: what follows is a pass of its own
    values = math.prod(axes.values())
    return users[0] if math.prod(shape) // 2 < values <= math.prod(shape) else None


def _padding(schedule: Any, block: Any) -> Any | None:
    """The block that pads what a reduction reads, if it does nothing else and for no other."""
    for producer in schedule.get_producers(block):
        statement = schedule.get(producer)
        if is_injective(statement) and len(schedule.get_consumers(producer)) == 1 and _has_guard(statement):
            return producer
    return None


def _has_guard(block: Any) -> bool:
    found: list[Any] = []

    def note(call: Any) -> None:
        if is_call(call, *CONDITIONALS):
            found.append(call)

    tvm_ffi.structural_walk(block.body, (tvm.ir.Call, note))
    return bool(found)
