"""Find the distinct elements or slices of a tensor, in one kernel for one CPU core.

The kernel sorts the slices' indices by merging, which keeps the order of equal slices: the first of them is the first occurrence.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.frontend.lowering.nonzero import REASON
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues
from tvmake.ir.attributes import CPU_ONLY

from tvm import relax, tirx  # isort: skip


def find_unique(extents: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The distinct slices along an axis (all elements without one), their first indices, the inverse and the counts."""
    builder, emit = extents.builder, extents.builder.emit
    data, axis = inputs[0], attributes.get("axis")
    if axis is None:
        data, axis = emit(relax.op.reshape(data, (-1,))), 0
    axis %= data.ty.ndim
    length = data.ty.shape.values[axis]
    others = [number for number in range(data.ty.ndim) if number != axis]
    front = data if axis == 0 else emit(relax.op.permute_dims(data, [axis, *others]))
    width = tirx.IntImm("int64", 1)
    for number in others:
        width = width * data.ty.shape.values[number]
    rows = emit(relax.op.reshape(front, [length, width]))
    is_sorted = bool(attributes.get("sorted", 1))
    kernel = builder.add_func(_kernel(str(data.ty.dtype.dtype), is_sorted), "unique")
    lists = [relax.TensorType((length,), "int64")] * 3
    results = emit(relax.call_tir(kernel, [rows], [*lists, relax.TensorType((1,), "int64")]))
    first, inverse, counts, count = (emit(relax.TupleGetItem(results, index)) for index in range(4))
    size = tirx.Var(builder.get_unique_name("distinct"), "int64")
    builder.match_cast(emit(relax.op.tensor_to_shape(count)), relax.ShapeType([size]))
    first, counts = (
        emit(relax.op.strided_slice(value, [0], [0], [size], assume_inbound=True)) for value in (first, counts)
    )
    distinct = emit(relax.op.take(data, first, axis))
    number = attributes["tvm_custom"]["num_outputs"]
    fields = [distinct, first, inverse, counts][:number]
    return relax.Tuple(fields) if number > 1 else distinct


def _kernel(dtype: str, is_sorted: bool) -> "tvm.tirx.PrimFunc":
    """From rows [n, m] to int64 [n]: first indices and counts of the distinct rows, the inverse; and their number, int64 [1]."""
    zero, one = (tirx.const(value, "int64") for value in (0, 1))
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("unique")
            T.func_attr({"tirx.is_scheduled": True, "op_pattern": 8, "tirx.noalias": True, CPU_ONLY: REASON})
            n, m = tirx.Var("n", "int64"), tirx.Var("m", "int64")
            rows = IRBuilder.name("rows", T.match_buffer(T.arg("rows_handle", T.handle()), (n, m), dtype))
            first, inverse, counts = (
                IRBuilder.name(name, T.match_buffer(T.arg(f"{name}_handle", T.handle()), (n,), "int64"))
                for name in ("first", "inverse", "counts")
            )
            number = IRBuilder.name("number", T.match_buffer(T.arg("number_handle", T.handle()), (1,), "int64"))
            with T.sblock("root"):
                order, merged = (IRBuilder.name(name, T.alloc_buffer((n,), "int64")) for name in ("order", "merged"))
                state = IRBuilder.name("state", T.alloc_buffer((5,), "int64", scope="local"))
                width, left, right, start, difference = (_Cell(state, index) for index in range(5))

                def compare(before: Any, after: Any) -> None:
                    """Store -1, 0 or 1 for rows that are in ascending order, equal or in descending order."""
                    difference.set(zero)
                    with T.serial(zero, m) as column, T.If(difference.get() == zero), T.Then():
                        a, b = rows[before, column], rows[after, column]
                        is_less, is_greater = (a < b, b < a) if dtype != "bool" else (_less(a, b), _less(b, a))
                        unequal = tirx.Select(is_less, -one, tirx.Select(is_greater, one, zero))
                        difference.set(unequal)

                with T.serial(zero, n) as row:
                    T.buffer_store(order, row, [row])
                width.set(one)
                with T.While(width.get() < n):
                    start.set(zero)
                    with T.While(start.get() < n):
                        middle = tirx.min(start.get() + width.get(), n)
                        end = tirx.min(start.get() + width.get() * 2, n)
                        left.set(start.get())
                        right.set(middle)
                        with T.serial(zero, end - start.get()) as position:
                            difference.set(one)
                            with T.If(right.get() >= end), T.Then():
                                difference.set(-one)
                            with T.If(tirx.all(left.get() < middle, right.get() < end)), T.Then():
                                compare(order[left.get()], order[right.get()])
                            with T.If(difference.get() <= zero):
                                with T.Then():
                                    T.buffer_store(merged, order[left.get()], [start.get() + position])
                                    left.set(left.get() + one)
                                with T.Else():
                                    T.buffer_store(merged, order[right.get()], [start.get() + position])
                                    right.set(right.get() + one)
                        start.set(start.get() + width.get() * 2)
                    with T.serial(zero, n) as row:
                        T.buffer_store(order, merged[row], [row])
                    width.set(width.get() * 2)

                left.set(zero)  # the number of distinct rows so far
                with T.serial(zero, n) as position:
                    difference.set(one)
                    with T.If(position > zero), T.Then():
                        compare(order[tirx.max(position - one, zero)], order[position])
                    with T.If(difference.get() != zero), T.Then():
                        T.buffer_store(first, order[position], [left.get()])
                        T.buffer_store(counts, zero, [left.get()])
                        left.set(left.get() + one)
                    T.buffer_store(inverse, left.get() - one, [order[position]])
                    T.buffer_store(counts, counts[left.get() - one] + one, [left.get() - one])
                T.buffer_store(number, left.get(), [0])
                if not is_sorted:
                    # Number the rows by their first occurrence; `order` has the new numbers, `merged` the counts.
                    left.set(zero)
                    with T.serial(zero, n) as row, T.If(first[inverse[row]] == row), T.Then():
                        T.buffer_store(order, left.get(), [inverse[row]])
                        T.buffer_store(merged, counts[inverse[row]], [left.get()])
                        left.set(left.get() + one)
                    left.set(zero)
                    with T.serial(zero, n) as row:
                        T.buffer_store(inverse, order[inverse[row]], [row])
                        with T.If(inverse[row] == left.get()), T.Then():
                            T.buffer_store(first, row, [left.get()])
                            T.buffer_store(counts, merged[left.get()], [left.get()])
                            left.set(left.get() + one)
        return builder.get()


def _less(first: Any, second: Any) -> Any:
    """Whether one boolean is less than another one."""
    return tirx.all(tirx.Not(first), second)


class _Cell:
    """A number that a kernel changes."""

    def __init__(self, buffer: Any, index: int):
        self.buffer, self.index = buffer, index

    def get(self) -> Any:
        return self.buffer[self.index]

    def set(self, value: Any) -> None:
        T.buffer_store(self.buffer, value, [self.index])
