"""Multiplications by zero keep infinities and NaN, as in IEEE 754."""

import numpy as np
import torch
import tvm

from tests.frontend.torch.running import as_built
from tests.tune.graphs import graph
from tests.unoptimised import unoptimised_machine
from tvmake.transform.numbers.special_values import keep_infinities

EDGES = torch.tensor([torch.nan, torch.inf, -torch.inf, 2.0, 0.0])


def test_a_multiplication_by_zero_is_as_in_pytorch():
    for function in (lambda x: x * 0.0, lambda x: torch.zeros(()) * x):
        np.testing.assert_array_equal(as_built(function, EDGES), function(EDGES).numpy())


def test_integers_and_other_factors_stay():
    for factor, dtype in ((0, "int32"), (2.0, "float32")):
        module = graph(lambda x, f=factor, d=dtype: tvm.relax.op.multiply(x, tvm.relax.const(f, d)), ((5,), dtype))
        assert "multiply" in keep_infinities(module).script()


def test_a_dynamic_multiplication_by_zero_is_as_in_pytorch():
    length = tvm.tirx.Var("length", "int64")
    zero = tvm.relax.const(0.0, "float32")
    module = keep_infinities(graph(lambda x: tvm.relax.op.multiply(x, zero), ((length,), "float32")))
    built = unoptimised_machine(module)
    found = built["main"](tvm.runtime.tensor(EDGES.numpy())).numpy()
    np.testing.assert_array_equal(found, (EDGES * 0.0).numpy())


def test_a_factor_that_the_product_repeats_stays():
    zeros = tvm.relax.const(np.zeros((1, 1), "float32"))
    module = graph(lambda x: tvm.relax.op.multiply(x, zeros), ((tvm.tirx.Var("length", "int64"),), "float32"))
    assert "multiply" in keep_infinities(module).script()
