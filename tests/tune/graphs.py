"""One-operator graphs and their kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import tvm

from tvmake.codegen.lowering import fused_module
from tvmake.codegen.options import PassOptions
from tvmake.records.workload import Workload, workload
from tvmake.transform.layouts.choices import CHOSEN_LAYOUT

Shape = tuple[tuple[Any, ...], str]

CPU = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})


def graph(expression: Callable[..., Any], *inputs: Shape, names: Sequence[str] = ()) -> "tvm.IRModule":
    """``main`` of an expression of its inputs, given as shape and dtype; they are called x0, x1 … unless named."""
    relax = tvm.relax
    builder = relax.BlockBuilder()
    called = names or [f"x{index}" for index in range(len(inputs))]
    arguments = [relax.Var(name, relax.TensorType(*shape)) for name, shape in zip(called, inputs, strict=True)]
    with builder.function("main", arguments):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(expression(*arguments)))
        builder.emit_func_output(result)
    return builder.get()


def kept(module: "tvm.IRModule") -> "tvm.IRModule":
    """A network whose layout no target changes."""
    return module.with_attr(CHOSEN_LAYOUT, "NCHW")


def kernel(
    expression: Callable[..., Any], *inputs: Shape, target: "tvm.target.Target" = CPU, weights: bool = False
) -> "tvm.tirx.PrimFunc":
    """Return the only kernel of an expression.

    Args:
        weights: whether all inputs except the first are weights with a free layout.
    """
    fused = fused_module(kept(graph(expression, *inputs)), target, [], PassOptions(), 1, layout_free=weights)
    (function,) = [one for _, one in fused.functions_items() if isinstance(one, tvm.tirx.PrimFunc)]
    return function


def kernel_workload(expression: Callable[..., Any], *inputs: Shape, weights: bool = False) -> Workload:
    """The workload of that kernel on a CPU."""
    return workload(kernel(expression, *inputs, weights=weights), CPU)
