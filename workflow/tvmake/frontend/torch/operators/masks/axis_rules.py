"""Rules for operators on an axis of selected elements: element-wise, or with a reduction and its neutral element."""

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

VIEWS = frozenset({aten.view.default, aten.reshape.default, aten._unsafe_view.default})

WITH_SIZES = VIEWS | {aten.expand.default, aten.full.default}
"""Operators with sizes as arguments."""

_ELEMENTWISE = VIEWS | {
    aten.expand.default, aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.permute.default,
    aten.transpose.int, aten.t.default, aten.clone.default, aten.alias.default, aten.detach.default, aten._to_copy.default,
    aten.full_like.default, aten.zeros_like.default, aten.ones_like.default, aten.constant_pad_nd.default,
}  # fmt: skip

_AXES: dict[Any, tuple[int, Any]] = {
    **dict.fromkeys(
        (
            aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default, aten.prod.dim_int, aten.any.dim, aten.any.dims,
            aten.all.dim, aten.all.dims, aten.max.dim, aten.min.dim, aten.var.correction, aten.flip.default, aten._softmax.default,
            aten._log_softmax.default, aten.cumsum.default, aten.select.int, aten.index_select.default, aten.gather.default,
            aten.logsumexp.default,
        ),
        (1, None),
    ),
    aten.argmax.default: (1, None),
    aten.argmin.default: (1, None),
    aten.slice.Tensor: (1, 0),
    aten.sort.default: (1, -1),
    aten.topk.default: (2, -1),
    aten.split_with_sizes.default: (2, 0),
}  # fmt: skip
"""The position of an operator's axes among its arguments, and their default."""

_ALL_AXES = frozenset(
    {aten.sum.default, aten.mean.default, aten.max.default, aten.min.default, aten.any.default, aten.all.default, aten.prod.default}
)  # fmt: skip

MEANS = frozenset({aten.mean.dim, aten.mean.default})

CUMULATIVE = frozenset({aten._softmax.default, aten._log_softmax.default, aten.cumsum.default})
"""Operators that combine elements along an axis and keep it."""

NEUTRAL: dict[Any, float] = {
    **dict.fromkeys(
        (aten.sum.dim_IntList, aten.sum.default, aten.cumsum.default, aten.any.dim, aten.any.dims, aten.any.default), 0
    ),
    **dict.fromkeys((aten.prod.dim_int, aten.prod.default, aten.all.dim, aten.all.dims, aten.all.default), 1),
    **dict.fromkeys(
        (
            aten.amax.default, aten.max.default, aten.max.dim, aten._softmax.default, aten._log_softmax.default, aten.logsumexp.default,
        ),
        float("-inf"),
    ),
    **dict.fromkeys((aten.amin.default, aten.min.default, aten.min.dim), float("inf")),
}  # fmt: skip
"""Neutral elements of reductions."""

MATMULS = frozenset({aten.mm.default, aten.bmm.default, aten.addmm.default})

LOOKUPS = frozenset({aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.embedding.default})

WRITES = frozenset(
    {
        aten.index_put.default, aten.scatter.src, aten.scatter.value, aten.scatter_add.default, aten.scatter_reduce.two,
        aten.scatter.reduce, aten.scatter.value_reduce,
    }
)  # fmt: skip


def axes_of(node: fx.Node, rank: int) -> tuple[int, ...] | None:
    """The axes of its first argument along which an operator combines or selects elements; None if unknown."""
    target = node.target
    if target in _ELEMENTWISE:
        if target is aten.constant_pad_nd.default:
            padded = node.args[1]
            return tuple(
                rank - 1 - index for index in range(len(padded) // 2) if any(padded[2 * index : 2 * index + 2])
            )
        return ()
    if target in _ALL_AXES:
        return tuple(range(rank))
    if target is aten.native_layer_norm.default:
        return tuple(range(rank - len(node.args[1]), rank))
    if target not in _AXES:
        return None
    if target in (aten.max.dim, aten.min.dim) and any(user.args[1] != 0 for user in node.users):
        return None  # indices into the selected elements
    position, default = _AXES[target]
    axes = node.args[position] if len(node.args) > position else default
    if axes is None or axes == []:
        return tuple(range(rank))
    return tuple(axis % rank for axis in (axes if isinstance(axes, list | tuple) else [axes]))


def index_arguments(node: fx.Node) -> list[fx.Node]:
    """The indices of a lookup or write."""
    arguments: Any
    if node.target in (aten.index.Tensor, aten.index_put.default):
        arguments = node.args[1]
    elif node.target is aten.embedding.default:
        arguments = [node.args[1]]
    else:
        arguments = [node.args[2]]
    return [index for index in arguments if isinstance(index, fx.Node)]
