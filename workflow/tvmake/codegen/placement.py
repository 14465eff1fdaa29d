"""Determine which kernels and values of a texture package are in images or in buffers, and why."""

import math
from collections.abc import Mapping
from typing import Any

import tvm

from tvmake.artifact.manifest import Placement
from tvmake.ir.expressions import bindings
from tvmake.targets.adreno_texture.images import could_be_image, image, images, largest
from tvmake.targets.adreno_texture.kernel_scopes import scope_of
from tvmake.targets.kernels.memory import GLOBAL

NOT_IN_BLOCKS = "no value of it is in blocks of four channels"
TOO_LARGE = "its image would have {0.width} x {0.height} pixels and {0.layers} layers, more than the target allows"
NEIGHBOURS = "its values go to or come from kernels that work on buffers"


def placement(fused: "tvm.IRModule", target: Mapping[str, Any]) -> Placement:
    """Which kernels and values of a module for textures are in images.

    Args:
        target: TVM's attributes, with the limits of images.
    """
    in_images, in_buffers = {}, {}
    for variable, function in fused.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            name, kernel_images = str(variable.name_hint), images(function)
            if kernel_images:
                in_images[name] = largest(kernel_images)
            else:
                in_buffers[name] = _why(function, target)
    sizes = {True: 0, False: 0}
    for ty in _values(fused["main"]):
        sizes[scope_of(ty) != GLOBAL] += _bytes(ty)
    return Placement(
        image_kernels=len(in_images),
        buffer_kernels=len(in_buffers),
        image_bytes=sizes[True],
        buffer_bytes=sizes[False],
        largest_image=largest(list(in_images.values())),
        in_buffers=dict(sorted(in_buffers.items())),
    )


def _why(function: "tvm.tirx.PrimFunc", target: Mapping[str, Any]) -> str:
    blocks = [parameter for parameter in function.params if could_be_image(parameter)]
    if not blocks:
        return NOT_IN_BLOCKS
    spatial = int(target.get("texture_spatial_limit", 0)) or math.inf
    depth = int(target.get("texture_depth_limit", 0)) or math.inf
    for parameter in blocks:
        candidate = image("global.texture", [int(extent) for extent in parameter.ty.shape])
        if max(candidate.width, candidate.height) > spatial or candidate.layers > depth:
            return TOO_LARGE.format(candidate)
    return NEIGHBOURS


def _values(main: "tvm.relax.Function") -> list[Any]:
    """The types of all argument and result tensors."""
    kernel_images = [variable.ty for variable in (*main.params, *(binding.var for binding in bindings(main)))]
    return [ty for ty in kernel_images if isinstance(ty, tvm.relax.TensorType) and ty.shape is not None]


def _bytes(ty: Any) -> int:
    return math.prod(int(extent) for extent in ty.shape) * (tvm.DataType(str(ty.dtype)).bits + 7) // 8
