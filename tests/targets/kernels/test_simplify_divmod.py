"""Quotients and remainders without terms that never carry: the same values, by shorter expressions."""

import random

import numpy as np
import pytest
import tvm

from tests.tune.measure.kernels import target
from tvmake.targets.kernels.simplify_divmod import simplify_divmod


def function(index: str, dtype: str = "int32") -> "tvm.IRModule":
    """A kernel that writes an expression of three loop variables for each of their values."""
    text = f"""
# from tvm.script import tirx as T

@T.prim_func
def main(table: T.Buffer((64,), "{dtype}"), out: T.Buffer((768,), "{dtype}")):
    for step in T.serial(T.{dtype}(12)):
        for part in T.serial(T.{dtype}(16)):
            for thread in T.serial(T.{dtype}(4)):
                out[step * 64 + part * 4 + thread] = {index}
"""
    return tvm.IRModule({"main": tvm.script.from_source(text).with_attr("global_symbol", "main")})


def written(module: "tvm.IRModule", dtype: str = "int32") -> np.ndarray:
    values = [tvm.runtime.tensor(np.arange(count, dtype=dtype) * 37 % 1000) for count in (64, 768)]
    tvm.tirx.build(module, target=target())["main"](*values)
    return values[1].numpy()


POSITION = "(step * 64 + part * 4 + thread)"

SHORTER = {
    "place in a window": (f"{POSITION} % 384 // 128", "step * 64"),
    "quotient": (f"{POSITION} // 128", "part * 4"),
    "remainder": (f"{POSITION} % 128", "part * 4 + thread) % 128"),
    "constants": ("(step * 64 + part * 4 + 3 + 128) // 64", "part * 4"),
    "less than zero": ("(step * 64 - 256 + part * 4 + thread) // 64 % 3", "part * 4"),
}


@pytest.mark.parametrize("name", SHORTER)
def test_what_never_carries_is_left_out(name: str):
    index, gone = SHORTER[name]
    module = function(index)
    shortened = simplify_divmod(module)
    right = shortened.script().split("] = ")[-1]
    assert gone not in right
    np.testing.assert_array_equal(written(shortened), written(module))


@pytest.mark.parametrize(
    "index", [f"{POSITION} // 25", "(step * 64 + part * 5) // 64", "step // 3", f"{POSITION} // 1"]
)
def test_what_may_carry_stays(index: str):
    module = function(index)
    assert simplify_divmod(module)["main"].same_as(module["main"])


def test_values_that_are_read_are_terms_of_unknown_size():
    module = function("(step * 64 + table[part]) // 64 + table[step] % 8")
    np.testing.assert_array_equal(written(simplify_divmod(module)), written(module))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_values_are_the_same_whatever_the_expression(dtype: str):
    draw = random.Random(7)
    changed = 0
    for _ in range(40):
        factors = {"thread": [1, 2, 3], "part": [4, 5, 8, 16], "step": [16, 48, 64, -64]}
        terms = [f"{name} * {draw.choice(found)}" for name, found in factors.items()]
        whole = f"({' + '.join(terms)} + {draw.choice([0, 1, 3, 64, -5, -64])})"
        first, second = (draw.choice([2, 3, 4, 16, 48, 64, 128, 384]) for _ in range(2))
        module = function(draw.choice([f"{whole} % {first} // {second}", f"{whole} // {first} % {second}"]), dtype)
        shortened = simplify_divmod(module)
        changed += not shortened["main"].same_as(module["main"])
        np.testing.assert_array_equal(written(shortened, dtype), written(module, dtype))
    assert changed > 5
