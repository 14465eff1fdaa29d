"""Memory scopes of a kernel's arguments."""

from typing import Any

import tvm

from tvmake.ir.expressions import dtype_name

GLOBAL = "global"
"""A buffer; ``global.texture…`` is an image."""


def memory_scope(parameter: Any) -> str:
    """The scope of an argument; scalars have ``global``, too."""
    return str(getattr(parameter.ty, "storage_scope", "")) or GLOBAL


def in_buffers(function: "tvm.tirx.PrimFunc") -> "tvm.tirx.PrimFunc":
    """The same unscheduled kernel with all arguments in buffers, so that it runs on a CPU."""
    # Legalisation marks kernels whose results have a memory scope with the target, and a build for another target obeys
    # it.
    function = function.without_attr("target") if "target" in function.attrs else function
    images = [parameter for parameter in function.params if memory_scope(parameter) != GLOBAL]
    if not images:
        return function
    buffers = {
        parameter: tvm.tirx.decl_buffer(list(parameter.ty.shape), dtype_name(parameter.ty), parameter.name)
        for parameter in images
    }
    return function.specialize(buffers)
