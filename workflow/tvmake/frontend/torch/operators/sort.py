"""Sorts, and the k largest, with NaN as the largest value, which has no order in TVM.

``sort`` takes booleans and narrow integers, and ``topk`` gives an ordered result if any order is accepted.
Repair: `torch-integer-operators`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from tvm import relax  # isort: skip


def _largest(node: fx.Node, importer: Any) -> Any:
    names = ("input", "k", "dim", "largest")
    given = {"dim": -1, "largest": True, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    node.args, node.kwargs = tuple(given[name] for name in names), {}
    if not node.args[0].meta["val"].dtype.is_floating_point:
        return importer.create_convert_map()["topk.default"](node)
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    axis, largest = given["dim"], bool(given["largest"])
    places = emit(relax.op.topk(_without_nan(data, emit), given["k"], axis, "indices", largest, "int64"))
    return emit(relax.Tuple([emit(relax.op.gather_elements(data, places, axis=axis)), places]))


def _without_nan(data: Any, emit: Callable[[Any], Any]) -> Any:
    """Keys to order floating-point numbers by: NaN is the largest value, and without an order in TVM."""
    infinity = relax.const(math.inf, str(data.ty.dtype.dtype))
    return emit(relax.op.where(relax.op.isnan(data), infinity, data))


def _sorted(node: fx.Node, importer: Any) -> Any:
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    given = {
        "dim": -1,
        "descending": False,
        **dict(zip(("self", "dim", "descending"), node.args, strict=False)),
        **node.kwargs,
    }
    dtype = node.args[0].meta["val"].dtype
    is_narrow = not dtype.is_floating_point and dtype.itemsize < torch.int32.itemsize  # TVM sorts none of them
    keys = relax.op.astype(data, "int32") if is_narrow else data
    keys = _without_nan(data, emit) if dtype.is_floating_point else keys
    places = emit(relax.op.argsort(keys, given["dim"], given["descending"], dtype="int64"))
    return emit(relax.Tuple([emit(relax.op.gather_elements(data, places, axis=given["dim"])), places]))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {
    "sort.default": _sorted,
    "sort.stable": _sorted,  # the sorts of all targets are
    "topk.default": _largest,
}
"""By the operator's name."""
