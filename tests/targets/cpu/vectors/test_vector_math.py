"""Exponentials and related functions are accurate to a few units in the last place, including extreme values."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import NATIVE, lowered, result
from tvmake.targets.cpu.vectors.vector_math import FUNCTIONS, vectorize_math

op = tvm.relax.op
EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 1e-45, 88.7, 88.8, -87.3, -103.0, -110.0])
SIZES = np.concatenate([np.geomspace(1e-45, 3.4e38, 100_001), 1 + np.linspace(-1e-3, 1e-3, 2001), [0.5, 0.7071068, 2]])
POINTS = np.concatenate([np.linspace(-110, 100, 200_001), np.linspace(-6, 6, 100_003), SIZES, EDGES]).astype("float32")

EXACT: dict[str, Any] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: np.vectorize(__import__("math").erf)(x),
}
UNITS = {"exp": 2, "log": 2, "tanh": 6, "sigmoid": 4, "erf": 6}
"""Maximum error in units in the last place."""


def computed(function: Any, points: np.ndarray) -> np.ndarray:
    return result(lowered(function, (points.shape, str(points.dtype))), [points])


@pytest.mark.parametrize("name", EXACT)
def test_functions_are_as_exact_as_they_say(name: str):
    with np.errstate(all="ignore"):
        exact = EXACT[name](POINTS.astype("float64")).astype("float32")
    found = computed(getattr(op, name), POINTS)
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    assert np.array_equal(np.isinf(found), np.isinf(exact))
    finite = np.isfinite(exact)
    difference = np.abs(found[finite].astype("float64") - exact[finite])
    assert np.max(difference / np.maximum(np.spacing(np.abs(exact[finite])), 1e-38)) <= UNITS[name]


def test_half_precision_is_computed_in_single():
    points = np.linspace(-8, 8, 1001).astype("float16")
    exact = np.exp(points.astype("float64"))
    assert np.max(np.abs(computed(op.exp, points) - exact) / exact) < 1e-3


def test_small_powers_are_multiplications():
    points = np.linspace(-3, 3, 77).astype("float32")
    found = computed(lambda x: op.power(x, tvm.relax.const(3.0, "float32")), points)
    assert np.allclose(found, points**3, rtol=1e-6)


def test_no_call_of_the_library_is_left():
    made = lowered(op.nn.gelu, ((8, 64), "float32"))
    module = vectorize_math(tvm.IRModule({n: f for n, f in made.final.functions_items() if "gelu" in n.name_hint}))
    assert module.functions_items()
    assert not any(f"T.{name.removeprefix('tirx.')}(" in module.script() for name in (*FUNCTIONS, "tirx.pow"))
    assert NATIVE.kind.name == "llvm"


@pytest.mark.parametrize("name", EXACT)
def test_factors_of_values_that_tvm_leaves_in_a_loop_are_compiled(name: str):
    """TVM does not vectorise rounding to the nearest integer, which dequantised 8-bit integers need."""
    points = np.linspace(-6, 6, 4096).astype("float32")
    found = computed(lambda x: op.multiply(getattr(op, name)(op.round(x)), tvm.relax.const(3.0, "float32")), points)
    with np.errstate(all="ignore"):
        exact = 3 * EXACT[name](np.rint(points).astype("float64"))
    assert np.allclose(found, exact, rtol=1e-5, equal_nan=True)
