"""Leaky ReLU and softplus take the layout of the convolution before them, with the same values."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.transform.layouts.test_clips import computed, operators, transposes
from tvmake.transform.layouts.activations import spell_out_activations

ACTIVATIONS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "leaky ReLU": lambda x: relax.op.nn.leakyrelu(x, 0.1),
    "softplus": lambda x: relax.op.nn.softplus(x, 2.0, 20.0),
}
EDGES = np.array([[-np.inf, -90, -20, -1, -1e-3, 0, 1e-3, 0.5, 9, 30, 90, np.inf, np.nan]], "float32")


def convolution(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.conv2d(x, relax.const(np.ones((3, 3, 3, 3), "float32")))


def module_of(activation: Callable[[relax.Expr], relax.Expr], has_convolutions: bool) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3, 8, 8) if has_convolutions else EDGES.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            made = builder.emit(activation(builder.emit(convolution(x)) if has_convolutions else x))
            out = builder.emit_output(convolution(made) if has_convolutions else made)
        builder.emit_func_output(out)
    return builder.get()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_they_take_the_layout_of_the_convolution_before_them(name: str):
    plain = transposes(module_of(lambda x: relax.op.nn.relu(x), True))
    assert transposes(spell_out_activations(module_of(ACTIVATIONS[name], True))) == plain


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_stay_the_same_in_another_layout(name: str):
    module = module_of(ACTIVATIONS[name], False)
    got = computed(spell_out_activations(module), EDGES)
    np.testing.assert_allclose(got, computed(module, EDGES), rtol=1e-6, atol=1e-7)


def test_slopes_beyond_one_and_integers_stay():
    steep = module_of(lambda x: relax.op.nn.leakyrelu(x, 1.5), False)
    assert "relax.nn.leakyrelu" in operators(spell_out_activations(steep))
