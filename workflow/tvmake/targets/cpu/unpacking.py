"""Weights in integers become numbers within the sums that read them: no kernel keeps a copy of them in float.

As they come (``quantize.weights.holding``), a block makes numbers of all weights, and another one multiplies. GPUs' rules put the first
one into the loads of the second, a tile at a time; for CPUs, whose rules and whose search would have it run beforehand, it is put
there at once.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import SPATIAL, is_injective, loads_in

from tvm.s_tir.dlight import analysis  # isort: skip

SMALL = ("int8", "uint8")

BLOCK = "unpacked"
"""How ``quantize.weights.holding`` calls the blocks."""


def unpack_in_sums(module: "tvm.IRModule") -> "tvm.IRModule":
    """The fused module with blocks that unpack weights put into the sums that read them."""
    functions = dict(module.functions_items())
    for variable, function in functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and isinstance(function.body, tvm.s_tir.SBlockRealize):
            made = _unpacked_within(function)
            functions[variable] = function if made is None else function.with_body(made.body)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def _unpacked_within(function: Any) -> Any | None:
    schedule = tvm.s_tir.Schedule(function)
    is_changed = False
    for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
        users = schedule.get_consumers(block)
        if not _unpacks(schedule.get(block)) or not users or any(is_injective(schedule.get(user)) for user in users):
            continue
        block_size = _inputs_of_a_block(schedule.get(block))
        schedule.compute_inline(block)
        is_changed = True
        for user in users if block_size else ():
            _by_bytes(schedule, user, block_size)
    return _simplified(schedule.mod["main"]) if is_changed else None


def _simplified(function: Any) -> Any:
    """A function with indices that go without the divisions which its axes' extents make needless."""
    analyzer = tvm.sym.Analyzer()

    def bind(block: Any) -> None:
        for axis in block.iter_vars:
            analyzer.bind(axis.var, axis.dom)

    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, bind))
    steps = [(kind, analyzer.simplify) for kind in (tvm.tirx.FloorDiv, tvm.tirx.FloorMod)]
    return function.with_body(tvm_ffi.structural_map(function.body, steps))


def _unpacks(block: Any) -> bool:
    """Whether a block makes numbers of weights."""
    return str(block.name_hint).startswith(BLOCK) and is_injective(block)


def _inputs_of_a_block(block: Any) -> int:
    """How many inputs have their integers in a row of bytes, two in each; 0 where each has a byte of its own."""
    for load in loads_in(block.body.value):
        if dtype_name(load.source.ty) in SMALL and len(load.indices) == 3:
            return 2 * int(load.source.ty.shape[1])
    return 0


def _by_bytes(schedule: Any, block: Any, size: int) -> None:
    """Make the axis of a sum three, blocks, their bytes and these' halves, so that each byte is read where both are used."""
    statement = schedule.get(block)
    (axis,) = [axis for axis in statement.iter_vars if axis.iter_type != SPATIAL]
    place = next(number for number, one in enumerate(statement.iter_vars) if one.same_as(axis))
    if int(axis.dom.extent) % size:
        return  # what is left over would have to be told apart

    def halves(*indices: Any) -> list[Any]:
        sums = indices[place]
        return [*indices[:place], sums // size, sums % (size // 2), sums % size // (size // 2), *indices[place + 1 :]]

    schedule.transform_block_layout(
        block,
        tvm.tirx.IndexMap.from_func(halves, ndim=len(statement.iter_vars), index_dtype=str(axis.var.ty.dtype)),
    )
