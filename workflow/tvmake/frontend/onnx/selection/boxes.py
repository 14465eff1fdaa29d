"""Select boxes with limits and thresholds that depend on the data: TVM's importer takes constants only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvmake.frontend.lowering.bitcast import bitcast
from tvmake.frontend.lowering.nonzero import REASON, emit_nonzero
from tvmake.frontend.onnx.dynamic.shape_values import ShapeValues
from tvmake.ir.attributes import CPU_ONLY

from tvm import relax, tirx  # isort: skip


def select_boxes(extents: ShapeValues, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any | None:
    """The rows (batch, class, box) of a NonMaxSuppression; None leaves constant limits and thresholds to TVM's importer.

    Like ONNX, it suppresses boxes above the threshold, TVM's operator also those at it: it gets the next larger number.
    """
    builder, emit = extents.builder, extents.builder.emit
    boxes, scores = inputs[:2]
    limit, overlap, least = (inputs[index] if index < len(inputs) else None for index in (2, 3, 4))
    if all(value is None or isinstance(value, tvm.ir.GenericConst) for value in (limit, overlap, least)):
        return None
    least = relax.const(np.finfo(np.float32).min, "float32") if least is None else _scalar(builder, least)
    if overlap is None:
        above = relax.const(np.nextafter(np.float32(0), np.float32(1)), "float32")
    else:
        bits = emit(relax.op.add(bitcast(builder, _scalar(builder, overlap), "int32"), relax.const(1, "int32")))
        above = bitcast(builder, bits, "float32")
    is_limited = limit is not None and not isinstance(limit, tvm.ir.GenericConst)
    most = int(boxes.ty.shape.values[1]) if is_limited else 0 if limit is None else int(limit.value.numpy().item())
    call = relax.op.vision.all_class_non_max_suppression(
        boxes, scores, relax.const(most, "int64"), above, least, output_format="onnx"
    )
    selected = emit(relax.TupleGetItem(emit(call), 0))
    of_any_size = builder.match_cast(selected, relax.TensorType(dtype="int64", ndim=2))
    count = tirx.Var(builder.get_unique_name("selected"), "int64")
    rows = builder.match_cast(of_any_size, relax.TensorType((count, 3), "int64"))
    if not is_limited:
        return rows
    arguments = [rows, emit(relax.op.astype(_scalar(builder, limit), "int64"))]
    mask = relax.call_tir(builder.add_func(_first_rows(), "first_boxes"), arguments, relax.TensorType((count,), "bool"))
    kept = emit(relax.op.squeeze(emit_nonzero(builder, emit(mask)), 0))
    return relax.op.take(rows, kept, 0)


def _scalar(builder: Any, value: Any) -> Any:
    return value if value.ty.ndim == 0 else builder.emit(relax.op.reshape(value, []))


def _first_rows() -> "tvm.tirx.PrimFunc":
    """A kernel that marks the first rows of each batch and class; rows of one are together, by falling scores."""
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name("first_boxes")
            T.func_attr({"tirx.is_scheduled": True, "op_pattern": 8, "tirx.noalias": True, CPU_ONLY: REASON})
            count = tirx.Var("count", "int64")
            rows = IRBuilder.name("rows", T.match_buffer(T.arg("rows_handle", T.handle()), (count, 3), "int64"))
            most = IRBuilder.name("most", T.match_buffer(T.arg("most_handle", T.handle()), (), "int64"))
            mask = IRBuilder.name("mask", T.match_buffer(T.arg("mask_handle", T.handle()), (count,), "bool"))
            with T.sblock("root"):
                rank = IRBuilder.name("rank", T.alloc_buffer((1,), "int64", scope="local"))
                T.buffer_store(rank, tirx.const(0, "int64"), [0])
                with T.serial(tirx.const(0, "int64"), count) as row:
                    before = tirx.max(row - 1, tirx.const(0, "int64"))
                    is_next = tirx.all(row > 0, rows[row, 0] == rows[before, 0], rows[row, 1] == rows[before, 1])
                    T.buffer_store(rank, tirx.Select(is_next, rank[0] + 1, tirx.const(0, "int64")), [0])
                    T.buffer_store(mask, rank[0] < most[()], [row])
        return builder.get()
