"""Processors without float16 arithmetic compute in float32, and round results once."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import lowered, result, values
from tvmake.targets.cpu.half_precision import NATIVE, compute_half_in_float32, computes_half
from tvmake.targets.cpu.native import native_attributes

op = tvm.relax.op
HALF = "float16"
WITHOUT = tvm.target.Target({"kind": "llvm", "mcpu": "haswell"})
HERE = tvm.target.Target({"kind": "llvm", **native_attributes(), "mattr": [f"-{feature}" for feature in NATIVE]})
"""This machine's processor without float16 arithmetic."""
WITH = tvm.target.Target({"kind": "llvm", "mcpu": "sapphirerapids"})


def convolution(data: Any, weight: Any) -> Any:
    return op.nn.relu(op.nn.conv2d(data, weight, padding=1))


KERNELS = {
    "convolution": (convolution, (1, 8, 9, 9), (16, 8, 3, 3)),
    "product": (op.matmul, (20, 33), (33, 48)),
    "softmax": (op.nn.softmax, (4, 49)),
    "gelu": (op.nn.gelu, (5, 77)),
    "layer norm": (lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes=[-1]), (6, 40), (40,), (40,)),
    "remainder": (op.mod, (5, 77), (5, 77)),
    "pool": (lambda x: op.nn.avg_pool2d(x, (3, 3), (2, 2), 1), (1, 12, 9, 9)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_results_are_those_of_float32_rounded(name: str):
    expression, *shapes = KERNELS[name]
    arguments = values(*((shape, HALF) for shape in shapes))
    half = result(lowered(expression, *((shape, HALF) for shape in shapes), target=HERE), arguments, HERE)
    single = [value.astype("float32") for value in arguments]
    exact = result(lowered(expression, *((shape, "float32") for shape in shapes)), single)
    assert half.dtype == HALF
    assert np.abs(half - exact).max() <= np.abs(exact).max() * 2**-10


def kernel(name: str, target: Any) -> "tvm.IRModule":
    """A scheduled float16 kernel for a target."""
    expression, *shapes = KERNELS[name]
    made = lowered(expression, *((shape, HALF) for shape in shapes), target=target)
    function = next(found for variable, found in made.final.functions_items() if str(variable.name_hint) in made.ruled)
    return tvm.IRModule({"main": function.with_attr("target", target)})


def test_there_is_no_arithmetic_of_float16_left():
    module = compute_half_in_float32(kernel("softmax", WITHOUT))
    assert "T.float16(" not in module.script()
    assert not computes_half(WITHOUT)


def test_processors_with_arithmetic_of_float16_use_it():
    module = kernel("softmax", WITH)
    assert computes_half(WITH)
    assert compute_half_in_float32(module)["main"].same_as(module["main"])


@pytest.mark.parametrize("name", ["topk", "sort", "argsort"])
def test_tensors_for_functions_of_libraries_keep_their_type(name: str):
    expressions = {
        "topk": lambda x: op.topk(x, k=3, ret_type="values"),
        "sort": lambda x: op.sort(x, descending=True),
        "argsort": lambda x: op.argsort(x, descending=True, dtype="int32"),
    }
    (data,) = values(((4, 9), HALF))
    found = result(lowered(expressions[name], ((4, 9), HALF), target=HERE), [data], HERE)
    order = np.argsort(-data, axis=-1, kind="stable")
    expected = order if name == "argsort" else np.take_along_axis(data, order, -1)
    np.testing.assert_array_equal(found, expected[:, : 3 if name == "topk" else None])
