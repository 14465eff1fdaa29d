"""Complex values and Fourier transforms of jax' programs, imported as pairs of real values and matmuls."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.requirements import need_module
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions

need_module("jax", "pip install 'tvmake[stablehlo]'")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from tests.frontend.stablehlo.programs import assert_as_jax, drawn, write  # noqa: E402
from tvmake.frontend.stablehlo.importer import read  # noqa: E402

ROWS, IMAGE = drawn(2, 8), drawn(1, 6, 8, 3)
WEIGHTS = (drawn(8, seed=1) + 1j * drawn(8, seed=2)).astype("complex64")
MANY = (drawn(40, 16, seed=1) + 1j * drawn(40, 16, seed=2)).astype("complex64")


def spectral_filter(x: Any) -> Any:
    spectrum = jnp.fft.rfft2(x, axes=(1, 2)) * lax.complex(drawn(6, 5, 3, seed=1), drawn(6, 5, 3, seed=2))
    return jnp.fft.irfft2(spectrum, s=(6, 8), axes=(1, 2))


def diagonal_states(x: Any) -> Any:
    """A linear recurrence with complex states, in parallel."""
    factors = jnp.broadcast_to(jnp.exp(-jnp.exp(drawn(8, seed=3)) + 1j * drawn(8, seed=4)), x.shape)

    def after(one: Any, other: Any) -> Any:
        return one[0] * other[0], other[0] * one[1] + other[1]

    return lax.associative_scan(after, (factors, x + 0j), axis=1)[1].real


def looped(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = state * WEIGHTS + row
        return state, 2 * state.real

    return lax.scan(step, jnp.zeros(8, "complex64"), x)[1]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "transforms": (
        lambda x: [
            jnp.fft.fft(x).imag,
            jnp.fft.ifft(x, norm="ortho").real,
            abs(jnp.fft.rfft(x)),
            jnp.fft.irfft(jnp.fft.rfft(x, 7) * jnp.arange(4), 7),
            jnp.fft.fftn(x).real,
            jnp.fft.irfftn(jnp.fft.rfftn(x), s=x.shape),
            jnp.fft.fftshift(jnp.fft.fft(x, axis=0), axes=1).imag,
        ],
        (ROWS,),
    ),
    "filters of images": (spectral_filter, (IMAGE,)),
    "convolution with a fixed signal": (
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x, 16) * jnp.fft.rfft(jnp.sin(jnp.arange(8.0)), 16), 16),
        (ROWS,),
    ),
    "arithmetic": (
        lambda x: [
            part
            for c in [jnp.fft.fft(x)]
            for value in (c * WEIGHTS, c / (2 + 1j), 1 / (c + 3), c - 1j, -c, c / 3, jnp.conj(c), c * x)
            for part in (value.real, value.imag)
        ],
        (ROWS,),
    ),
    "functions": (
        lambda x: [
            part
            for c in [lax.complex(x, 0.5 * x + 1)]
            for value in (
                jnp.exp(c), jnp.log(c), jnp.sqrt(c), lax.rsqrt(c), jnp.sin(c), jnp.cos(c), jnp.tanh(c), c**2, c**2.5, jnp.sign(c),
            )
            for part in (value.real, value.imag, abs(value), jnp.angle(value))
        ],
        (ROWS,),
    ),
    "shapes": (
        lambda x: [
            part
            for c in [jnp.fft.fft(x)]
            for value in (
                c.T, c[:, ::2], jnp.pad(c, 1), jnp.concatenate([c, 2 * c]), c[:, ::-1], jnp.tile(c, (2, 1)), c.sum(1), jnp.cumsum(c, 1),
                c.at[0].add(1j), c.at[:, 1:3].multiply(2), jnp.where(x > 0, c, 1j), jnp.take(c, jnp.array([2, 0]), axis=1),
            )
            for part in (value.real, value.imag)
        ] + [jnp.fft.fft(x) == jnp.fft.fft(x), jnp.fft.fft(x) != 0],
        (ROWS,),
    ),
    "products": (
        lambda x: [part for value in (jnp.fft.fft(x) @ MANY[:8], x @ MANY[:8]) for part in (value.real, value.imag)],
        (ROWS,),
    ),
    "many constants": (lambda x: (jnp.fft.fft(x).reshape(1, 16) * MANY).imag, (ROWS,)),
    "branches": (
        lambda x: lax.cond(x[0, 0] > 0, lambda c: c * 1j, lambda c: c, jnp.fft.fft(x)).real,
        (ROWS,),
    ),
    "a recurrence": (looped, (ROWS,)),
    "states in parallel": (diagonal_states, (drawn(2, 5, 8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_numbers_within_a_program_are_computed(name: str, tmp_path: Path):
    function, inputs = PROGRAMS[name]
    assert_as_jax(tmp_path, function, *inputs)


def test_an_unsupported_operator_on_complex_numbers_is_named(tmp_path: Path):
    path = write(tmp_path / "m.mlir", lambda x: jnp.prod(jnp.fft.fft(x)).real, ROWS)
    with pytest.raises(
        InputError, match=r"stablehlo\.reduce in a form .*combines complex numbers by anything but a sum"
    ):
        read(path, ImportOptions(source=str(path)))


def test_a_transform_that_is_too_long_is_refused(tmp_path: Path):
    path = write(tmp_path / "m.mlir", lambda x: abs(jnp.fft.rfft(x)), np.zeros((1, 5000), "float32"))
    with pytest.raises(InputError, match=r"of 5000 elements; up to 4096 are"):
        read(path, ImportOptions(source=str(path)))


GRADIENTS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "of maxima": (
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2).sum()),
        (IMAGE,),
    ),
    "of maxima of overlapping windows": (
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME") ** 2).sum()),
        (IMAGE,),
    ),
    "of maxima among equals": (
        jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME") ** 2).sum()),
        (np.ones((1, 5, 4, 2), "float32"),),
    ),
    "of a depthwise convolution": (
        jax.grad(
            lambda x, w: (
                lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3
                )
                ** 2
            ).sum(),
            argnums=(0, 1),
        ),
        (drawn(2, 6, 8, 3), drawn(3, 3, 1, 6, seed=1)),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_within_a_program_are_computed(name: str, tmp_path: Path):
    function, inputs = GRADIENTS[name]
    assert_as_jax(tmp_path, function, *inputs)
