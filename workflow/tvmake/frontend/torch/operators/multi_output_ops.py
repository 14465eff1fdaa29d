"""Operators with several outputs, for programs that use more than the first.

Repair: `torch-operators-with-several-outputs`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from tvmake.frontend.torch.operators.spatial.max_pool_indices import PLACES

aten = torch.ops.aten


def _layer_norm(
    data: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised tensor, with the mean and the reciprocal of the deviation by which it is."""
    centred, mean, scale = _centred(data, list(range(-len(shape), 0)), epsilon)
    found = centred * scale
    found = found if weight is None else found * weight
    return found if bias is None else found + bias, mean, scale


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
    centred, mean, scale = _centred(data.reshape(count, groups, -1), [-1], epsilon)
    found = (centred * scale).reshape(data.shape)
    shape = [1, channels, *[1] * (data.ndim - 2)]
    found = found if weight is None else found * weight.reshape(shape)
    found = found if bias is None else found + bias.reshape(shape)
    return found, mean.squeeze(-1), scale.squeeze(-1)


def _centred(data: Tensor, axes: list[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = data.mean(axes, keepdim=True)
    centred = data - mean
    return centred, mean, torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)


FURTHER: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    **PLACES,
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
}
"""What takes them apart."""


def asks_for_further(node: fx.Node) -> bool:
    """Whether another result than an operator's first is used."""
    return node.target in FURTHER and any(user.args[1] != 0 and user.users for user in node.users)
