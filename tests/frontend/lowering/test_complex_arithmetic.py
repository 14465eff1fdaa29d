"""Arithmetic on pairs agrees with numpy's complex arithmetic."""

import numpy as np
import pytest

from tvmake.frontend.lowering.complex_arithmetic import ComplexArithmetic, Pair

OPERATORS = {"max": np.maximum, "negate": np.negative, "select": np.where, "atan2": np.arctan2}


class NumpyArithmetic(ComplexArithmetic):
    """Complex arithmetic on arrays."""

    def write(self, operator, *operands):
        """The result of numpy's function."""
        return (OPERATORS.get(operator) or getattr(np, operator))(*operands)


LEFT = np.array([1 + 2j, -3 + 0.5j, -2 - 1e-3j, 4 - 4j, 0.25j])
RIGHT = np.array([2 - 1j, 0.5 + 0.5j, -1 + 0j, 3j, -7 - 2j])
CASES = {
    "multiply": ("multiply", np.multiply, (LEFT, RIGHT)),
    "log": ("log", np.log, (LEFT,)),
    "sqrt": ("sqrt", np.sqrt, (LEFT,)),
}


def pair(values):
    return Pair(values.real, values.imag)


@pytest.mark.parametrize("name", CASES)
def test_a_complex_function_agrees_with_numpy(name):
    method, function, operands = CASES[name]
    real, imaginary = getattr(NumpyArithmetic(), method)(*map(pair, operands))
    np.testing.assert_allclose(real + 1j * imaginary, function(*operands))


def test_a_complex_matmul_agrees_with_numpy():
    left, right = np.outer(LEFT, RIGHT), np.outer(RIGHT, LEFT.conj())
    real, imaginary = NumpyArithmetic().bilinear(np.matmul, pair(left), pair(right))
    np.testing.assert_allclose(real + 1j * imaginary, left @ right)


def test_the_magnitude_is_the_absolute_value():
    np.testing.assert_allclose(NumpyArithmetic().magnitude(pair(LEFT)), np.abs(LEFT))
