"""Gradients of convolutions, means of windows and resizes, for networks that differentiate in ``forward``."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tvmake.frontend.torch.operators.spatial.max_pool_indices import sizes_per_axis

aten = torch.ops.aten


def _convolution_backward(
    gradient: Tensor,
    data: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    """The gradients by the data, by the weight of one group of channels, and by the bias; NotImplemented for other weights."""
    if not all(isinstance(extent, int) for extent in data.shape) or (wanted[1] and (groups > 1 or transposed)):
        return NotImplemented
    axes = data.ndim - 2
    by_data = by_weight = by_bias = None
    if wanted[0]:
        more = [0] * axes
        if not transposed:
            reached = [
                (gradient.shape[2 + axis] - 1) * stride[axis]
                - 2 * padding[axis]
                + dilation[axis] * (weight.shape[2 + axis] - 1)
                + 1
                for axis in range(axes)
            ]
            more = [extent - end for extent, end in zip(data.shape[2:], reached, strict=True)]
        by_data = aten.convolution(gradient, weight, None, stride, padding, dilation, not transposed, more, groups)
    if wanted[1]:
        across = aten.convolution(
            data.transpose(0, 1), gradient.transpose(0, 1), None, dilation, padding, stride, False, [0] * axes, 1
        )
        by_weight = across.transpose(0, 1)
        for axis, extent in enumerate(weight.shape[2:], 2):
            by_weight = by_weight.narrow(axis, 0, extent)
    if wanted[2] and bias_sizes is not None:
        by_bias = gradient.sum([0, *range(2, gradient.ndim)])
    return by_data, by_weight, by_bias


def _mean_pool_backward(
    gradient: Tensor,
    data: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
) -> Any:
    """Each window hands its gradient on in equal parts; NotImplemented where windows have different divisors."""
    axes, channels = data.ndim - 2, data.shape[1]
    kernel, stride, padding = (sizes_per_axis(given, axes) for given in (kernel, stride or kernel, padding))
    has_padding = any(padding) and not count_include_pad and divisor is None
    if axes != 2 or ceil_mode or has_padding or not all(isinstance(extent, int) for extent in data.shape):
        return NotImplemented
    ones = torch.full([channels, 1, *kernel], 1 / (divisor or math.prod(kernel)), dtype=data.dtype)
    by_data, _, _ = _convolution_backward(
        gradient, data, ones, None, stride, padding, [1] * axes, False, [0] * axes, channels, (True, False, False)
    )
    return by_data


def _resize_backward(along: Callable[..., Tensor], switches: int) -> Callable[..., Any]:
    """Of a resize that is one along each axis, computed ``along`` it: a matrix, which stands on the other side here.

    Args:
        along: resizes one axis.
        switches: how many options stand before the scales.
    """

    def computed(gradient: Tensor, size: Sequence[int], given: Sequence[int], *options: Any) -> Any:
        if not all(isinstance(extent, int) for extent in (*size, *given)):
            return NotImplemented
        aligned, scales = options[:switches], [*options[switches:], None, None][:2]
        rows, columns = (
            along(torch.eye(extent, dtype=gradient.dtype).unsqueeze(0), [to], *aligned, scale)
            for extent, to, scale in zip(given[2:], size, scales, strict=True)
        )
        return rows @ gradient @ columns.mT

    return computed


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.convolution_backward.default: _convolution_backward,
    aten.avg_pool2d_backward.default: _mean_pool_backward,
    aten.upsample_bilinear2d_backward.default: _resize_backward(aten.upsample_linear1d.default, 1),
    aten.upsample_nearest2d_backward.default: _resize_backward(aten.upsample_nearest1d.default, 0),
}
"""What takes them apart."""
