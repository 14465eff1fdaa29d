"""Kernels read the dimensions of their tensors instead of computing them."""

from typing import Any

import numpy as np
import tvm

from tests.targets.cpu.schedules.nets import NATIVE
from tests.tune.graphs import graph
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.targets.dynamic.name_dimensions import name_dimensions

from tvm import relax, tirx  # isort: skip

op = relax.op
HEIGHT, WIDTH = tirx.Var("height", "int64"), tirx.Var("width", "int64")


def pooled(x: Any) -> Any:
    """A quarter of the height and the width, plus one."""
    emit = relax.BlockBuilder.current().emit
    half = emit(op.nn.max_pool2d(x, (3, 3), (2, 2), 1, layout="NHWC"))
    return op.nn.relu(op.nn.avg_pool2d(op.nn.pad(half, [0, 0, 1, 1, 1, 1, 0, 0]), (3, 3), (2, 2), 1, layout="NHWC"))


def lowered(expression: Any, *shape: Any) -> Any:
    return lower(graph(expression, (shape, "float32")), NATIVE, [], PassOptions(), 1)


def kernels(module: "tvm.IRModule") -> list[Any]:
    return [function for function in module.functions.values() if isinstance(function, tirx.PrimFunc)]


def test_the_dimensions_of_tensors_are_numbers_and_variables():
    for kernel in kernels(lowered(pooled, 2, HEIGHT, WIDTH, 8).unscheduled):
        for parameter in kernel.params:
            assert all(isinstance(length, tirx.IntImm | tirx.Var) for length in parameter.ty.shape)


def test_kernels_take_nothing_but_tensors():
    module = lowered(pooled, 2, HEIGHT, WIDTH, 8).unscheduled
    assert all(hasattr(parameter.ty, "shape") for kernel in kernels(module) for parameter in kernel.params)


def test_the_graph_keeps_the_expressions_by_which_memory_is_planned():
    main = lowered(pooled, 2, HEIGHT, WIDTH, 8).unscheduled["main"]
    defined = {str(variable.name) for variable in relax.analysis.defined_symbolic_vars(main)}
    assert defined == {"height", "width"}
    assert not relax.analysis.free_symbolic_vars(main)


def test_results_have_the_size_that_the_graph_says():
    executable = generate(lowered(pooled, 2, HEIGHT, WIDTH, 8).final, NATIVE, BuildOptions(), "targets.t")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    for height, width in ((1, 1), (2, 7), (9, 4), (16, 17)):
        found: Any = machine["main"](tvm.runtime.tensor(np.ones((2, height, width, 8), "float32")))
        assert found.shape == (2, ((height + 1) // 2 + 2 + 1) // 2, ((width + 1) // 2 + 2 + 1) // 2, 8)


def test_a_dimension_that_two_tensors_have_is_one_variable():
    def both(x: Any) -> Any:
        half = op.strided_slice(x, [0], [0], [HEIGHT], [2])
        return op.add(half, op.exp(half))

    for kernel in kernels(lowered(both, HEIGHT, 8).unscheduled):
        dynamic = [parameter.ty.shape[0] for parameter in kernel.params]
        assert all(isinstance(length, tirx.Var) for length in dynamic)


def test_kernels_that_differ_in_expressions_alone_are_one():
    def repeated(x: Any) -> Any:
        for _ in range(4):
            x = relax.BlockBuilder.current().emit(op.nn.max_pool2d(x, (3, 3), (2, 2), 1, layout="NHWC"))
        return x

    # The first one's conditions use the network's input.
    assert len(kernels(lowered(repeated, 2, HEIGHT, WIDTH, 8).unscheduled)) == 2


def test_a_transposition_that_tvm_cannot_analyse_is_none_that_moves_nothing():
    def transposed(x: Any) -> Any:
        padded = relax.BlockBuilder.current().emit(op.nn.pad(x, [0, 0, 1, 2, 0, 0, 0, 0]))
        return op.permute_dims(padded, [0, 3, 1, 2])

    for kernel in kernels(lowered(transposed, 2, HEIGHT, 3, 8).unscheduled):
        assert all(isinstance(length, tirx.IntImm | tirx.Var) for length in kernel.params[-1].ty.shape)


def test_modules_without_arithmetic_in_shapes_stay_unchanged():
    for shape in ((2, 9, 9, 8), (HEIGHT, 9, 9, 8)):
        module = lowered(pooled, *shape).unscheduled
        assert name_dimensions(module).same_as(module)
