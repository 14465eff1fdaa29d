"""Programs with symbolic shapes: one import is right at several sizes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.requirements import need_module
from tests.unoptimised import unoptimised_machine
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions, InputSpec
from tvmake.frontend.smallest_sizes import bound_sizes

need_module("jax", "pip install 'tvmake[stablehlo]'")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontend.stablehlo.programs import drawn, export_symbolic  # noqa: E402
from tvmake.frontend.stablehlo.importer import read  # noqa: E402
from tvmake.validate.reference.jax_program import load_callable  # noqa: E402

SIZES = ({"b": 1, "t": 4}, {"b": 3, "t": 9})
TOKENS, IMAGE, NUMBER, IDS = ("b, t, 8", "float32"), ("b, t, t, 3", "float32"), ("", "int32"), ("b, t", "int32")


def import_symbolic(
    directory: Path, function: Callable[..., Any], *inputs: tuple[str, str], constraints: Sequence[str] = (), **settings
) -> Any:
    path = directory / "m.mlir"
    path.write_text(export_symbolic(function, *inputs, constraints=constraints).mlir_module())
    return bound_sizes(read(path, ImportOptions(source=str(path), **settings)), str(path))


def run_sizes(model: Any, sizes: Sequence[Mapping[str, int]]) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """For each set of sizes, inputs and outputs."""
    machine, runs = unoptimised_machine(model.module), []
    for dims in sizes:
        inputs = [
            draw([extent if isinstance(extent, int) else eval(extent, dict(dims)) for extent in spec.shape], spec.dtype)
            for spec in model.signature.inputs
        ]
        values = [*inputs, *(np.asarray(value.numpy()) for value in model.params.values())]
        returned = machine["main"](*(tvm.runtime.tensor(np.array(value, order="C")) for value in values))
        results = [returned] if isinstance(returned, tvm.runtime.Tensor) else list(returned)
        runs.append((inputs, [result.numpy() for result in results]))
    return runs


def draw(shape: Sequence[int], dtype: str) -> np.ndarray:
    if dtype == "float32":
        return drawn(*shape)
    return np.random.default_rng(1).integers(0, 4, shape).astype(dtype)


def assert_as_jax(directory: Path, function: Callable[..., Any], *inputs: tuple[str, str], **options: Any) -> Any:
    model = import_symbolic(directory, function, *inputs, **options)
    for given, results in run_sizes(model, SIZES):
        for found, expected in zip(results, jax.tree_util.tree_leaves(jax.jit(function)(*given)), strict=True):
            assert found.shape == expected.shape and found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    return model


def attention(x):
    q = x.reshape(*x.shape[:2], 2, 4)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, q)
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), q).reshape(x.shape)


def convolve(x):
    return lax.conv_general_dilated(x, drawn(3, 3, 3, 4), (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[str, str], ...]]] = {
    "attention": (attention, (TOKENS,)),
    "flattened": (lambda x: jax.nn.softmax(x.reshape(x.shape[0], -1)), (TOKENS,)),
    "slices": (lambda x: (x[:, 1:-1:2], x[:, ::-1], x[:, -1], x[:, : x.shape[1] // 2]), (TOKENS,)),
    "slices at an index": (lambda x, i: lax.dynamic_slice(x, (0, i, 0), (x.shape[0], x.shape[1] // 2, 8)), (TOKENS, NUMBER)),
    "writes": (lambda x, i: (x.at[:, i].set(0.0), lax.dynamic_update_slice(x, x[:, :1] * 0, (0, i, 0))), (TOKENS, NUMBER)),
    "padding": (lambda x: jnp.pad(x, ((0, 0), (0, x.shape[1] - 1), (0, 0))), (TOKENS,)),
    "sizes as values": (lambda x: x * x.shape[1] + jnp.arange(x.shape[1], dtype="float32")[:, None], (TOKENS,)),
    "reductions": (lambda x: (x.mean((0, 1)), x.std(1), jnp.argmax(x, 1), jnp.cumsum(x, 1), lax.top_k(x, 3)), (TOKENS,)),
    "lookups": (lambda i: jnp.take(drawn(100, 8), i, axis=0), (IDS,)),
    "lookups along": (lambda x, i: jnp.take_along_axis(x, i[:, :, None], 1), (TOKENS, IDS)),
    "convolution": (convolve, (IMAGE,)),
    "pooling": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), (IMAGE,)),
    "spectra": (lambda x: jnp.abs(jnp.fft.rfft(x)), (TOKENS,)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_with_dynamic_dimensions_agrees_with_jax(tmp_path: Path, name: str):
    function, inputs = PROGRAMS[name]
    assert_as_jax(tmp_path, function, *inputs)


def test_dimensions_are_named_as_in_the_export(tmp_path: Path):
    model = assert_as_jax(tmp_path, lambda x, y: x[:1] * y.sum(), ("2*b, t + 1, 3", "float32"), ("b, t", "float32"))
    assert [spec.shape for spec in model.signature.inputs] == [("b * 2", "t + 1", 3), ("b", "t")]
    assert [spec.shape for spec in model.signature.outputs] == [(1, "t + 1", 3)]
    assert [spec.name for spec in model.signature.inputs] == ["x", "y"]


def test_constraints_are_bounds_and_checks(tmp_path: Path):
    def pairs(x, y):
        return x.reshape(x.shape[0], x.shape[1] // 2, 16) * y.sum()

    model = import_symbolic(
        tmp_path, pairs, TOKENS, ("s", "float32"), constraints=("t >= 4", "t <= 64", "mod(t, 2) == 0", "s >= t")
    )
    assert model.signature.bounds == {"b": (1, None), "s": (1, None), "t": (4, 64)}
    run_sizes(model, [{"b": 1, "t": 6, "s": 6}])
    for sizes in ({"b": 1, "t": 5, "s": 9}, {"b": 1, "t": 6, "s": 5}):
        with pytest.raises(Exception, match="match_cast error"):
            run_sizes(model, [sizes])


def test_a_config_fixes_and_renames_dimensions(tmp_path: Path):
    entries = {"x": InputSpec(shape=[1, "length", 8])}
    model = import_symbolic(tmp_path, attention, TOKENS, inputs=entries)
    assert model.signature.inputs[0].shape == model.signature.outputs[0].shape == (1, "length", 8)
    entries["y"] = InputSpec(shape=[2, "t"])
    with pytest.raises(InputError, match="the dimension b of input 'y' cannot be 2"):
        import_symbolic(tmp_path, lambda x, y: x.sum() + y, TOKENS, ("b, t", "float32"), inputs=entries)


def test_serialized_exports_of_several_platforms_run_in_jax_and_are_imported(tmp_path: Path):
    path = tmp_path / "m.stablehlo"
    path.write_bytes(export_symbolic(attention, TOKENS, platforms=["cuda", "cpu"]).serialize())
    model = read(path, ImportOptions(source=str(path)))
    assert [spec.name for spec in model.signature.inputs] == ["x"]
    reference = load_callable(str(path))
    for inputs, results in run_sizes(model, SIZES):
        np.testing.assert_allclose(results[0], reference(*inputs)[0], rtol=2e-5, atol=2e-5)
