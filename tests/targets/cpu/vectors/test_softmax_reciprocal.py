"""Softmax divides once per row, and other divisions do not change."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.nets import lowered, result
from tvmake.targets.cpu.vectors.softmax_reciprocal import SHARES, divide_by_reciprocal

from tvm import s_tir, tirx  # isort: skip

op = tvm.relax.op
ROWS = ((6, 40), "float32")


def marked(expression: Any) -> "tvm.IRModule":
    """A network's kernel in which a rule marked the blocks that divide by a softmax's sum."""
    made = lowered(expression, ROWS)
    (kernel,) = [f for name, f in made.final.functions_items() if str(name.name_hint) in made.ruled]
    return tvm.IRModule({"main": kernel})


def divided(module: "tvm.IRModule") -> list[bool]:
    """For each division, whether it divides the number one."""
    found: list[bool] = []
    tvm_ffi.structural_walk(
        module["main"].body,
        (tirx.Div, lambda one: found.append(isinstance(one.a, tirx.FloatImm) and float(one.a) == 1)),
    )
    return found


def test_a_softmax_divides_one_by_the_sum():
    module = marked(lambda x: op.nn.softmax(x, -1))
    assert divided(module) == [False]
    assert divided(divide_by_reciprocal(module)) == [True]


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: op.divide(x, op.sum(x, -1, keepdims=True)),
        lambda x: op.divide(op.exp(x), op.sum(op.exp(x), -1, keepdims=True)),
        lambda x: op.divide(x, op.max(x, -1, keepdims=True)),
    ],
    ids=["share of a sum that may be anything", "exponents without their maximum", "part of a maximum"],
)
def test_other_divisions_stay_divisions(expression: Any):
    made = lowered(expression, ROWS)
    found: list[Any] = []

    def note(block: Any) -> None:
        if SHARES in block.annotations:
            found.append(block)

    for _, function in made.final.functions_items():
        if isinstance(function, tirx.PrimFunc):
            tvm_ffi.structural_walk(function.body, (s_tir.SBlock, note))
    assert not found


def test_shares_add_up_to_one_also_for_extreme_rows():
    x = np.array(
        [[1e30, 0, -1e30, 1e30] * 10, [-88.0] * 40, [0.0] * 39 + [np.inf], [3e38] * 40, [-3e38] * 40, [5.0] * 40]
    )
    with np.errstate(invalid="ignore"):
        shares = result(lowered(lambda x: op.nn.softmax(x, -1), ROWS), [x.astype("float32")])
    assert np.isnan(shares[2, 39])
    assert np.allclose(np.delete(shares, 2, axis=0).sum(-1), 1, atol=1e-6)
