"""The images that store textures."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm

from tvmake.targets.kernels.memory import GLOBAL, memory_scope

CHANNELS = 4
"""Values in a pixel."""

FIRST_OF_WIDTH = {"global.texture-weight": 1, "global.texture-nhwc": 2}
"""The first axis that counts pixels of a row, if it is not the last but one. TVM addresses textures by it, and
native/opencl/texture.cc allocates them by it."""


class Image(NamedTuple):
    """Extents in pixels."""

    width: int
    height: int
    layers: int


def image(scope: str, shape: Sequence[int]) -> Image:
    """The image of a tensor whose last axis has its four channels."""
    first = FIRST_OF_WIDTH.get(scope, len(shape) - 2)
    width = height = layers = 1
    for axis, extent in enumerate(shape[:-1]):
        if axis >= first:
            width *= extent
        elif axis == first - 1:
            height = extent
        else:
            layers *= extent
    return Image(width, height, layers)


def images(function: "tvm.tirx.PrimFunc") -> list[Image]:
    """The images among a kernel's arguments and results."""
    return [
        image(memory_scope(parameter), [int(extent) for extent in parameter.ty.shape])
        for parameter in function.params
        if memory_scope(parameter) != GLOBAL
    ]


def could_be_image(parameter: Any) -> bool:
    """Whether a kernel's argument is in blocks of four channels."""
    shape: Any = getattr(parameter.ty, "shape", ())
    return len(shape) > CHANNELS and isinstance(shape[-1], tvm.tirx.IntImm) and int(shape[-1]) == CHANNELS


def largest(candidates: Sequence[Image]) -> Image:
    """The smallest extents that contain each of several images."""
    return Image(
        max((candidate.width for candidate in candidates), default=0),
        max((candidate.height for candidate in candidates), default=0),
        max((candidate.layers for candidate in candidates), default=0),
    )
