"""Fourier transforms by matrices agree with numpy's."""

import numpy as np
import pytest

from tvmake.frontend.lowering.fourier import fourier_steps

SIGNAL = np.random.default_rng(0).standard_normal((4, 6, 5))
SPECTRUM = SIGNAL + 1j * SIGNAL[::-1]


def transform(kind, values, axes, lengths, is_scaled=False):
    for step in fourier_steps(kind, axes, lengths, lambda _, length: 1 / length if is_scaled else 1.0):
        moved = np.moveaxis(values, step.axis, -1)
        if step.gives_real:
            result = moved.real @ step.cosine - moved.imag @ step.sine
        else:
            result = moved @ (step.cosine + 1j * step.sine)
        values = np.moveaxis(result, -1, step.axis)
    return values


@pytest.mark.parametrize("axes", [[0], [1, 2], [2, 0]])
def test_a_transform_of_several_axes_agrees_with_numpy(axes):
    lengths = [SIGNAL.shape[axis] for axis in axes]
    np.testing.assert_allclose(transform("forward", SPECTRUM, axes, lengths), np.fft.fftn(SPECTRUM, axes=axes))
    inverse = transform("inverse", SPECTRUM, axes, lengths, is_scaled=True)
    np.testing.assert_allclose(inverse, np.fft.ifftn(SPECTRUM, axes=axes), atol=1e-12)


@pytest.mark.parametrize("axes", [[1], [2], [0, 2], [0, 1]])
def test_a_real_signal_is_transformed_to_half_a_spectrum_and_back(axes):
    lengths = [SIGNAL.shape[axis] for axis in axes]
    half = transform("to_half", SIGNAL, axes, lengths)
    np.testing.assert_allclose(half, np.fft.rfftn(SIGNAL, axes=axes), atol=1e-12)
    np.testing.assert_allclose(transform("from_half", half, axes, lengths, is_scaled=True), SIGNAL, atol=1e-12)
