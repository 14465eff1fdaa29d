"""Convolutions in blocks of four channels."""

import numpy as np
import pytest
import tvm

from tests.targets.adreno_texture.nets import F16, conv, executable, lowered, op, tensor
from tests.tune.graphs import graph
from tests.unoptimised import compile_unoptimised, unoptimised_machine
from tvmake.targets.adreno_texture.convolution import conv2d_nchw4c, legalize_conv2d

from tvm import te  # isort: skip

DATA, WEIGHT = tensor(1, 2, 8, 8, 4, dtype=F16), tensor(2, 8, 3, 3, 4, dtype=F16)


def result_of(legalizer, accumulator):
    """The result type of a legaliser's kernel."""

    def blocked(data, weight):
        layouts = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4o", "out_layout": "NCHW4c"}
        return op.nn.conv2d(data, weight, padding=1, out_dtype=accumulator, **layouts)

    module = graph(blocked, DATA, WEIGHT)
    made = tvm.relax.transform.LegalizeOps({"relax.nn.conv2d": legalizer})(module)
    (kernel,) = [one for _, one in made.functions_items() if isinstance(one, tvm.tirx.PrimFunc)]
    return str(kernel.params[-1].ty.dtype)


@pytest.mark.parametrize("accumulator", ["float16", "float32"])
def test_the_result_has_the_type_of_the_accumulator(accumulator):
    assert result_of(legalize_conv2d, accumulator) == accumulator


@pytest.mark.parametrize(("groups", "strides", "dilation"), [(1, 1, 1), (2, 2, 1), (8, 1, 2), (16, 1, 1)])
def test_grouped_convolutions_are_those_of_the_plain_layout(groups, strides, dilation):
    channels, outputs = 16, 16
    random = np.random.default_rng(0)
    data = random.standard_normal((1, channels, 9, 9)).astype("float32")
    weight = random.standard_normal((outputs, channels // groups, 3, 3)).astype("float32")
    want = _plain(data, weight, strides, dilation, groups)
    packed_data = data.reshape(1, channels // 4, 4, 9, 9).transpose(0, 1, 3, 4, 2).copy()
    packed_weight = weight.reshape(outputs // 4, 4, channels // groups, 3, 3).transpose(0, 2, 3, 4, 1).copy()
    given = [te.placeholder(value.shape, "float32") for value in (packed_data, packed_weight)]
    made = conv2d_nchw4c(*given, [strides] * 2, [1] * 4, [dilation] * 2, groups, "float32")
    library = compile_unoptimised(te.create_prim_func([*given, made]))
    got = tvm.runtime.empty([int(extent) for extent in made.shape], "float32")
    library(*(tvm.runtime.tensor(value) for value in (packed_data, packed_weight)), got)
    unpacked = got.numpy().transpose(0, 1, 4, 2, 3).reshape(want.shape)
    np.testing.assert_allclose(unpacked, want, rtol=1e-4, atol=1e-4)


def _plain(data, weight, strides, dilation, groups):
    module = graph(
        lambda x, w: conv(x, w, strides=strides, dilation=dilation, groups=groups),
        tensor(*data.shape),
        tensor(*weight.shape),
    )
    machine = unoptimised_machine(module)
    return machine["main"](tvm.runtime.tensor(data), tvm.runtime.tensor(weight)).numpy()


@pytest.mark.parametrize("accumulator", ["float16", "float32"])
def test_float16_has_code_with_either_accumulator(accumulator):
    def net(x, w, v):
        hidden = op.astype(conv(x, w, out_dtype=accumulator), F16)
        return op.astype(conv(op.nn.relu(hidden), v, out_dtype=accumulator), F16)

    weight = tensor(8, 8, 3, 3, dtype=F16)
    assert executable(lowered(net, tensor(1, 8, 8, 8, dtype=F16), weight, weight))
