"""Dequantise integer weights inside the sums that read them, so that no kernel keeps a float copy.

Before this pass (``quantize.weights.holding``) one block dequantises all weights, and another one multiplies. GPU rules
inline the first block into the loads of the second, one tile at a time. CPU rules and the search would run it first, so
it is inlined here.
"""

from typing import Any

import tvm
import tvm_ffi

from tvmake.ir.expressions import dtype_name
from tvmake.targets.cpu.schedules.accesses import SPATIAL, is_injective, loads_in

from tvm.s_tir.dlight import analysis  # isort: skip

SMALL = ("int8", "uint8")

BLOCK = "unpacked"
"""Name prefix of the blocks, set by ``quantize.weights.holding``."""


def unpack_in_sums(module: "tvm.IRModule") -> "tvm.IRModule":
    """Inline blocks that unpack weights into the sums that read them."""
    functions = dict(module.functions_items())
    for variable, function in functions.items():
        if isinstance(function, tvm.tirx.PrimFunc) and isinstance(function.body, tvm.s_tir.SBlockRealize):
            unpacked = _unpack_weights(function)
            functions[variable] = function if unpacked is None else function.with_body(unpacked.body)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def _unpack_weights(function: Any) -> Any | None:
    schedule = tvm.s_tir.Schedule(function)
    is_changed = False
    for block in schedule.get_child_blocks(analysis.get_root_block(schedule)):
        users = schedule.get_consumers(block)
        if (
            not is_unpacking(schedule.get(block))
            or not users
            or any(is_injective(schedule.get(user)) for user in users)
        ):
            continue
        block_size = _packed_block_size(schedule.get(block))
        schedule.compute_inline(block)
        is_changed = True
        for user in users if block_size else ():
            _split_axis_by_bytes(schedule, user, block_size)
    return _simplify_indices(schedule.mod["main"]) if is_changed else None


def _simplify_indices(function: Any) -> Any:
    """Remove divisions from indices that the extents of the axes make redundant."""
    analyzer = tvm.sym.Analyzer()

    def bind(block: Any) -> None:
        for axis in block.iter_vars:
            analyzer.bind(axis.var, axis.dom)

    tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, bind))
    callbacks = [(kind, analyzer.simplify) for kind in (tvm.tirx.FloorDiv, tvm.tirx.FloorMod)]
    return function.with_body(tvm_ffi.structural_map(function.body, callbacks))


def is_unpacking(block: Any) -> bool:
    """Whether a block dequantises weights."""
    return str(block.name_hint).startswith(BLOCK) and is_injective(block)


def _packed_block_size(block: Any) -> int:
    """Inputs whose integers share a row of bytes, two in each; 0 if each integer has its own byte."""
    for load in loads_in(block.body.value):
        if dtype_name(load.source.ty) in SMALL and len(load.indices) == 3:
            return 2 * int(load.source.ty.shape[1])
    return 0


def _split_axis_by_bytes(schedule: Any, block: Any, size: int) -> None:
    """Split a sum's axis into blocks, bytes and halves of bytes, so that each byte is read once for both halves."""
    statement = schedule.get(block)
    (axis,) = [axis for axis in statement.iter_vars if axis.iter_type != SPATIAL]
    position = next(number for number, candidate in enumerate(statement.iter_vars) if candidate.same_as(axis))
    if int(axis.dom.extent) % size:
        return  # a remainder would need separate code

    def halves(*indices: Any) -> list[Any]:
        sums = indices[position]
        split = (sums // size, sums % (size // 2), sums % size // (size // 2))
        return [*indices[:position], *split, *indices[position + 1 :]]

    schedule.transform_block_layout(
        block,
        tvm.tirx.IndexMap.from_func(halves, ndim=len(statement.iter_vars), index_dtype=str(axis.var.ty.dtype)),
    )
