"""Which blocks are inlined into their consumers, and which are not."""

from typing import Any

import numpy as np
import tvm

from tests.targets.cpu.schedules.nets import lowered, result, values
from tvmake.targets.kernels.expression_size import MOST_CHOICES, nested_choices

op = tvm.relax.op
SHAPE = ((64,), "float32")


def choices(times: int) -> Any:
    """Nested choices: each one's condition and value depend on the one before."""

    def function(x: Any) -> Any:
        found = x
        for step in range(times):
            other = op.sin(op.multiply(x, tvm.relax.const(float(step), "float32")))
            found = op.where(op.greater(found, other), op.multiply(found, tvm.relax.const(2.0, "float32")), other)
        return found

    return function


def deepest(times: int) -> int:
    """The deepest nesting of choices in the kernels of a network of choices."""
    kernels = [
        one for one in lowered(choices(times), SHAPE).final.functions.values() if isinstance(one, tvm.tirx.PrimFunc)
    ]
    return max(nested_choices(kernel.body) for kernel in kernels)


def test_choices_of_choices_are_computed_one_after_the_other():
    assert deepest(2) == 2
    assert deepest(8) == MOST_CHOICES
    (x,) = arguments = values(SHAPE)
    expected = x
    for step in range(8):
        other = np.sin(x * np.float32(step))
        expected = np.where(expected > other, expected * 2, other)
    np.testing.assert_allclose(result(lowered(choices(8), SHAPE), arguments), expected, rtol=1e-5, atol=1e-6)
