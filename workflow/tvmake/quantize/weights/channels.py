"""Weights of products in 8 bits: symmetric, a scale for each output channel."""

from typing import Any

import numpy as np

from tvmake.ir.expressions import constant, is_call

LARGEST_WEIGHT = 127


def channel_axis(product: Any) -> int:
    """Of a product's result: the axis whose places have a weight's scale each."""
    if is_call(product, "matmul"):
        return int(product.ty.ndim) - 1
    return (str(product.attrs.out_layout) or str(product.attrs.data_layout)).index("C")


def weight_integers(product: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """A product's weight in int8, its scales, and the axis of output channels that they belong to."""
    values = constant(product.args[1])
    assert values is not None
    axis = values.ndim - 1 if is_call(product, "matmul") else str(product.attrs.kernel_layout).index("O")
    others = tuple(place for place in range(values.ndim) if place != axis)
    largest = np.abs(values).max(axis=others, initial=0).astype(np.float64)
    scale = np.asarray([step(value / LARGEST_WEIGHT) for value in largest], np.float32)
    spread = scale.reshape([-1 if place == axis else 1 for place in range(values.ndim)])
    integers = np.clip(np.rint(values / spread), -LARGEST_WEIGHT, LARGEST_WEIGHT).astype(np.int8)
    return integers, scale, axis


def step(value: float) -> float:
    """A scale that is a normal number, its inverse too."""
    return float(np.clip(value, 2.0**-100, 2.0**100)) if value else 1.0
