"""Loops: unrolled if they are short, else functions whose size does not depend on the number of steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import need_module
from tvmake.frontend.options import ImportOptions
from tvmake.ir.attributes import CPU_ONLY

need_module("jax", "pip install 'tvmake[stablehlo]'")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontend.stablehlo.programs import assert_as_jax, drawn, export_symbolic, write  # noqa: E402
from tests.frontend.stablehlo.test_dynamic_dimensions import NUMBER, TOKENS  # noqa: E402
from tests.frontend.stablehlo.test_dynamic_dimensions import assert_as_jax as assert_symbolic_as_jax  # noqa: E402
from tvmake.frontend.stablehlo.importer import read  # noqa: E402
from tvmake.frontend.stablehlo.loops.bodies import SLOW_CELL  # noqa: E402

WEIGHT = drawn(8, 8, seed=3) / 3


def scan(x, **options):
    def step(state, row):
        state = jnp.tanh(row + state @ WEIGHT) * 0.5
        return state, state.sum(-1)

    return lax.scan(step, jnp.zeros((x.shape[0], 8)), jnp.swapaxes(x, 0, 1), **options)


def double(x, limit=100.0):
    return lax.while_loop(lambda v: v[0].sum() < limit, lambda v: (v[0] * 1.5, v[1] + 1), (abs(x) + 1, jnp.int32(0)))


DYNAMIC: dict[str, tuple[Callable[..., Any], tuple[tuple[str, str], ...]]] = {
    "a scan": (scan, (TOKENS,)),
    "a reversed scan": (lambda x: scan(x, reverse=True), (TOKENS,)),
    "a map": (lambda x: lax.map(lambda row: row @ row.T, x), (TOKENS,)),
    "a counter in a sum": (lambda x: lax.fori_loop(0, x.shape[1], lambda i, c: c + x[:, i] * i, x[:, 0]), (TOKENS,)),
    "a number of steps that is an input": (lambda x, n: lax.fori_loop(1, n, lambda i, c: c * 0.5 + i, x), (TOKENS, NUMBER)),
    "an end that depends on data": (double, (TOKENS,)),
    "a loop in a loop": (
        lambda x: lax.fori_loop(0, x.shape[1], lambda i, c: lax.fori_loop(0, i, lambda j, d: d * 0.9 + j, c), x[:, 0]),
        (TOKENS,),
    ),
    "a buffer that is read": (
        lambda x: lax.fori_loop(1, x.shape[1], lambda i, c: c.at[:, i].set(c[:, i - 1] + x[:, i]), x),
        (TOKENS,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_a_loop_of_dynamic_length_agrees_with_jax(tmp_path: Path, name: str):
    function, inputs = DYNAMIC[name]
    assert_symbolic_as_jax(tmp_path, function, *inputs)


def functions(directory: Path, steps: int) -> list[Any]:
    path = write(directory / "m.mlir", scan, drawn(2, steps, 8))
    module = read(path, ImportOptions(source=str(path))).module
    return [function for _, function in module.functions_items()]


def test_a_long_scan_is_a_loop_and_a_short_one_is_unrolled(tmp_path: Path):
    assert len(functions(tmp_path, 20)) == 1
    assert len(functions(tmp_path, 1000)) == len(functions(tmp_path, 2000)) > 1
    assert any(CPU_ONLY in (function.attrs or {}) for function in functions(tmp_path, 1000))
    assert_as_jax(tmp_path, scan, drawn(2, 1000, 8))


def test_a_loop_in_a_branch_that_is_not_taken_does_not_run(tmp_path: Path):
    def never_ends(x):
        return lax.while_loop(lambda v: v.sum() < jnp.inf, lambda v: v, x)

    def branch(x):
        return lax.cond(x.sum() > 1e9, never_ends, lambda x: x * 2, x)

    assert_as_jax(tmp_path, branch, drawn(2, 4))


def test_large_constants_of_a_body_are_parameters(tmp_path: Path):
    path = tmp_path / "m.mlir"
    path.write_text(export_symbolic(scan, TOKENS).mlir_module())
    params = read(path, ImportOptions(source=str(path))).params
    assert any(np.array_equal(value.numpy(), WEIGHT) for value in params.values())


def lstm(x, **options):
    weights, recurrent, bias = drawn(8, 20, seed=4) / 3, drawn(5, 20, seed=5) / 3, drawn(20, seed=6)

    def step(carry, row):
        cell, state = carry
        i, f, g, o = jnp.split(row @ weights + state @ recurrent + bias, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        state = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (cell, state), state

    start = x[:, 0, :5]
    return lax.scan(step, (start * 0.5, start), jnp.swapaxes(x, 0, 1), **options)


def gru(x):
    weights, recurrent, bias = drawn(8, 15, seed=4) / 3, drawn(5, 15, seed=5) / 3, drawn(5, seed=6)

    def step(state, row):
        from_row, from_state = jnp.split(row @ weights, 3, -1), jnp.split(state @ recurrent, 3, -1)
        r, z = (jax.nn.sigmoid(a + b) for a, b in zip(from_row[:2], from_state[:2], strict=True))
        n = jnp.tanh(from_row[2] + r * (from_state[2] + bias))
        state = (1 - z) * n + z * state
        return state, state

    return lax.scan(step, x[:, 0, :5], jnp.swapaxes(x, 0, 1))


def plain(x):
    weights, recurrent = drawn(8, 5, seed=4) / 3, drawn(5, 5, seed=5) / 3
    return lax.scan(lambda h, row: (jnp.tanh(row @ weights + h @ recurrent), None), x[:, 0, :5], jnp.swapaxes(x, 0, 1))[
        0
    ]


CELLS = {"lstm": lstm, "reversed lstm": lambda x: lstm(x, reverse=True), "gru": gru, "plain": plain}


@pytest.mark.parametrize("name", CELLS)
def test_a_scan_of_a_recurrent_cell_is_one_kernel(tmp_path: Path, name: str):
    model = assert_symbolic_as_jax(tmp_path, CELLS[name], TOKENS)
    assert [variable.name_hint for variable in model.module.get_global_vars()] == ["main", "recurrence"]


def test_a_cell_with_another_activation_is_a_loop(tmp_path: Path):
    def other(x):
        weights, recurrent = drawn(8, 5, seed=4) / 3, drawn(5, 5, seed=5) / 3
        rows = jnp.swapaxes(x, 0, 1)
        return lax.scan(lambda h, row: (jnp.sin(row @ weights + h @ recurrent), None), x[:, 0, :5], rows)[0]

    model = assert_symbolic_as_jax(tmp_path, other, TOKENS)
    assert len(model.module.get_global_vars()) > 2


def test_a_cell_whose_weights_are_inputs_is_slow_with_a_remedy(tmp_path: Path):
    def cell(x, weights):
        return lax.scan(lambda h, row: (jnp.tanh(row @ weights + h), None), x[0, :, :5], x)[0]

    inputs = {"x": (1000, 3, 8), "weights": (8, 5)}
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in inputs.values()]
    path = tmp_path / "cell.mlir"
    path.write_text(jax.jit(cell).lower(*arguments).as_text())
    assert read(path, ImportOptions(source=str(path))).notes["slow"] == [SLOW_CELL]
    constant = jax.jit(lambda x: cell(x, drawn(8, 5, seed=4)))
    path.write_text(constant.lower(arguments[0]).as_text())
    assert "slow" not in read(path, ImportOptions(source=str(path))).notes
