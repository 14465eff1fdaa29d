"""Lengths and coordinates of resizes."""

import numpy as np
from tvm import relax, tirx

from tvmake.frontend.lowering.resize import compute_along, scale_extent
from tvmake.ir.dimensions import whole_factor

HEIGHT, WIDTH = (tirx.Var(name, "int64") for name in "hw")


def test_a_length_is_scaled_in_integers_if_the_scale_has_a_small_power_of_two_as_denominator():
    assert str(scale_extent(HEIGHT, 2.0, "float32")) == str(HEIGHT * 2)
    assert str(scale_extent(HEIGHT, 1.5, "float32")) == str(HEIGHT * 3 // 2)
    assert scale_extent(10, 0.7, "float32") == int(np.float32(10) * np.float32(0.7))


def test_an_integer_factor_is_independent_of_the_length():
    assert whole_factor(HEIGHT, (HEIGHT - 1) * 2 + 2) == 2
    assert whole_factor(HEIGHT, WIDTH) is None
    assert whole_factor(HEIGHT, HEIGHT * 3 // 2) is None
    assert (whole_factor(4, 12), whole_factor(5, 12)) == (3, None)


def kernel_arguments() -> list[str]:
    """The arguments of a kernel that reads four dimensions, in order."""
    builder = relax.BlockBuilder()
    dimensions = [tirx.Var(name, "int64") for name in ("h", "w", "h2", "w2")]
    with builder.function("main", [relax.Var("shape", relax.ShapeType(dimensions))]):
        with builder.dataflow():
            result = builder.emit_output(
                compute_along(builder, (3,), lambda at: sum(dimensions, at), "kernel", dimensions)
            )
        builder.emit_func_output(result)
    return [argument.name for argument in builder.get()["kernel"].params[:-1]]


def test_a_kernel_reads_its_dimensions_in_the_order_of_their_first_use_in_every_process():
    assert [kernel_arguments() for _ in range(5)] == [["h", "w", "h2", "w2"]] * 5
