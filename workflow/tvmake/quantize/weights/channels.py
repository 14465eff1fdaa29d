"""Symmetric 8-bit weights of matmuls and convolutions, with a scale for each output channel."""

from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, is_call

LARGEST_WEIGHT = 127


def channel_axis(product: Any) -> int:
    """Return the axis of output channels in a product's result."""
    if is_call(product, "matmul"):
        return int(product.ty.ndim) - 1
    return (str(product.attrs.out_layout) or str(product.attrs.data_layout)).index("C")


def weight_integers(product: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a product's weight in int8, its scales, and the axis of output channels."""
    values = constant(product.args[1])
    assert values is not None
    axis = values.ndim - 1 if is_call(product, "matmul") else str(product.attrs.kernel_layout).index("O")
    axes = tuple(index for index in range(values.ndim) if index != axis)
    largest = np.abs(values).max(axis=axes, initial=0).astype(np.float64)
    scale = np.asarray([step(value / LARGEST_WEIGHT) for value in largest], np.float32)
    divisors = scale.reshape([-1 if index == axis else 1 for index in range(values.ndim)])
    integers = np.clip(np.rint(values / divisors), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
    return integers, scale, axis


def step(value: float) -> float:
    """Clip a scale so that it and its inverse are normal float32 values."""
    return float(np.clip(value, 2.0**-100, 2.0**100)) if value else 1.0
