"""Mixed precision of networks that TVM's pass fails at."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm

from tests.transform.nets import calls, input_dtypes
from tests.unoptimised import unoptimised_machine
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.precision import to_precision

from tvm import relax, topi  # isort: skip

op = relax.op
WEIGHTS = relax.const(np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype("float32") / 5)
X = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype("float32")


def padded(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    return builder.emit_te(topi.nn.pad, value, [0, 0, 1, 2], [0, 0, 0, 1], 0.5)


def piece(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    return relax.TupleGetItem(builder.emit(op.split(value, 2, 1)), 1)


ENDS: dict[str, Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]] = {
    "a kernel": padded,
    "a kernel before another convolution": lambda builder, value: op.nn.conv2d(
        padded(builder, value), op.ones((2, 4, 3, 3), "float32")
    ),
    "a number among the arguments": lambda builder, value: op.triu(value, 1),
    "a kernel of two tensors": lambda builder, value: builder.emit_te(
        topi.multiply, value, builder.emit(op.nn.relu(value))
    ),
    "a part of a tuple": piece,
    "a constant without elements": lambda builder, value: op.concat(
        [relax.const(np.zeros((1, 4, 0, 6), "float32")), value], 2
    ),
}


def network(end: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]) -> "tvm.IRModule":
    """A convolution followed by another operator."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(X.shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(end(builder, builder.emit(op.nn.conv2d(x, WEIGHTS))))
        builder.emit_func_output(result)
    return builder.get()


def computed(module: "tvm.IRModule") -> np.ndarray:
    machine = unoptimised_machine(module)
    return machine["main"](tvm.runtime.tensor(X)).numpy()


@pytest.mark.parametrize("base", ["float16", "float16_acc32"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_convolution_is_computed_in_half_and_the_rest_unchanged(
    end: Callable[[relax.BlockBuilder, relax.Expr], relax.Expr], base: str
):
    module = network(end)
    made = to_precision(module, PrecisionConfig(base=base))
    assert made["main"].ret_ty.dtype == module["main"].ret_ty.dtype
    assert {tuple(input_dtypes(call)) for call in calls(made, "nn.conv2d")} == {("float16", "float16")}
    np.testing.assert_allclose(computed(made), computed(module), rtol=0.02, atol=0.02)
