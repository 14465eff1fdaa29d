"""Weights get the layout of texture kernels when the package is built."""

import numpy as np
import tvm

from tests.targets.adreno_texture.nets import conv, lowered, op, tensor
from tvmake.codegen.weights import packed_weights
from tvmake.targets.weights.layout_free import tensor_calls
from tvmake.targets.weights.layouts import extract_weight_layouts

from tvm import relax  # isort: skip

X, W, B, V = tensor(1, 8, 8, 8), tensor(16, 8, 3, 3), tensor(16), tensor(16, 16, 1, 1)


def net(x, w, b, v):
    hidden = op.nn.relu(op.add(conv(x, w), op.reshape(b, (1, 16, 1, 1))))
    return conv(hidden, v, padding=0)


def parameters(made):
    return {str(one.name): [int(extent) for extent in one.ty.shape] for one in made.fused["main"].params[1:]}


def test_main_takes_weights_in_blocks_of_channels():
    made = lowered(net, X, W, B, V)
    assert parameters(made) == {
        "x1_packed": [4, 8, 3, 3, 4],
        "x2_packed2": [1, 4, 1, 1, 4],
        "x3_packed": [4, 16, 1, 1, 4],
    }
    changed = [str(call.args[0].name_hint) for call in tensor_calls(made.fused) if "layout" in call.args[0].name_hint]
    assert len(changed) == 2  # the input's and the output's


def test_packed_weights_are_the_models_in_another_order():
    made = lowered(net, X, W, B, V)
    random = np.random.default_rng(0)
    values = {
        f"x{number}": random.standard_normal(shape).astype("float32") for number, (shape, _) in enumerate([W, B, V], 1)
    }
    params = {name: tvm.runtime.tensor(value) for name, value in values.items()}
    packed = packed_weights(params, made.packings, list(parameters(made)))
    np.testing.assert_array_equal(
        packed["x1_packed"].numpy(), values["x1"].reshape(4, 4, 8, 3, 3).transpose(0, 2, 3, 4, 1)
    )
    np.testing.assert_array_equal(packed["x2_packed2"].numpy().ravel(), values["x2"])


def test_a_weight_that_several_kernels_use_alike_is_stored_once():
    def twice(x, w):
        return op.add(op.nn.relu(conv(x, w)), op.exp(conv(op.exp(x), w)))

    made = lowered(twice, X, W)
    assert len([call for call in tensor_calls(made.fused) if "conv2d" in str(call.args[0].name_hint)]) == 2
    assert parameters(made) == {"x1_packed": [4, 8, 3, 3, 4]}


def test_a_weight_that_is_computed_with_stays_an_argument():
    made = lowered(lambda x, w: conv(x, op.exp(w)), X, W)
    assert "x1" in parameters(made)
    assert not made.packings


def test_a_parameter_that_nothing_uses_stays_an_argument():
    made = lowered(lambda x, w, b: conv(x, w), X, W, B)
    assert list(parameters(made)) == ["x2", "x1_packed"]


def test_a_weight_that_is_broadcast_over_a_dynamic_batch_stays_an_argument():
    batch = tvm.tirx.Var("batch", "int64")
    x, w = (relax.Var(name, relax.TensorType([rows, 4], "float32")) for name, rows in (("x", batch), ("w", 1)))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            spread = builder.emit(op.broadcast_to(w, relax.ShapeExpr([batch, 4])))
            result = builder.emit_output(op.add(x, spread))
        builder.emit_func_output(result)
    kernels = relax.transform.LegalizeOps()(builder.get())
    taken = extract_weight_layouts(kernels, 1)
    assert [str(parameter.name) for parameter in taken.module["main"].params] == ["x", "w"]
    assert not taken.packings
