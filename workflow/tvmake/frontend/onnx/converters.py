"""Convert operators that TVM's importer for ONNX lacks and that no other ONNX operators express.

``Clip``: an operator of Relax. Repair: `onnx-written-kernels`.
``Resize``: scales dynamic dimensions by floating-point factors.
``Elu``, ``Celu`` and ``Selu``: keep the digits near zero. Repair: `digits-near-zero`.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tvm
from onnx import helper

from tvmake.frontend.lowering import stable_math
from tvmake.frontend.lowering.bitcast import bitcast
from tvmake.frontend.lowering.nonzero import emit_nonzero
from tvmake.frontend.lowering.tables import merge_tables
from tvmake.frontend.onnx.dynamic import padding, shaped_operators
from tvmake.frontend.onnx.dynamic.resize import convert_resize
from tvmake.frontend.onnx.dynamic.shaped_operators import Converter
from tvmake.frontend.onnx.recurrent import CELLS, convert_recurrent
from tvmake.frontend.onnx.selection.boxes import select_boxes
from tvmake.frontend.onnx.selection.unique import find_unique

from tvm import relax  # isort: skip


def _bit_cast(builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    """Booleans are bytes of 0 and 1."""
    data = inputs[0]
    dtype = helper.tensor_dtype_to_np_dtype(attributes["to"]).name
    if "bool" in (dtype, str(data.ty.dtype.dtype)):
        return relax.op.astype(relax.op.astype(data, "uint8"), dtype)
    return bitcast(builder, data, dtype)


def _clip(builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    """Apply the lower bound first: bounds that cross give the upper one. A NaN bound is ignored."""
    data = inputs[0]
    if not isinstance(data.ty, relax.TensorType):
        return None  # an extent
    dtype = str(data.ty.dtype.dtype)
    limits = [attributes.get("min"), attributes.get("max")]  # before opset 11
    bounds = [
        relax.const(value, dtype) if value is not None else inputs[index] for index, value in enumerate(limits, start=1)
    ]
    low, high = map(_number, bounds)
    if dtype.startswith("float") and low is not None and high is not None and low <= high:
        return relax.op.clip(data, low, high)
    for bound, operator, infinity in zip(
        bounds, (relax.op.maximum, relax.op.minimum), (-math.inf, math.inf), strict=True
    ):
        if bound is not None:
            if dtype.startswith("float"):
                bound = builder.emit(relax.op.where(relax.op.isnan(bound), relax.const(infinity, dtype), bound))
            data = builder.emit(operator(data, bound))
    return data


def _number(bound: Any) -> float | None:
    return float(bound.value.numpy()) if isinstance(bound, tvm.ir.GenericConst) else None


def _elu(_builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    return stable_math.elu(inputs[0], float(attributes.get("alpha", 1.0)))


def _selu(_builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    alpha, scale = (float(attributes.get(name, default)) for name, default in SELU.items())
    return stable_math.elu(inputs[0], alpha, scale)


SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
"""Defaults of ONNX's specification."""


def _nonzero(builder: Any, inputs: Any, _attributes: Mapping[str, Any]) -> Any:
    return emit_nonzero(builder, inputs[0])


def _compress(builder: Any, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    data, condition = inputs
    axis = attributes.get("axis")
    if axis is None:
        data, axis = builder.emit(relax.op.reshape(data, (-1,))), 0
    rows = builder.emit(relax.op.squeeze(emit_nonzero(builder, condition), 0))
    return relax.op.take(data, rows, axis)


def _with_builder(convert: Callable[[Any, Any, Mapping[str, Any]], Any]) -> Converter:
    """A converter from a function that takes the builder only."""
    return lambda extents, inputs, attributes: convert(extents.builder, inputs, attributes)


CONVERTERS: Mapping[str, Converter] = merge_tables(
    shaped_operators.CONVERTERS,
    {
        "AveragePool": _with_builder(padding.average_pool),
        "BitCast": _with_builder(_bit_cast),
        "Clip": _with_builder(_clip),
        "Conv": _with_builder(padding.convolution),
        "Compress": _with_builder(_compress),
        "Elu": _with_builder(_elu),
        "MaxPool": _with_builder(padding.max_pool),
        "NonMaxSuppression": select_boxes,
        "NonZero": _with_builder(_nonzero),
        "Resize": convert_resize,
        "Selu": _with_builder(_selu),
        "Unique": find_unique,
        "SpaceToDepth": _with_builder(padding.space_to_depth),
        **{operator: partial(convert_recurrent, operator) for operator in CELLS},
    },
)
"""Converters by the operator's name in a prepared graph; TVM's importer converts all other operators."""
