"""Operators that rewrites of attention share, on values [batch, heads, length, size]."""

import numpy as np

from tvmake.frontend.onnx.graph import Builder


def split(build: Builder, name: str, sizes: list[int], axis: int = 2) -> list[str]:
    """Slices of these sizes along an axis."""
    ends = np.cumsum(sizes).tolist()
    return [build.slice(name, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def split_heads(build: Builder, name: str, heads: int, size: int) -> str:
    """Split [batch, length, heads · size] into heads: [batch, heads, length, size]."""
    return build.transpose(build.reshape(name, [0, 0, heads, size]), [0, 2, 1, 3])


def positions_of(build: Builder, name: str, shape: list[int]) -> str:
    """The indices 0, 1 … along the third axis of a value, in ``shape``."""
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    return build.reshape(build.op("Range", zero, build.reshape(length_of(build, name), []), one), shape)


def length_of(build: Builder, name: str) -> str:
    """The length of the third axis, [1]."""
    return build.slice(build.op("Shape", name), 0, 2, 3)
