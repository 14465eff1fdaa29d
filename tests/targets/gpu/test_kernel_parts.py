"""GPU kernels whose expression would double with each step are split."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, executable, lowered, op, target, tensor
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.native.backend import opencl_library

STEPS = 24

SHAPE = (1, 8, 4, 4)


def number(value: float) -> Any:
    return tvm.relax.const(value, "float32")


def repeated(step: Callable[[Any], Any], times: int = STEPS) -> Callable[[Any], Any]:
    """A step applied repeatedly."""

    def network(x: Any) -> Any:
        for _ in range(times):
            x = step(x)
        return x

    return network


def numpy_repeated(step: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def network(x: np.ndarray) -> np.ndarray:
        for _ in range(STEPS):
            x = step(x)
        return x

    return network


def choice(x: Any) -> Any:
    """Uses the previous value as condition and as value."""
    return op.where(op.greater(x, number(0.5)), op.multiply(x, number(0.9)), op.add(x, number(0.2)))


def numpy_choice(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0.5, x * np.float32(0.9), x + np.float32(0.2))


def square(x: Any) -> Any:
    """Uses the previous value twice."""
    return op.subtract(x, op.multiply(number(0.1), op.multiply(x, op.sin(x))))


def numpy_square(x: np.ndarray) -> np.ndarray:
    return x - np.float32(0.1) * (x * np.sin(x))


def pair(x: Any) -> Any:
    """Two values that depend on each other."""
    first, second = op.sin(x), op.cos(x)
    for _ in range(STEPS):
        change = op.multiply(number(0.1), op.sin(op.multiply(first, second)))
        first, second = op.add(first, change), op.subtract(second, change)
    return op.subtract(first, second)


def numpy_pair(x: np.ndarray) -> np.ndarray:
    first, second = np.sin(x), np.cos(x)
    for _ in range(STEPS):
        change = np.float32(0.1) * np.sin(first * second)
        first, second = first + change, second - change
    return first - second


NETWORKS = {
    "choices": (repeated(choice), numpy_repeated(numpy_choice)),
    "used twice": (repeated(square), numpy_repeated(numpy_square)),
    "two that depend on each other": (pair, numpy_pair),
}


@pytest.mark.parametrize("tag", [BUFFER, TEXTURE])
@pytest.mark.parametrize("name", NETWORKS)
def test_expressions_that_double_with_each_step_are_split_and_right(name: str, tag: str):
    need("PoCL")
    opencl_library()
    network, expected = NETWORKS[name]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    made = lowered(network, tensor(*SHAPE), name=tag)
    assert 1 < kernels(made) < STEPS
    device = tvm.device("opencl", 0)
    found: Any = tvm.relax.VirtualMachine(executable(made, tag), device)["main"](tvm.runtime.tensor(x, device)).numpy()
    np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-5)


def kernels(made: Any) -> int:
    """Number of kernel calls in a network."""
    return sum(isinstance(function, tvm.tirx.PrimFunc) for function in made.fused.functions.values())


@pytest.mark.parametrize(
    "network",
    [
        repeated(lambda x: op.exp(op.negative(x)), 60),
        repeated(lambda x: op.where(op.greater(op.sin(x), number(0.5)), x, op.cos(x)), 2),
        lambda x: repeated(lambda found: op.where(op.greater(x, number(0.5)), op.negative(found), x), 12)(op.sin(x)),
    ],
    ids=["used once", "few", "choices by others"],
)
def test_expressions_that_do_not_grow_are_one_kernel(network: Any):
    made = lowered(network, tensor(*SHAPE), name=BUFFER)
    assert kernels(made) == 1


def test_a_step_behind_a_convolution_stays_in_its_kernel():
    made = lowered(
        lambda x, weight: repeated(choice, 2)(op.nn.conv2d(x, weight, padding=1)),
        tensor(*SHAPE),
        tensor(8, 8, 3, 3),
        name=BUFFER,
    )
    assert kernels(made) == 1


def test_extents_that_are_symbols_are_kept():
    size = tvm.tirx.Var("n", "int64")
    x = tvm.relax.Var("x", tvm.relax.TensorType((size, 4), "float32"))
    builder = tvm.relax.BlockBuilder()
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            result = builder.emit_output(repeated(square)(x))
        builder.emit_func_output(result)
    made = lower(builder.get(), target(BUFFER), [], PassOptions(), 1)
    assert 1 < kernels(made) < STEPS
