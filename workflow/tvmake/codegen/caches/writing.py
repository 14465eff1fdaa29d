"""The kernel that writes new rows into a buffer."""

from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.codegen.caches.recognition import Append
from tvmake.ir.expressions import dtype_name

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


def _extent(size: Any, name: str) -> Any:
    return size if isinstance(size, tirx.IntImm) else tirx.Var(name, "int64")
