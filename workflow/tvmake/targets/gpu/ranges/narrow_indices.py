"""Compute the indices of kernels with dynamic dimensions in 32 bits.

TVM narrows indices to 32 bits if it can prove that they fit, so kernels with a dimension of unknown size compute them in
64 bits, which GPUs emulate. Here, kernels refuse larger tensors when they are launched. Dimensions with an upper bound
that allows larger tensors keep 64 bits.
"""

import math
import operator
from collections.abc import Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.signature import Bounds
from tvmake.ir.bounds import bounds_of
from tvmake.ir.dimensions import dynamic_dimensions, is_known
from tvmake.ir.expressions import dtype_name
from tvmake.ir.rewriting import with_functions
from tvmake.targets.kernels.scheduled_kernel import is_scheduled

from tvm import s_tir, tirx  # isort: skip

WIDE = ("int64", "uint64")

UNBOUNDED: Mapping[str, int] = MappingProxyType({})

MOST_ELEMENTS = (1 << 31) - (1 << 20)
"""Elements of a tensor, less those of an incomplete tile, whose indices fit into 32 bits."""

TOO_LARGE = (
    "a tensor with a dynamic dimension has more than 2^31 elements; run smaller sizes, or build the package with the "
    "dimension's upper bound, with which kernels compute indices in 64 bits"
)


def narrow_indices(module: "tvm.IRModule") -> "tvm.IRModule":
    """Narrow the indices of unscheduled kernels with dynamic dimensions, unless a tensor has 64-bit elements."""
    return narrow_kernels(module, {name: most for name, (_, most) in bounds_of(module).items() if most is not None})


def narrow_kernels(module: "tvm.IRModule", largest: Mapping[str, int] = UNBOUNDED) -> "tvm.IRModule":
    """The same for a module without a network.

    Args:
        largest: upper bounds of dimensions, by name.
    """
    kernels = {
        variable: _narrow(function)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and _is_suitable(function, largest)
    }
    return with_functions(module, kernels) if kernels else module


def why_too_narrow(function: "tvm.tirx.PrimFunc", bounds: Mapping[str, Bounds]) -> str | None:
    """Why a kernel's indices are too narrow for the bounds of its dimensions; None if they suffice."""
    largest = {name: most for name, (_, most) in bounds.items() if most is not None}
    if not _is_narrow(function) or all(_may_fit(shape, largest) for shape in _shapes(function)):
        return None
    return (
        "it has indices of 32 bits, and the upper bounds of the dimensions allow tensors with more than 2^31 elements"
    )


def check_sizes(module: "tvm.IRModule") -> "tvm.IRModule":
    """Let scheduled kernels with narrow indices refuse tensors with too many elements."""
    kernels = {
        variable: _with_check(function)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and _is_narrow(function)
    }
    return with_functions(module, kernels) if kernels else module


def _is_suitable(function: Any, largest: Mapping[str, int]) -> bool:
    if is_scheduled(function) or not isinstance(function.body, s_tir.SBlockRealize):
        return False
    if not dynamic_dimensions(function):
        return False
    if any(not hasattr(parameter.ty, "shape") or dtype_name(parameter.ty) in WIDE for parameter in function.params):
        return False
    return all(_may_fit(shape, largest) for shape in _shapes(function))


def _may_fit(shape: Any, largest: Mapping[str, int]) -> bool:
    """Whether a tensor has few enough elements at its dimensions' upper bounds, as far as these are known."""

    def bound(variable: Any) -> Any:
        return tirx.const(largest.get(str(variable.name), 1), variable.ty.dtype)

    analyzer = tvm.sym.Analyzer()
    sizes = [analyzer.simplify(tvm_ffi.structural_map(size, (tvm.ir.Var, bound))) for size in shape]
    return math.prod(int(size) for size in sizes if is_known(size)) <= MOST_ELEMENTS


def _narrow(function: Any) -> Any:
    (narrow,) = tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"kernel": function})).functions.values()
    return narrow


def _is_narrow(function: Any) -> bool:
    """Whether a kernel has dynamic dimensions of 32 bits."""
    return any(dtype_name(dimension.ty) not in WIDE for dimension in dynamic_dimensions(function).values())


def _with_check(narrow: Any) -> Any:
    """A kernel that compares the numbers of elements. Repair: `assert-arguments`."""
    counts = [reduce(operator.mul, (tirx.Cast("float64", size) for size in shape)) for shape in _shapes(narrow)]
    distinct = [
        count
        for position, count in enumerate(counts)
        if not any(tvm_ffi.structural_equal(count, other) for other in counts[:position])
    ]
    fits = reduce(tirx.And, [count <= tirx.const(MOST_ELEMENTS, "float64") for count in distinct])
    check = tirx.AssertStmt(fits, tvm.ir.StringImm("ValueError"), [tvm.ir.StringImm(TOO_LARGE)])
    root = narrow.body.block
    body = s_tir.SBlock(
        root.iter_vars, root.reads, root.writes, root.name_hint, tirx.SeqStmt([check, root.body]), root.init,
        root.alloc_buffers, root.match_buffers, root.annotations,
    )  # fmt: skip
    return narrow.with_body(s_tir.SBlockRealize(narrow.body.iter_values, narrow.body.predicate, body))


def _shapes(function: Any) -> Iterator[Any]:
    """The shapes with dynamic dimensions of a kernel's tensors and internal buffers."""
    shapes = [parameter.ty.shape for parameter in function.params]
    shapes += [buffer.shape for buffer in function.body.block.alloc_buffers if buffer.scope() == "global"]
    yield from (shape for shape in shapes if not all(map(is_known, shape)))
