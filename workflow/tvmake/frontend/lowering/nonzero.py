"""Indices of the elements that are not zero: one kernel counts them, and another one writes them.

The number of columns is a dimension whose size the first kernel determines. The kernels are loops for one CPU core.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.ir.attributes import CPU_ONLY
from tvmake.ir.dimensions import Extent, is_known

from tvm import relax, tirx  # isort: skip

REASON = "elements that the data select"


def emit_nonzero(builder: Any, data: Any) -> Any:
    """Emit the indices int64 [rank, count] of a tensor's elements that are not zero, in the order of the elements.

    Args:
        builder: Relax's block builder.
        data: a tensor with at least one axis.
    """
    dtype, rank = str(data.ty.dtype.dtype), int(data.ty.ndim)
    shape = [
        int(size) if is_known(size) else tirx.Var(f"n{axis}", "int64") for axis, size in enumerate(data.ty.shape.values)
    ]
    count = _call(builder, _count_kernel(shape, dtype), "count_nonzero", data, relax.TensorType((1,), "int64"))
    size = tirx.Var(builder.get_unique_name("nonzero"), "int64")
    builder.match_cast(builder.emit(relax.op.tensor_to_shape(count)), relax.ShapeType([size]))
    return _call(builder, _index_kernel(shape, dtype), "nonzero", data, relax.TensorType((rank, size), "int64"))


def _call(builder: Any, kernel: "tvm.tirx.PrimFunc", name: str, data: Any, result: Any) -> Any:
    return builder.emit(relax.call_tir(builder.add_func(kernel, name), [data], result))


def _count_kernel(shape: Sequence[Extent], dtype: str) -> "tvm.tirx.PrimFunc":
    def write(count: Any, data: Any, indices: Sequence[Any], counter: Any) -> None:
        T.buffer_store(counter, counter[0] + tirx.Cast("int64", _is_nonzero(data, indices, dtype)), [0])

    return _kernel(shape, dtype, (1,), write, lambda count, counter: T.buffer_store(count, counter[0], [0]))


def _index_kernel(shape: Sequence[Extent], dtype: str) -> "tvm.tirx.PrimFunc":
    def write(result: Any, data: Any, indices: Sequence[Any], counter: Any) -> None:
        with T.If(_is_nonzero(data, indices, dtype)), T.Then():
            for axis, index in enumerate(indices):
                T.buffer_store(result, tirx.Cast("int64", index), [axis, counter[0]])
            T.buffer_store(counter, counter[0] + 1, [0])

    return _kernel(shape, dtype, (len(shape), tirx.Var("count", "int64")), write)


def _kernel(
    shape: Sequence[Extent],
    dtype: str,
    result_shape: Sequence[Extent],
    write_element: Callable[..., None],
    write_end: Callable[[Any, Any], None] = lambda result, counter: None,
) -> "tvm.tirx.PrimFunc":
    """A loop over all elements with a counter that begins at 0."""
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("nonzero")
            T.func_attr({"tirx.is_scheduled": True, "op_pattern": 8, "tirx.noalias": True, CPU_ONLY: REASON})
            data = IRBuilder.name("data", T.match_buffer(T.arg("data_handle", T.handle()), shape, dtype))
            result = IRBuilder.name("result", T.match_buffer(T.arg("result_handle", T.handle()), result_shape, "int64"))
            with T.sblock("root"):
                counter = IRBuilder.name("counter", T.alloc_buffer((1,), "int64", scope="local"))
                T.buffer_store(counter, tirx.const(0, "int64"), [0])
                with T.grid(*shape) as indices:
                    write_element(result, data, list(indices) if len(shape) > 1 else [indices], counter)
                write_end(result, counter)
        return builder.get()


def _is_nonzero(data: Any, indices: Sequence[Any], dtype: str) -> Any:
    value = data[tuple(indices)]
    return value if dtype == "bool" else value != tirx.const(0, dtype)
