"""Refuse networks with tensors that the target's memory cannot hold."""

import math
import re
from collections.abc import Iterator
from typing import Any

import tvm

from tvmake.artifact.dims import LARGEST_SIZE
from tvmake.errors import InputError
from tvmake.ir.expressions import bindings, dtype_name
from tvmake.ir.size_expressions import size_text
from tvmake.targets.memory import Memory, gibibytes

_BEYOND_32_BITS = re.compile(r"Literal value (\d+) exceeds range of int32")


def refuse_large_tensors(module: "tvm.IRModule", memory: Memory) -> None:
    """Refuse a network with a tensor that exceeds the memory, before its kernels are scheduled and compiled.

    Dynamic dimensions count as one element.

    Args:
        module: Relax calling fused kernels, whose results are the tensors that a run stores.

    Raises:
        InputError: naming the largest tensor.
    """
    largest = max(_tensors(module["main"]), key=lambda tensor: _byte_count(tensor[1]), default=None)
    if largest is None or (byte_count := _byte_count(largest[1])) <= memory.byte_count:
        return
    name, kind = largest
    shape = ", ".join(map(size_text, kind.shape))
    raise InputError(
        "build",
        f"{name}, {dtype_name(kind)} [{shape}], takes {gibibytes(byte_count)}, and {memory.limit}",
        "; or ".join(filter(None, ("make its dimensions smaller (`dims: {NAME: SIZE}`)", memory.remedy))),
    )


def count_refusal(error: Exception) -> InputError | None:
    """The refusal of a tensor whose elements a pass of TVM cannot count in 32 bits; None for other errors.

    Most kernels count in 64 bits: a limit for all tensors would refuse networks that run.
    """
    match = _BEYOND_32_BITS.search(str(error))
    if match is None:
        return None
    problem = f"a tensor has {int(match[1]):,} elements, and TVM counts them up to {LARGEST_SIZE:,} here"
    return InputError("build", problem, "make its dimensions smaller (`dims: {NAME: SIZE}`)")


def _tensors(main: Any) -> Iterator[tuple[str, Any]]:
    for parameter in main.params:
        yield from ((f"argument {parameter.name}", kind) for kind in _fields(parameter.ty))
    for binding in bindings(main):
        call = binding.value
        kernel = getattr(call.args[0], "name_hint", None) if isinstance(call, tvm.relax.Call) and call.args else None
        name = f"the result of kernel {kernel}" if kernel else f"tensor {binding.var.name}"
        yield from ((name, kind) for kind in _fields(binding.var.ty))


def _fields(kind: Any) -> Iterator[Any]:
    for field in getattr(kind, "fields", None) or [kind]:
        if isinstance(getattr(field, "shape", None), tvm.relax.ShapeExpr) and field.dtype is not None:
            yield field


def _byte_count(kind: Any) -> int:
    dtype = tvm.DataType(dtype_name(kind))
    extents = (int(extent) for extent in kind.shape if isinstance(extent, tvm.tirx.IntImm))
    return math.prod(extents) * (-(-dtype.bits * dtype.lanes // 8))
