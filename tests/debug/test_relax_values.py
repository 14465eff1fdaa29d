"""What a graph computes, operator by operator and kernel by kernel, on the CPU."""

import numpy as np
import pytest
from tvm import relax

from tests.tune.graphs import CPU, graph
from tvmake.codegen.lowering import fused_module
from tvmake.codegen.options import PassOptions
from tvmake.debug.relax_values import trace_kernels, trace_operators
from tvmake.errors import InputError

F32 = "float32"
op = relax.op
X = np.linspace(-2, 2, 24, dtype=F32).reshape(2, 12)


def halves_and_top(x):
    parts = op.split(op.nn.relu(x), 2, axis=1)
    best = op.topk(relax.TupleGetItem(parts, 0), 2)
    return op.add(relax.TupleGetItem(best, 0), op.sum(relax.TupleGetItem(parts, 1), axis=1, keepdims=True))


def expected(x: np.ndarray) -> np.ndarray:
    left, right = np.split(np.maximum(x, 0), 2, axis=1)
    return -np.sort(-left, axis=1)[:, :2] + right.sum(axis=1, keepdims=True)


def test_operators_are_called_unchanged_written_and_each_has_its_value():
    trace = trace_operators(graph(halves_and_top, ((2, 12), F32)), [X])
    np.testing.assert_allclose(trace.outputs[0], expected(X), rtol=1e-6)
    operators = [step.operator for step in trace.steps]
    assert operators[0] == "relax.nn.relu" and {"relax.split", "relax.sum", "relax.add"} <= set(operators)
    np.testing.assert_array_equal(trace.values[0].array, np.maximum(X, 0))
    names = [value.name for value in trace.values]
    assert len(names) == len(set(names))
    assert all(tensor in names or tensor == "x0" for value in trace.values for tensor in value.inputs)


def test_a_fused_graph_gives_the_same_with_the_arguments_of_each_kernel():
    module = fused_module(graph(halves_and_top, ((2, 12), F32)), CPU, [], PassOptions(), 1, layout_free=False)
    trace = trace_kernels(module, [X])
    np.testing.assert_allclose(trace.outputs[0], expected(X), rtol=1e-6)
    kernels = [step for step in trace.steps if step.kernel]
    assert kernels
    assert all(step.arguments for step in kernels)


def test_constants_and_half_precision_are_taken_unchanged():
    network = graph(lambda x: op.multiply(op.astype(x, "float16"), relax.const(3.0, "float16")), ((2, 12), F32))
    (output,) = trace_operators(network, [X]).outputs
    np.testing.assert_array_equal(output, X.astype(np.float16) * np.float16(3))


def test_shapes_that_a_graph_asks_for_are_those_of_its_values():
    def network(x):
        like = relax.BlockBuilder.current().emit(op.shape_of(op.nn.relu(x)))
        rows = op.tensor_to_shape(op.shape_to_tensor(like))
        return op.reshape(op.reshape(op.add(x, x), (24,)), relax.BlockBuilder.current().emit(rows))

    (output,) = trace_operators(graph(network, ((2, 12), F32)), [X]).outputs
    np.testing.assert_array_equal(output, X + X)


def test_open_dimensions_are_refused():
    import tvm

    extent = tvm.tirx.Var("n", "int64")
    with pytest.raises(InputError, match="dims"):
        trace_operators(graph(op.nn.relu, ((extent, 12), F32)), [X])
