"""Lower one network at several sizes of its dynamic dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm

from tvmake.artifact.dims import spell_shape
from tvmake.codegen.kernel_analysis import work
from tvmake.codegen.lowering import (
    Lowered,
    LoweringOptions,
    fused_graph,
    plan_memory,
    schedule_kernels,
    to_machine_code,
)
from tvmake.codegen.shapes.dispatch import add_dispatch
from tvmake.codegen.shapes.merge import KernelNames, merge
from tvmake.codegen.shapes.rows import rows_of
from tvmake.codegen.shapes.weights import SharedWeights
from tvmake.errors import InputError
from tvmake.ir.bounds import bounds_of
from tvmake.ir.size_checks import failed_size_check
from tvmake.targets.backends import backend_of
from tvmake.targets.weights.layout_free import tensor_calls
from tvmake.targets.weights.prepack import Prepacked
from tvmake.transform.graph import bind_dims

Shape = Mapping[str, int]
"""Sizes of dynamic dimensions, by name."""


def functions_of(module: "tvm.IRModule", shapes: Sequence[Shape], target: "tvm.target.Target") -> dict[str, Shape]:
    """The functions of a package by name, in the order in which their sizes are compared with the inputs'.

    The last one takes all other sizes, unless the target needs fixed sizes.
    """
    ordered = sorted(shapes, key=lambda shape: -len(shape))
    functions = {function_name(shape): shape for shape in ordered}
    if not backend_of(target).needs_fixed_sizes:
        functions[function_name({})] = {}
    return functions


def function_name(shape: Shape) -> str:
    """``main_batch8_length128``, or ``main_any``."""
    return "_".join(["main", *(f"{name}{size}" for name, size in shape.items())]) if shape else "main_any"


def lower_shapes(module: "tvm.IRModule", how: LoweringOptions, shapes: Sequence[Shape]) -> Lowered:
    """Lower a network at several shapes, to functions that share kernels and weights, and a ``main`` that calls them.

    The function with the most work chooses the layout of weights; the others follow.

    Raises:
        InputError: an unknown dimension, a size beyond its bounds, or what :func:`~tvmake.codegen.lowering.lower` raises.
    """
    functions = functions_of(module, shapes, how.target)
    modules = {name: bind_shape(module, shape) for name, shape in functions.items()}
    graphs = {name: _graph(bound, how, how.packs, name) for name, bound in modules.items()}
    parameters = [str(parameter.name) for parameter in module["main"].params[how.inputs :]]
    weights, names = SharedWeights(how.inputs, parameters, how.widths), KernelNames()
    lowered: dict[str, Lowered] = {}
    for name in sorted(graphs, key=lambda name: (not functions[name], -_work(graphs[name].module))):
        graph = graphs[name]
        renamed, widths = names.apply(graph.module, weights.widths(graph))
        lowered[name] = weights.add(schedule_kernels(replace(graph, module=renamed), how, widths))
    planned = {name: plan_memory(lowered[name].fused, bounds_of(modules[name]), how) for name in functions}
    rows = rows_of(module, functions, how)

    def complete(parts: Mapping[str, Any], *, finishes: bool) -> "tvm.IRModule":
        main = module["main"]
        merged, row_functions = rows.add(merge(parts), main, weights.variables, how, finishes=finishes)
        return add_dispatch(merged, main, functions, how.inputs, weights.variables, row_functions)

    parts = [lowered[name] for name in functions]
    fused = complete({name: lowered[name].fused for name in functions}, finishes=False)
    copies = _kernels(fused).difference(*(_kernels(part.fused) for part in parts))
    return Lowered(
        fused=fused,
        final=to_machine_code(complete(planned, finishes=True), how),
        unscheduled=merge({name: lowered[name].unscheduled for name in functions}),
        tuned={kernel: digest for part in parts for kernel, digest in part.tuned.items()},
        misses={kernel: reason for part in parts for kernel, reason in part.misses.items()},
        ruled=frozenset().union(*(part.ruled for part in parts), copies),
        packings=tuple(weights.packings),
        functions=functions,
        row_ranges=rows.ranges,
        why_refused=rows.why_not,
    )


def fused_shapes(
    module: "tvm.IRModule", how: LoweringOptions, shapes: Sequence[Shape], layout_free: bool
) -> "tvm.IRModule":
    """The unscheduled kernels of all functions, from which kernels are extracted for tuning.

    Args:
        layout_free: let tuning choose the layout of weights.

    Raises:
        InputError: see :func:`lower_shapes`.
    """
    names = KernelNames()
    functions = functions_of(module, shapes, how.target)
    graphs = {name: _graph(bind_shape(module, shape), how, layout_free, name) for name, shape in functions.items()}
    return merge({name: names.apply(graph.module, {})[0] for name, graph in graphs.items()})


def bind_shape(module: "tvm.IRModule", shape: Shape) -> "tvm.IRModule":
    """The network with dynamic dimensions fixed to these sizes.

    Raises:
        InputError: an unknown dimension, a size beyond its bounds, or one for which the network cannot be computed.
    """
    bound = bind_dims(module, shape, "shapes")
    if report := failed_size_check(bound["main"]):
        raise InputError("shapes", f"{spell_shape(shape)}: {report}", "choose other sizes")
    return bound


def _graph(module: "tvm.IRModule", how: LoweringOptions, layout_free: bool, function: str) -> Prepacked:
    return fused_graph(
        module,
        how.target,
        how.passes,
        how.build,
        how.inputs,
        layout_free=layout_free,
        instruments=how.instruments,
        function=function,
    )


def _kernels(module: "tvm.IRModule") -> set[str]:
    return {
        str(variable.name_hint)
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def _work(module: "tvm.IRModule") -> float:
    kernels = (module[call.args[0]] for call in tensor_calls(module))
    return sum(work(kernel) for kernel in kernels)
