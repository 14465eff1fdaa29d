"""Decompose operators with several outputs, for programs that use more than the first.

Repair: `torch-operators-with-several-outputs`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from tvmake.frontend.torch.operators.spatial.max_pool_indices import INDEX_DECOMPOSITIONS

aten = torch.ops.aten


def _layer_norm(
    data: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised tensor, its mean and the reciprocal of its standard deviation."""
    centred, mean, scale = _centre(data, list(range(-len(shape), 0)), epsilon)
    result = centred * scale
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, scale


def _group_norm(
    data: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    count: int,
    channels: int,
    _extent: int,
    groups: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    centred, mean, scale = _centre(data.reshape(count, groups, -1), [-1], epsilon)
    result = (centred * scale).reshape(data.shape)
    shape = [1, channels, *[1] * (data.ndim - 2)]
    result = result if weight is None else result * weight.reshape(shape)
    result = result if bias is None else result + bias.reshape(shape)
    return result, mean.squeeze(-1), scale.squeeze(-1)


def _centre(data: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = data.mean(axes, keepdim=True)
    centred = data - mean
    return centred, mean, torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)


MULTI_OUTPUT_DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    **INDEX_DECOMPOSITIONS,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
}
"""Decompositions that return all outputs."""


def uses_later_outputs(node: fx.Node) -> bool:
    """Whether a program uses an output after the first of such an operator."""
    return node.target in MULTI_OUTPUT_DECOMPOSITIONS and any(user.args[1] != 0 and user.users for user in node.users)
