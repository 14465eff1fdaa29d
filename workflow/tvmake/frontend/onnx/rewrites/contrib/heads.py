"""Parts that rewrites of attention share: values by heads, [batch, heads, length, size], and positions along their lengths."""

import numpy as np

from tvmake.frontend.onnx.graph import Builder


def cut(build: Builder, name: str, sizes: list[int], axis: int = 2) -> list[str]:
    """A value cut along an axis."""
    ends = np.cumsum(sizes).tolist()
    return [build.slice(name, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def by_heads(build: Builder, name: str, heads: int, size: int) -> str:
    """[batch, length, heads · size] as [batch, heads, length, size]."""
    return build.transpose(build.reshape(name, [0, 0, heads, size]), [0, 2, 1, 3])


def places_of(build: Builder, name: str, shape: list[int]) -> str:
    """0, 1 … along the third axis of a value."""
    zero, one = build.const(0, np.int64), build.const(1, np.int64)
    return build.reshape(build.op("Range", zero, build.reshape(length_of(build, name), []), one), shape)


def length_of(build: Builder, name: str) -> str:
    """The extent of the third axis, [1]."""
    return build.slice(build.op("Shape", name), 0, 2, 3)
