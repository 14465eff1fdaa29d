"""Small programs, exported by jax."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tests.frontend.compiled import run_compiled
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.stablehlo.importer import read


def export(function: Callable[..., Any], *inputs: np.ndarray) -> Any:
    """The exported function (``jax.export.Exported``), for the shapes and types of the inputs."""
    shapes = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in inputs]
    return jax.export.export(jax.jit(function))(*shapes)


def export_symbolic(
    function: Callable[..., Any],
    *inputs: tuple[str, str],
    constraints: Sequence[str] = (),
    platforms: Sequence[str] | None = None,
) -> Any:
    """The function, exported for symbolic shapes: each input's as text (``b, t, 8``), and its type."""
    scope = jax.export.SymbolicScope(constraints)
    shapes = [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape, scope=scope) if shape else (), dtype)
        for shape, dtype in inputs
    ]
    return jax.export.export(jax.jit(function), platforms=platforms)(*shapes)


def write(path: Path, function: Callable[..., Any], *inputs: np.ndarray) -> Path:
    """Write the function to a file: MLIR text, or a portable artifact if the name ends in ``.mlirbc``."""
    exported = export(function, *inputs)
    if path.suffix == ".mlirbc":
        path.write_bytes(exported.mlir_module_serialized)
    else:
        path.write_text(exported.mlir_module())
    return path


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def assert_as_jax(directory: Path, function: Callable[..., Any], *inputs: np.ndarray) -> None:
    """Assert that the imported function agrees with jax."""
    path = write(directory / "m.mlir", function, *inputs)
    result = run_compiled(read(path, ImportOptions(source=str(path))), inputs)
    expected = jax.tree_util.tree_leaves(jax.jit(function)(*inputs))
    for number, (got, wanted) in enumerate(zip(result, expected, strict=True)):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-5, err_msg=f"output {number}")
