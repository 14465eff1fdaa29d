"""No copy of a tensor that already has the shape."""

import tvm

from tvmake.ir.expressions import bindings, is_call
from tvmake.transform.equal_broadcasts import drop_equal_broadcasts

from tvm import relax  # isort: skip


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
