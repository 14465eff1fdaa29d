"""Numbers by their bits: views in another type of the same width, and what is found in them."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx

from tvmake.frontend.lowering.bitcast import bitcast

aten = torch.ops.aten

MANTISSA, BIAS = 23, 126
"""Of float32, with mantissas from a half on."""

SUBNORMAL = 2.0**24
"""A factor that makes normal numbers of subnormal ones."""


def _seen_as(node: fx.Node, importer: Any) -> Any:
    """A view in another type.

    Raises:
        ValueError: of another width.
    """
    before, after = (one.meta["val"].dtype for one in (node.args[0], node))
    if before.itemsize != after.itemsize or torch.bool in (before, after):
        raise ValueError(f"a view of {before} as {after}, which is of another width")
    dtype = str(after).removeprefix("torch.")
    return bitcast(importer.block_builder, importer.env[node.args[0]], dtype, kernel="compute")


def _mantissa_and_exponent(data: Tensor) -> Any:
    """``frexp``: a number from a half to one, and a power of two; zero, infinities and NaN are their own mantissas."""
    if data.dtype != torch.float32:
        return NotImplemented
    is_small = data.abs() < torch.finfo(torch.float32).tiny
    bits = torch.where(is_small, data * SUBNORMAL, data).view(torch.int32)
    power = ((bits >> MANTISSA) & 0xFF) - BIAS - torch.where(is_small, 24, 0).to(torch.int32)
    half = ((bits & ((1 << MANTISSA) - 1)) | (BIAS << MANTISSA)).view(torch.float32)
    is_plain = data.isfinite() & (data != 0)
    return torch.where(is_plain, torch.where(data < 0, -half, half), data), torch.where(is_plain, power, 0)


def _next_after(data: Tensor, towards: Tensor) -> Any:
    """The neighbour: bits count up away from zero."""
    if data.dtype != torch.float32 or towards.dtype != torch.float32:
        return NotImplemented
    data, towards = torch.broadcast_tensors(data, towards)
    away = (towards > data) == (data > 0)
    bits = data.view(torch.int32)
    moved = torch.where(away, bits + 1, bits - 1).view(torch.float32)
    smallest = torch.where(towards > 0, 2.0**-149, -(2.0**-149))
    found = torch.where(data == 0, smallest, moved)
    return torch.where(data.isnan() | towards.isnan(), data + towards, torch.where(data == towards, towards, found))


CONVERTERS: Mapping[str, Callable[[fx.Node, Any], Any]] = {"view.dtype": _seen_as}
"""By the operator's name."""

DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.frexp.Tensor: _mantissa_and_exponent,
    aten.nextafter.default: _next_after,
}
