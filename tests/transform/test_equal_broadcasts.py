"""tvmake.transform.equal_broadcasts: no copy of a tensor that has the shape already."""

import tvm

from tvmake.ir.expressions import bindings, is_call
from tvmake.transform.equal_broadcasts import drop_equal_broadcasts

from tvm import relax  # isort: skip


def broadcasts(shape: list) -> list:
    """What is left of two broadcasts of a tensor, to its own shape and to three of it."""
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
