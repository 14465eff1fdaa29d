"""Values that were computed as neighbours, and then padded, are read at the correct indices."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.targets.cpu.schedules.nets import lowered, result

from tvm import relax  # isort: skip

op = relax.op


def adjacent(x: Any, scale: Any, bias: Any, power: int) -> Any:
    """[1, 1, 17, 16·power] with channels last: floats for integers, quantised to 8 bits twice.

    In between, ``power`` channels become neighbours, two values at each end are cut off, and padding of 27 is added.
    """
    channels = op.squeeze(op.permute_dims(x, [0, 3, 1, 2]), [2])
    real = op.multiply(op.astype(channels, "float32"), scale)
    steps = op.permute_dims(op.reshape(real, (1, 16, power, 17)), [0, 1, 3, 2])
    whole = op.strided_slice(op.reshape(steps, (1, 16, 17 * power)), [2], [2], [17 * power - 2])
    first = rounded(op.add(whole, bias), 4.0, 139.0)
    again = op.multiply(op.subtract(op.astype(first, "float32"), number(139.0)), number(0.25))
    second = rounded(op.maximum(again, op.multiply(again, number(0.5))), 8.0, 27.0)
    bordered = op.nn.pad(second, [0, 0, 0, 0, 3, 3], pad_value=27)
    return op.permute_dims(op.expand_dims(bordered, [2]), [0, 2, 3, 1])


def number(value: float) -> Any:
    return relax.const(value, "float32")


def rounded(x: Any, steps: float, zero: float) -> Any:
    found = op.add(op.round(op.multiply(x, number(steps))), number(zero))
    return op.astype(op.maximum(op.minimum(found, number(255.0)), number(0.0)), "uint8")


def expected(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, power: int) -> np.ndarray:
    real = x[0, 0].T.astype("float32") * scale[0]
    whole = real.reshape(16, power, 17).swapaxes(1, 2).reshape(1, 16, 17 * power)[..., 2:-2] + bias
    again = (np.clip(np.rint(whole * 4) + 139, 0, 255) - 139) * 0.25
    second = np.clip(np.rint(np.maximum(again, again * 0.5) * 8) + 27, 0, 255)
    return np.pad(second, [(0, 0), (0, 0), (3, 3)], constant_values=27).astype("uint8").swapaxes(1, 2)[:, None]


def drawn(power: int) -> list[np.ndarray]:
    """Integers, and factors and summands that avoid rounding ties."""
    generator = np.random.default_rng(0)
    return [
        generator.integers(-50, 50, (1, 1, 17, 16 * power)).astype("int32"),
        np.exp2(generator.integers(-4, 0, (1, 16 * power, 1))).astype("float32"),
        (generator.integers(-9, 9, (1, 16, 1)) / 8).astype("float32"),
    ]


def computed(power: int) -> np.ndarray:
    arguments = drawn(power)
    shapes = [(value.shape, str(value.dtype)) for value in arguments]
    return result(lowered(partial(adjacent, power=power), *shapes), arguments)


@pytest.fixture
def in_one_part(monkeypatch):
    """Padding is tested value by value, within vectors."""
    monkeypatch.setattr("tvmake.targets.cpu.schedules.loops.ends", lambda _block: [])


@pytest.mark.parametrize("power", [2, 3, 4, 8])
def test_padding_around_neighbours(power: int):
    np.testing.assert_array_equal(computed(power), expected(*drawn(power), power))


@pytest.mark.usefixtures("in_one_part")
@pytest.mark.parametrize("power", [2, 3, 4, 8])
def test_padding_within_vectors(power: int):
    np.testing.assert_array_equal(computed(power), expected(*drawn(power), power))
