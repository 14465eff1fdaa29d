"""The kernels that write new rows into a buffer."""

from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.codegen.caches.recognition import Append
from tvmake.ir.expressions import dtype_name, is_call
from tvmake.ir.views import View

from tvm import tirx  # isort: skip

OPAQUE = 8
"""``OpPatternKind.kOpaque``: TVM cannot fuse a kernel that writes in place."""


def append_kernel(append: Append, new: Any, buffer: Any) -> "tvm.tirx.PrimFunc":
    """The kernel, for a tensor of new rows and a buffer of these types; its last argument is the number of rows before."""
    shape = [_extent(size, f"n{axis}") for axis, size in enumerate(new.shape.values)]
    full = [_extent(size, f"m{axis}") for axis, size in enumerate(buffer.shape.values)]
    dtype = dtype_name(buffer)
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("append_rows")
            T.func_attr({"op_pattern": OPAQUE, "tirx.noalias": True})
            target = IRBuilder.name("cache", T.match_buffer(T.arg("cache_handle", T.handle()), full, dtype))
            rows = IRBuilder.name("rows", T.match_buffer(T.arg("rows_handle", T.handle()), shape, dtype_name(new)))
            past = T.arg("past", T.int64())
            with T.grid(*shape) as loops:
                loops = [loops] if len(shape) == 1 else list(loops)
                with T.sblock("append"):
                    given = T.axis.remap("S" * len(shape), loops)
                    given = [given] if len(shape) == 1 else list(given)
                    shifted = [i + past if axis == append.axis else i for axis, i in enumerate(given)]
                    position = append.view.index(shifted)
                    T.reads(rows[tuple(given)])
                    T.writes(target[tuple(position)])
                    value = rows[tuple(given)]
                    value = value if dtype == dtype_name(new) else tirx.Cast(dtype, value)
                    T.buffer_store(target, value, position)
        return builder.get()


def scatter_kernel(call: Any, view: View, buffer: Any) -> "tvm.tirx.PrimFunc":
    """The kernel of ``scatter_elements`` or ``scatter_nd``, for the buffer, the positions and the new values.

    Positions beyond the buffer are left out.

    Args:
        view: what it scatters into, as a view of the buffer.
    """
    _, positions, updates = (argument.ty for argument in call.args)
    shape = list(updates.shape.values)
    rank, dtype = len(view.shape), dtype_name(buffer)
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("scatter_rows")
            T.func_attr({"op_pattern": OPAQUE, "tirx.noalias": True})
            full = list(buffer.shape.values)
            target = IRBuilder.name("cache", T.match_buffer(T.arg("cache_handle", T.handle()), full, dtype))
            numbers = IRBuilder.name(
                "positions",
                T.match_buffer(
                    T.arg("positions_handle", T.handle()), list(positions.shape.values), dtype_name(positions)
                ),
            )
            rows = IRBuilder.name("rows", T.match_buffer(T.arg("rows_handle", T.handle()), shape, dtype))
            with T.grid(*shape) as loops:
                loops = [loops] if len(shape) == 1 else list(loops)
                with T.sblock("scatter"):
                    given = T.axis.remap("S" * len(shape), loops)
                    given = [given] if len(shape) == 1 else list(given)
                    if is_call(call, "scatter_elements"):
                        axis = int(call.attrs.axis) % rank
                        chosen = {axis: numbers[tuple(given)]}
                        indices = list(given)
                    else:
                        count, depth = len(positions.shape.values) - 1, int(positions.shape.values[-1])
                        chosen = {axis: numbers[(*given[:count], tirx.IntImm("int64", axis))] for axis in range(depth)}
                        indices = [*[None] * depth, *given[count:]]
                    is_valid: Any = tirx.IntImm("bool", True)
                    for axis, number in chosen.items():
                        index = tirx.Cast("int64", number) if dtype_name(positions) != "int64" else number
                        index = tirx.Select(index < 0, index + view.shape[axis], index)
                        is_valid = tirx.all(is_valid, index >= 0, index < view.shape[axis])
                        indices[axis] = index
                    T.reads(rows[tuple(given)], numbers[tuple(slice(0, size) for size in positions.shape.values)])
                    T.writes(target[tuple(slice(0, size) for size in full)])
                    with T.If(is_valid), T.Then():
                        T.buffer_store(target, rows[tuple(given)], view.index(indices))
        return builder.get()


def _extent(size: Any, name: str) -> Any:
    return size if isinstance(size, tirx.IntImm) else tirx.Var(name, "int64")
