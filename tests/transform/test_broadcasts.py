"""A repeated matrix is stored and multiplied once, and no tensor is copied that already has the shape."""

import numpy as np
import pytest
import tvm

from tests.frontend.onnx import models as onnx_models
from tests.transform.nets import Transformed, run
from tests.tune.graphs import graph
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.ir.expressions import bindings, is_call
from tvmake.transform.broadcasts import drop_equal_broadcasts
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

from tvm import relax  # isort: skip

op = tvm.relax.op

ROWS = onnx_models.random(3, 5, 32)
MATRIX = onnx_models.random(32, 48, seed=1)
SEVERAL = onnx_models.random(3, 32, 48, seed=2)


def made(right) -> Transformed:
    module, params = lift_constants(graph(lambda x: op.matmul(x, right()), ((3, 5, 32), "float32")))
    return transform(module, params, TransformRequest())


@pytest.mark.parametrize(
    "right",
    [
        lambda: op.broadcast_to(tvm.relax.const(MATRIX), (3, 32, 48)),
        lambda: op.reshape(op.broadcast_to(tvm.relax.const(MATRIX), (1, 3, 32, 48)), (3, 32, 48)),
        lambda: op.broadcast_to(op.expand_dims(op.permute_dims(tvm.relax.const(MATRIX.T.copy())), 0), (3, 32, 48)),
    ],
    ids=["repeated", "two axes of batches as one", "turned"],
)
def test_a_repeated_matrix_is_multiplied_once(right):
    found = made(right)
    assert [value.numpy().size for value in found[1].values()] == [MATRIX.size]
    np.testing.assert_allclose(run(found, ROWS), ROWS @ MATRIX, rtol=1e-5, atol=1e-4)


def test_different_matrices_stay_unchanged():
    found = made(lambda: op.reshape(op.broadcast_to(tvm.relax.const(SEVERAL), (1, 3, 32, 48)), (3, 32, 48)))
    np.testing.assert_allclose(run(found, ROWS), ROWS @ SEVERAL, rtol=1e-5, atol=1e-4)


def broadcasts(shape: list) -> list:
    """The remaining broadcasts of two, to the tensor's own shape and to three copies."""
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            same = builder.emit(relax.op.broadcast_to(x, relax.ShapeExpr(shape)))
            more = builder.emit(relax.op.broadcast_to(same, relax.ShapeExpr([3, *shape])))
            result = builder.emit_output(relax.op.nn.relu(more))
        builder.emit_func_output(result)
    function = drop_equal_broadcasts(builder.get())["main"]
    return [binding.value for binding in bindings(function) if is_call(binding.value, "broadcast_to")]


def test_a_broadcast_to_the_same_dynamic_shape_goes_and_others_stay():
    length = tvm.tirx.Var("length", "int64")
    (left,) = broadcasts([length, 4])
    assert len(left.ty.shape) == 3
    assert len(broadcasts([5, 4])) == 2
