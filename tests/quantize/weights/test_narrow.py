"""Rounding of weights to integers."""

import numpy as np
import pytest

from tvmake.quantize.weights.narrow import ELEMENTS_AT_ONCE, integers_of


@pytest.mark.parametrize(("bits", "group"), [(4, 64), (8, None), (8, 32)])
def test_channels_of_large_weights_are_rounded_as_each_alone(bits: int, group: int | None):
    inputs = 4000
    outputs = ELEMENTS_AT_ONCE // inputs + 20
    weight = np.random.default_rng(0).standard_normal((inputs, outputs), np.float32)
    whole = integers_of(weight, bits, group)
    for channel in (0, outputs - 21, outputs - 20, outputs - 1):
        single = integers_of(weight[:, channel : channel + 1], bits, group)
        np.testing.assert_array_equal(whole.values[..., channel : channel + 1], single.values)
        np.testing.assert_array_equal(whole.scales[:, channel : channel + 1], single.scales)
