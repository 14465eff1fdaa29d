"""Converters for operators on dynamic axes that TVM's importer converts only for fixed sizes.

``empty`` (circular padding writes all its elements), ``var`` and ``std``, ``reshape`` and ``view``, and ``squeeze``,
which keeps dynamic axes as PyTorch does. Repair: `torch-dynamic-axes`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tvm_ffi
from torch import fx

from tvmake.frontend.lowering.dimension_values import whole_number
from tvmake.frontend.torch.program import dtype_name

from tvm import relax  # isort: skip


def variance(node: fx.Node, importer: Any) -> Any:
    """Convert a variance with a correction."""
    value, emit = node.args[0].meta["val"], importer.block_builder.emit
    axes = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    axes = [axis % value.dim() for axis in axes or range(value.dim())]
    correction = node.kwargs.get("correction")
    correction = 1 if correction is None else correction
    if correction == 0 or all(isinstance(value.shape[axis], int) for axis in axes):
        return importer.create_convert_map()["var.correction"](node)
    data = importer.env[node.args[0]]
    dtype, count = str(data.ty.dtype.dtype), 1
    for axis in axes:
        count = data.ty.shape[axis] * count
    size = emit(relax.op.astype(whole_number(count), dtype))
    biased = emit(relax.op.variance(data, axes, keepdims=bool(node.kwargs.get("keepdim", False))))
    degrees = relax.op.maximum(relax.op.subtract(size, relax.const(correction, dtype)), relax.const(0, dtype))
    return emit(relax.op.multiply(biased, emit(relax.op.divide(size, emit(degrees)))))


def _standard_deviation(node: fx.Node, importer: Any) -> Any:
    if all(isinstance(extent, int) for extent in node.args[0].meta["val"].shape):
        return importer.create_convert_map()["std.correction"](node)
    return importer.block_builder.emit(relax.op.sqrt(variance(node, importer)))


def _squeeze(node: fx.Node, importer: Any) -> Any:
    value, name = node.args[0].meta["val"], node.target.__name__
    if all(isinstance(extent, int) for extent in value.shape):
        return importer.create_convert_map()[name](node)
    axes = node.args[1] if len(node.args) > 1 else list(range(value.dim()))
    axes = [axis % value.dim() for axis in (axes if isinstance(axes, list | tuple) else [axes])]
    axes = [axis for axis in axes if isinstance(value.shape[axis], int) and value.shape[axis] == 1]
    data = importer.env[node.args[0]]
    return importer.block_builder.emit(relax.op.squeeze(data, axes)) if axes else data


def _reshape(node: fx.Node, importer: Any) -> Any:
    name, data = node.target.__name__, importer.env[node.args[0]]
    extents = (*node.args[0].meta["val"].shape, *node.meta["val"].shape)
    if all(isinstance(extent, int) for extent in extents):
        return importer.create_convert_map()[name](node)
    shape = importer.retrieve_args(node)[1]
    is_same = tvm_ffi.structural_equal(relax.ShapeExpr(shape), data.ty.shape)
    return data if is_same else importer._emit_torch_reshape(data, shape)


def _empty(node: fx.Node, importer: Any) -> Any:
    if all(isinstance(extent, int) for extent in node.meta["val"].shape):
        return importer.create_convert_map()["empty.memory_format"](node)
    dtype = dtype_name(node)
    return importer.block_builder.emit(relax.op.zeros(relax.ShapeExpr(importer.retrieve_args(node)[0]), dtype))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "var.correction": variance,
    "std.correction": _standard_deviation,
    "empty.memory_format": _empty,
    **dict.fromkeys(("reshape.default", "view.default"), _reshape),
    **dict.fromkeys(("squeeze.default", "squeeze.dim", "squeeze.dims"), _squeeze),
}
"""Converters by the operator's name."""
