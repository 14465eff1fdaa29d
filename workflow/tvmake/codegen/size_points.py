"""Sizes of dynamic dimensions at which kernels are tuned: configured ones, or ones spread over the dimensions' bounds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi

from tvmake.artifact.size_points import SizePoint, merge_points
from tvmake.codegen.dynamic_sizes import evaluate_extent
from tvmake.codegen.kernel_analysis import leaf_blocks
from tvmake.ir.bounds import bounds_of_function
from tvmake.ir.dimensions import TYPICAL_EXTENT
from tvmake.targets.weights.layout_free import tensor_calls

Values = Mapping[str, Sequence[tuple[int, float]]]
"""Sizes of some dimensions, each with its weight, by the dimension's name."""

SPREAD = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Positions of the sizes between a dimension's bounds, on a logarithmic scale: 1, 3, 15, 63 and 256 up to 256. A tile's
height shows in the smallest ones: with too few of them, a schedule for one row may be chosen that is slow for three."""

MOST_OPERATIONS = 1 << 34
"""Operations of a network at the largest size that is derived from bounds: about a second on one core, since each
candidate runs several times. A dimension without a bound, or with a wide one, would otherwise take minutes: 256 images of
a ResNet-18 are a trillion."""


def values_of_shapes(shapes: Sequence[Mapping[str, int]]) -> Values:
    """The sizes that a package's shapes name, for tuning the dynamic code beside them, which runs between such sizes.

    None for less than two shapes: the dynamic code runs at sizes other than a single shape's.
    """
    listed = [shape for shape in shapes if shape]
    names = dict.fromkeys(name for shape in listed for name in shape) if len(listed) > 1 else {}
    return {name: [(shape[name], 1.0) for shape in listed if name in shape] for name in names}


def network_points(module: "tvm.IRModule", values: Values | None = None) -> tuple[SizePoint, ...]:
    """The sizes of a network's dynamic dimensions at which the network's kernels are measured; none without such dimensions.

    By default :data:`SPREAD` from the smallest to the largest size on a logarithmic scale, with equal weights. Without
    an upper bound, the largest is the typical size of memory planning. It is reduced, that of batches first, until the
    network has at most :data:`MOST_OPERATIONS`.

    Args:
        module: Relax calling fused kernels.
        values: measure at these values instead. The first value of each dimension is combined with the first of the
            others, and so on; a shorter list repeats its last value.
    """
    functions = [function for _, function in module.functions_items() if isinstance(function, tvm.relax.Function)]
    # Of the functions for several shapes, one has the dimensions of all.
    network = max(functions, key=lambda function: len(_dimensions(function)))
    names = _dimensions(network)
    if not names:
        return ()
    bounds = bounds_of_function(network)
    lower = {name: max(1, bounds.get(name, (1, None))[0]) for name in names}
    upper = {name: bounds.get(name, (1, None))[1] or max(TYPICAL_EXTENT, lower[name]) for name in names}
    given = {name: values[name] for name in names if values and values.get(name)}
    for name, listed in given.items():
        lower[name] = upper[name] = max(size for size, _ in listed)
    upper = _reduce_sizes(module, lower, upper)
    steps = [] if len(given) == len(names) else SPREAD
    count = max([len(steps), *map(len, given.values())])
    points: dict[tuple[int, ...], float] = {}
    for index in range(count):
        step = steps[min(index, len(steps) - 1)] if steps else 1.0
        sizes, weight = {name: _between(lower[name], upper[name], step) for name in names}, 1.0
        for name, listed in given.items():
            sizes[name], share = listed[min(index, len(listed) - 1)]
            weight *= share
        points.setdefault(tuple(sizes.values()), weight)
    return merge_points(
        SizePoint(sizes=dict(zip(names, sizes, strict=True)), weight=weight) for sizes, weight in points.items()
    )


def _between(lower: int, upper: int, step: float) -> int:
    """A size between bounds on a logarithmic scale: odd, so that the last tile is incomplete, unless it is a bound."""
    size = round(lower ** (1 - step) * upper**step)
    return size if size in (lower, upper) else max(lower, size - 1 + size % 2)


def kernel_points(module: "tvm.IRModule", points: Sequence[SizePoint]) -> dict[str, tuple[SizePoint, ...]]:
    """The sizes of each kernel's own dimensions for the sizes of a network, by the kernel's name.

    A kernel that is called with several shapes has points of all its calls. Kernels with scalar arguments, or whose
    sizes depend on data, are left out.

    Args:
        module: Relax calling fused kernels.
        points: see :func:`network_points`.
    """
    found: dict[str, list[SizePoint]] = {}
    unknown = set()
    for call in tensor_calls(module) if points else ():
        name, own = str(call.args[0].name_hint), _Call.of(module, call)
        if not own.is_determined(points[0].sizes):
            unknown.add(name)
            continue
        for point in points:
            sizes = own.sizes(point.sizes)
            if sizes and min(sizes.values()) > 0:  # a kernel window may be larger than the smallest image
                found.setdefault(name, []).append(SizePoint(sizes=sizes, weight=point.weight))
    return {name: merge_points(listed) for name, listed in found.items() if name not in unknown}


@dataclass(frozen=True)
class _Call:
    """A call of a kernel, with the extents that the network passes for the kernel's dimensions."""

    kernel: "tvm.tirx.PrimFunc"
    dimensions: Mapping[str, Any]
    """Extents of the network, by the name of the kernel's dimension; None for an unknown one."""

    @classmethod
    def of(cls, module: "tvm.IRModule", call: Any) -> "_Call":
        kernel = module[call.args[0]]
        dimensions: dict[str, Any] = {}
        for parameter, kind in zip(kernel.params, _argument_types(call), strict=False):
            shape, given = getattr(parameter.ty, "shape", ()), _shape(kind)
            for position, extent in enumerate(shape):
                if isinstance(extent, tvm.ir.Var) and dimensions.get(str(extent.name)) is None:
                    dimensions[str(extent.name)] = given[position] if given is not None else None
        return cls(kernel, dimensions)

    def is_determined(self, sizes: Mapping[str, int]) -> bool:
        """Whether the sizes of a network's dimensions determine all extents of the kernel."""
        has_scalars = any(not hasattr(parameter.ty, "shape") for parameter in self.kernel.params)
        extents = list(self.dimensions.values())
        # Not `None in extents`, which compares: TVM's constants cannot be compared with None.
        is_known = all(extent is not None for extent in extents)
        return not has_scalars and is_known and all(str(name) in sizes for name in _names(extents))

    def sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of the kernel's dimensions; 0 for an extent that is not positive."""
        return {name: max(0, _evaluate(extent, sizes)) for name, extent in self.dimensions.items()}


def _names(extents: Sequence[Any]) -> list[str]:
    names: list[str] = []
    tvm_ffi.structural_walk(list(extents), (tvm.ir.Var, lambda variable: names.append(str(variable.name))))
    return names


def _evaluate(extent: Any, sizes: Mapping[str, int]) -> int:
    fixed = tvm_ffi.structural_map(
        extent, (tvm.ir.Var, lambda variable: tvm.tirx.const(sizes[str(variable.name)], variable.ty.dtype))
    )
    return int(tvm.sym.Analyzer().simplify(fixed))


def _argument_types(call: Any) -> Iterator[Any]:
    """The types of a kernel's arguments: inputs, then results."""
    yield from (argument.ty for argument in call.args[1].fields)
    for result in call.ty_args:
        yield from getattr(result, "fields", None) or [result]


def _shape(kind: Any) -> Sequence[Any] | None:
    shape = getattr(kind, "shape", None)
    return getattr(shape, "values", None) if shape is not None else None


def _dimensions(main: Any) -> list[str]:
    """Names of the dimensions of a function's arguments; leading ones, which are often batches, first."""
    first: list[str] = []
    rest: list[str] = []
    for parameter in main.params:
        for position, extent in enumerate(_shape(parameter.ty) or ()):
            if isinstance(extent, tvm.ir.Var):
                (first if position == 0 else rest).append(str(extent.name))
    return list(dict.fromkeys([*first, *rest]))


def _reduce_sizes(module: "tvm.IRModule", lower: Mapping[str, int], upper: Mapping[str, int]) -> dict[str, int]:
    """Largest sizes with which a network has at most :data:`MOST_OPERATIONS`: the first dimensions are halved first."""
    calls = [_Call.of(module, call) for call in tensor_calls(module)]
    sizes = dict(upper)
    for name in upper:
        while sizes[name] > lower[name] and _operations(calls, sizes) > MOST_OPERATIONS:
            sizes[name] = max(lower[name], sizes[name] // 2)
    return sizes


def _operations(calls: Sequence[_Call], sizes: Mapping[str, int]) -> int:
    """Executions of all blocks of a network's kernels."""
    total = 0
    for call in calls:
        if call.is_determined(sizes):
            own = call.sizes(sizes)
            total += sum(
                math.prod(evaluate_extent(axis.dom.extent, own) for axis in block.iter_vars)
                for block in leaf_blocks(call.kernel)
            )
    return total
