"""Lengths and coordinates of resizes."""

import numpy as np
from tvm import tirx

from tvmake.frontend.lowering.resize import scale_extent
from tvmake.ir.dimensions import whole_factor

HEIGHT, WIDTH = (tirx.Var(name, "int64") for name in "hw")


def test_a_length_is_multiplied_in_whole_numbers_where_the_scale_is_a_fraction_of_a_small_power_of_two():
    assert str(scale_extent(HEIGHT, 2.0, "float32")) == str(HEIGHT * 2)
    assert str(scale_extent(HEIGHT, 1.5, "float32")) == str(HEIGHT * 3 // 2)
    assert scale_extent(10, 0.7, "float32") == int(np.float32(10) * np.float32(0.7))


def test_a_whole_factor_holds_for_every_length():
    assert whole_factor(HEIGHT, (HEIGHT - 1) * 2 + 2) == 2
    assert whole_factor(HEIGHT, WIDTH) is None
    assert whole_factor(HEIGHT, HEIGHT * 3 // 2) is None
    assert (whole_factor(4, 12), whole_factor(5, 12)) == (3, None)
