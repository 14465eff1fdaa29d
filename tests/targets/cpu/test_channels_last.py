"""Networks give the same results after conversion to channels last."""

from typing import Any

import numpy as np
import pytest
import tvm

from tests.targets.cpu.schedules.nets import NATIVE, result, values
from tests.transform.nets import calls
from tests.tune.graphs import graph, kept
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.targets.cpu.channels_last import channels_last

op = tvm.relax.op

RESIZES: dict[str, dict[str, Any]] = {
    "nearest": {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"},
    "nearest, rounded": {"method": "nearest_neighbor", "rounding_method": "round_prefer_ceil"},
    "linear": {"method": "linear"},
    "linear, from corner to corner": {"method": "linear", "coordinate_transformation_mode": "align_corners"},
    "linear, as PyTorch has it": {"method": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    "cubic": {"method": "cubic", "cubic_alpha": -0.75},
    "cubic, without what lies outside": {"method": "cubic", "cubic_alpha": -0.5, "cubic_exclude": 1},
}


@pytest.mark.parametrize("size", [(14, 16), (11, 5)])
@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("name", RESIZES)
def test_a_resize_between_convolutions(name: str, channels: int, size: tuple[int, int]):
    def net(x: Any, first: Any, last: Any) -> Any:
        features = op.nn.conv2d(x, first, padding=1)
        return op.nn.conv2d(op.image.resize2d(features, size, layout="NCHW", **RESIZES[name]), last, padding=1)

    inputs = (((2, 3, 7, 8), "float32"), ((channels, 3, 3, 3), "float32"), ((5, channels, 3, 3), "float32"))
    module = graph(net, *inputs)
    (resize,) = calls(channels_last(module), "image.resize2d")
    assert resize.attrs.layout == "NHWC"
    arguments = values(*inputs)
    found, expected = (result(lower(each, NATIVE, [], PassOptions(), 1), arguments) for each in (module, kept(module)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_operands_with_fewer_axes_are_part_of_the_convolution_s_kernel():
    def net(x: Any, weight: Any, shift: Any) -> Any:
        return op.nn.relu(op.add(op.nn.conv2d(x, weight), shift))

    inputs = (((1, 3, 5, 6), "float32"), ((16, 3, 1, 1), "float32"), ((16, 1, 1), "float32"))
    module = graph(net, *inputs)
    made = lower(module, NATIVE, [], PassOptions(), 1)
    assert any("conv2d_add_relu" in str(name.name_hint) for name, _ in made.fused.functions_items())
    arguments = values(*inputs)
    expected = result(lower(kept(module), NATIVE, [], PassOptions(), 1), arguments)
    np.testing.assert_allclose(result(made, arguments), expected, rtol=1e-4, atol=1e-4)
