"""Padding with a zero point is fused into the depthwise convolutions that read it."""

from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.targets.cpu.integer_nets import convolution, tensor, values
from tests.targets.cpu.schedules.nets import lowered, result

ZERO = 7

WIDTHS = [1, 2, 2, 0]
"""Above, below, left, right."""


def padded(x: Any, layout: str) -> Any:
    widths = [0, 0, 0, 0, *WIDTHS] if layout == "NCHW" else [0, 0, *WIDTHS, 0, 0]
    return tvm.relax.op.nn.pad(x, widths, pad_value=ZERO)


def kernels(made: Any) -> list[str]:
    return [str(name.name_hint) for name, each in made.fused.functions_items() if isinstance(each, tvm.tirx.PrimFunc)]


def expected(x: np.ndarray, weight: np.ndarray, stride: int) -> np.ndarray:
    above, below, left, right = WIDTHS
    data = torch.nn.functional.pad(torch.from_numpy(x).double(), (left, right, above, below), value=ZERO)
    channels = x.shape[1]
    return torch.nn.functional.conv2d(data, torch.from_numpy(weight).double(), stride=stride, groups=channels).numpy()


@pytest.mark.parametrize("stride", [1, 2])
def test_a_depthwise_convolution_computes_its_padding(stride: int):
    def network(x: Any, w: Any) -> Any:
        return convolution(
            padded(x, "NHWC"), w, padding=0, groups=24, strides=stride, data_layout="NHWC", kernel_layout="OHWI"
        )

    inputs = [tensor(1, 11, 13, 24, dtype="uint8"), tensor(24, 3, 3, 1, dtype="int8")]
    made = lowered(network, *inputs)
    assert kernels(made) == ["conv2d"]
    x, weight = values(inputs)
    found = result(made, [x, weight]).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(found, expected(x.transpose(0, 3, 1, 2), weight.transpose(0, 3, 1, 2), stride))


def test_so_it_does_between_others_with_their_channels_innermost():
    def network(x: Any, first: Any, w: Any) -> Any:
        before = tvm.relax.op.astype(convolution(x, first, padding=0), "int8")
        return convolution(padded(before, "NCHW"), w, padding=0, groups=16)

    inputs = [tensor(2, 4, 9, 9, dtype="uint8"), tensor(16, 4, 1, 1, dtype="int8"), tensor(16, 1, 3, 3, dtype="int8")]
    made = lowered(network, *inputs)
    assert not [name for name in kernels(made) if "pad" in name]
    x, first, weight = values(inputs)
    sums = torch.nn.functional.conv2d(torch.from_numpy(x).double(), torch.from_numpy(first).double()).numpy()
    np.testing.assert_array_equal(
        result(made, [x, first, weight]), expected(sums.astype(np.int64).astype(np.int8), weight, 1)
    )


def test_other_convolutions_read_it_from_memory():
    def network(x: Any, w: Any) -> Any:
        return convolution(padded(x, "NHWC"), w, padding=0, data_layout="NHWC", kernel_layout="OHWI")

    made = lowered(network, tensor(1, 9, 9, 16, dtype="uint8"), tensor(16, 3, 3, 16, dtype="int8"))
    assert "pad" in kernels(made)
