"""Capture kernels in CUDA graphs, also those whose shapes are known at run time: one graph for each shape.

TVM's virtual machine keeps a graph for each combination of dimensions that it ran with, and never drops one. So graphs
are only captured if the bounds of the dimensions allow few combinations.
"""

import math
from collections.abc import Mapping

import tvm

from tvmake.artifact.signature import Bounds
from tvmake.ir.rewriting import with_functions
from tvmake.targets.passes import ModulePass, Pass

CAPTURED = "relax.rewrite_cuda_graph.capture_symbolic_vars"
"""TVM's attribute of a function: the names of dimensions for whose values graphs are captured."""

MOST_GRAPHS = 256
"""Maximum number of graphs that a run may add to the memory of a GPU, each some megabytes."""


def allow_graph_dimensions(bounds: Mapping[str, Bounds]) -> Pass:
    """A pass before ``RewriteCUDAGraph`` that lets it capture a graph for each combination of sizes.

    Args:
        bounds: smallest and largest sizes of dynamic dimensions.
    """

    def allow_dimensions(module: "tvm.IRModule") -> "tvm.IRModule":
        names = _dimensions(module)
        if not names or graph_obstacle(module, bounds):
            return module
        return with_functions(module, {"main": module["main"].with_attr(CAPTURED, names)})

    return ModulePass("AllowGraphDimensions", allow_dimensions)


def graph_obstacle(module: "tvm.IRModule", bounds: Mapping[str, Bounds]) -> str | None:
    """Why kernels with dynamic dimensions are not captured in CUDA graphs, and a remedy; None if they are."""
    sizes = {}
    for name in _dimensions(module):
        least, most = bounds.get(name, (0, None))
        if most is None:
            return f"dimension '{name}' has no upper bound; set one, as in `dims: {{{name}: {{min: 1, max: 16}}}}`"
        sizes[name] = most - least + 1
    count = math.prod(sizes.values())
    if count <= MOST_GRAPHS:
        return None
    listed = " and ".join(f"'{name}'" for name in sizes)
    remedy = f"set closer ones, as in `dims: {{{next(iter(sizes))}: {{min: 1, max: 16}}}}`"
    return f"the bounds of {listed} allow {count} shapes, and at most {MOST_GRAPHS} graphs are kept; {remedy}"


def _dimensions(module: "tvm.IRModule") -> list[str]:
    return sorted({str(symbol.name) for symbol in tvm.relax.analysis.defined_symbolic_vars(module["main"])})
