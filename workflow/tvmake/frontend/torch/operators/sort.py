"""Convert sorts and top-k with NaN as the largest value; TVM does not order NaN.

``sort`` accepts booleans and narrow integers, and ``topk`` always returns an ordered result.
Repair: `torch-integer-operators`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvm import relax  # isort: skip


def _topk(node: fx.Node, importer: Any) -> Any:
    names = ("input", "k", "dim", "largest")
    arguments = {"dim": -1, "largest": True, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    node.args, node.kwargs = tuple(arguments[name] for name in names), {}
    if not node.args[0].meta["val"].dtype.is_floating_point:
        return importer.create_convert_map()["topk.default"](node)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    axis, largest = arguments["dim"], bool(arguments["largest"])
    indices = emit(relax.op.topk(_sort_keys(data, emit), arguments["k"], axis, "indices", largest, "int64"))
    return emit(relax.Tuple([emit(relax.op.gather_elements(data, indices, axis=axis)), indices]))


def _sort_keys(data: Any, emit: Callable[[Any], Any]) -> Any:
    """Sort keys of floating-point values: infinity for NaN, which TVM does not order."""
    infinity = relax.const(math.inf, str(data.ty.dtype.dtype))
    return emit(relax.op.where(relax.op.isnan(data), infinity, data))


def _sort(node: fx.Node, importer: Any) -> Any:
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    arguments = {
        "dim": -1,
        "descending": False,
        **dict(zip(("self", "dim", "descending"), node.args, strict=False)),
        **node.kwargs,
    }
    dtype = node.args[0].meta["val"].dtype
    is_narrow = not dtype.is_floating_point and dtype.itemsize < torch.int32.itemsize  # TVM does not sort these
    keys = relax.op.astype(data, "int32") if is_narrow else data
    keys = _sort_keys(data, emit) if dtype.is_floating_point else keys
    indices = emit(relax.op.argsort(keys, arguments["dim"], arguments["descending"], dtype="int64"))
    return emit(relax.Tuple([emit(relax.op.gather_elements(data, indices, axis=arguments["dim"])), indices]))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "sort.default": _sort,
    "sort.stable": _sort,  # the sorts of all targets are stable
    "topk.default": _topk,
}
"""Converters by the operator's name."""
