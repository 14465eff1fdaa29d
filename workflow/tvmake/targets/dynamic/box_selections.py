"""Select boxes into a tensor with as many rows as there can be.

Repair: `rows-of-selected-boxes`.
"""

from collections.abc import Callable
from typing import Any

import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.ir.dimensions import is_known

from tvm import relax, te, tirx, topi  # isort: skip

SELECT_BOXES = "relax.vision.all_class_non_max_suppression"


def _legalize_selection(builder: "relax.BlockBuilder", call: "relax.Call") -> Any:
    boxes, scores, limit, overlap, least = call.args
    batch, classes, count = scores.ty.shape
    if not isinstance(limit, tvm.ir.GenericConst) or call.attrs.output_format != "onnx":
        return call.op.get_attr("FLegalize")(builder, call)
    most = int(limit.value.numpy().item())
    if is_known(count):
        fewest = relax.const(min(most, int(count)), "int64")
        smaller = relax.Call(call.op, [boxes, scores, fewest, overlap, least], call.attrs, call.ty_args, call.span)
        return call.op.get_attr("FLegalize")(builder, builder.normalize(smaller))
    select = topi.vision.all_class_non_max_suppression
    # TensorFlow's form has a row for each class and box; ONNX's has as many as the limit, and sets them all to 0.
    selection = builder.call_te(select, boxes, scores, most, overlap, least, "tensorflow")
    pairs, _, numbers = (builder.emit(relax.TupleGetItem(selection, index)) for index in range(3))
    rows = builder.call_te(_rows, pairs, numbers, batch * classes * count, primfunc_name_hint="rows_of_boxes")
    number = builder.emit(relax.op.sum(numbers, keepdims=True))
    end = builder.call_te(_end, number, primfunc_name_hint="end_of_boxes")
    begin, strides = relax.const([0, 0], "int64"), relax.const([1, 1], "int64")
    return relax.Tuple([builder.emit(relax.op.dynamic_strided_slice(rows, begin, end, strides)), number])


def _rows(pairs: Any, numbers: Any, count: Any) -> Any:
    """Rows (batch, class, box), those of one batch after those of another."""

    def body(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder:
            with T.seq_scope():
                (chosen, chosen_numbers), rows = map(T.buffer_proxy, inputs), T.buffer_proxy(outputs[0])
                first = T.buffer_proxy(T.decl_buffer([1], "int64", scope="local"))
                first[0] = tirx.const(0, "int64")
                with T.serial(0, numbers.shape[0]) as batch:
                    with T.serial(tirx.const(0, "int64"), chosen_numbers[batch]) as index:
                        rows[first[0] + index, 0] = tirx.Cast("int64", batch)
                        rows[first[0] + index, 1] = chosen[batch, index, 0]
                        rows[first[0] + index, 2] = chosen[batch, index, 1]
                    first[0] = first[0] + chosen_numbers[batch]
            return builder.get()

    return te.extern([(count, 3)], [pairs, numbers], body, dtype=["int64"], name="rows_of_boxes", tag="rows_of_boxes")


def _end(number: Any) -> Any:
    three = tirx.const(3, "int64")
    return te.compute((2,), lambda axis: tirx.if_then_else(axis == 0, tirx.Cast("int64", number[0]), three), name="end")


BOX_SELECTIONS: dict[str, Callable[["relax.BlockBuilder", "relax.Call"], Any]] = {SELECT_BOXES: _legalize_selection}
"""Legalisations for ``LegalizeOps``."""
