"""Norms in float16 of values whose squares overflow float16."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.transform.nets import run
from tests.tune.graphs import graph
from tvmake.frontend.relax_fixes import lift_constants
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

op = tvm.relax.op

ROWS = np.random.default_rng(0).standard_normal((3, 16)).astype("float32")
IDENTITY = np.eye(16, dtype="float32")


def normalised(squares: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What a product computes, divided by its norm."""

    def expression(x: Any) -> Any:
        y = op.matmul(x, tvm.relax.const(IDENTITY))
        return op.divide(y, op.sqrt(op.sum(squares(y), axis=[-1], keepdims=True)))

    return expression


SQUARES = {
    "a product": lambda y: op.multiply(y, y),
    "a power": lambda y: op.power(y, tvm.relax.const(2.0)),
    "of what is positive": lambda y: op.power(op.abs(y), tvm.relax.const(2.0)),
    "a square": op.square,
}


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("squares", SQUARES)
def test_norms_are_those_of_float32(squares: str, size: float):
    module, params = lift_constants(graph(normalised(SQUARES[squares]), ((3, 16), "float32")))
    made = transform(module, params, TransformRequest(precision=PrecisionConfig(base="float16")))
    expected = ROWS / np.sqrt((ROWS**2).sum(-1, keepdims=True))
    np.testing.assert_allclose(run(made, ROWS * np.float32(size)), expected, atol=2e-3)
