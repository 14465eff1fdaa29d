"""Winograd convolutions: when they are used, their results, and equal weights on every machine."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi

from tests.decibels import decibels
from tests.targets.cpu.emulated_kernel import run as run_emulated
from tests.targets.cpu.schedules.nets import lowered, result, values
from tvmake.codegen.weights import packed_weights
from tvmake.targets.cpu.winograd import is_winograd

op = tvm.relax.op
F32 = "float32"
ARM = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]})
LEAST_DB = 110.0
"""For 16 to 96 channels: rounding errors, including the algorithm's own."""


def conv(data: Any, weight: Any, **options: Any) -> Any:
    return op.nn.conv2d(data, weight, **{"padding": 1, **options})


def shapes(data: tuple[int, ...], filters: int, window: int = 3, dtype: str = F32) -> list[Any]:
    return [(data, dtype), ((filters, data[1], window, window), dtype)]


def winograd_kernels(made: Any) -> list[str]:
    return [name for name in kernels(made) if is_winograd(made.unscheduled[name])]


def kernels(made: Any) -> list[str]:
    functions = made.unscheduled.functions_items()
    return sorted(str(name.name_hint) for name, each in functions if isinstance(each, tvm.tirx.PrimFunc))


def is_in_strips(made: Any, name: str) -> bool:
    """Whether a kernel computes strips of tiles through all steps: one parallel loop, and nothing around it."""
    loops: list[Any] = []

    def note(loop: Any) -> None:
        if int(loop.kind) == tvm.tirx.ForKind.PARALLEL:
            loops.append(loop)

    tvm_ffi.structural_walk(made.fused[name].body, (tvm.tirx.For, note))
    return len(loops) == 1


def reference(arguments: list[np.ndarray], padding: Any) -> torch.Tensor:
    top, left, bottom, right = padding
    data = torch.nn.functional.pad(torch.from_numpy(arguments[0]).double(), (left, right, top, bottom))
    return torch.nn.functional.conv2d(data, torch.from_numpy(arguments[1]).double())


@pytest.mark.parametrize(
    ("data", "filters", "padding"),
    [
        pytest.param((1, 64, 24, 24), 64, [1, 1, 1, 1], id="whole tiles"),
        pytest.param((2, 16, 23, 29), 32, [1, 1, 1, 1], id="tiles that lack rows and columns, and two images"),
        pytest.param((1, 32, 30, 27), 16, [0, 0, 0, 0], id="no padding"),
        pytest.param((1, 16, 25, 25), 48, [2, 0, 1, 3], id="padding of all widths"),
        pytest.param((1, 96, 21, 150), 16, [1, 1, 1, 1], id="an image so wide that its rows are several strips"),
        pytest.param((1, 24, 24, 24), 40, [1, 1, 1, 1], id="halves of vectors"),
        pytest.param((1, 16, 300, 3), 16, [1, 1, 1, 1], id="an image of one tile's width"),
    ],
)
def test_it_computes_the_convolution(data: tuple[int, ...], filters: int, padding: list[int]):
    inputs = shapes(data, filters)
    made = lowered(lambda x, w: conv(x, w, padding=padding), *inputs)
    (name,) = winograd_kernels(made)
    assert is_in_strips(made, name)
    arguments = values(*inputs)
    assert decibels(result(made, arguments), reference(arguments, padding).numpy()) > LEAST_DB


def test_what_follows_on_each_result_is_part_of_the_kernel():
    def network(x: Any, w: Any, bias: Any) -> Any:
        return op.nn.relu(op.add(op.add(conv(x, w), bias), x))

    inputs = [*shapes((1, 32, 26, 26), 32), ((1, 32, 1, 1), F32)]
    made = lowered(network, *inputs)
    (name,) = winograd_kernels(made)
    assert name.endswith("_add_add1_relu")
    assert is_in_strips(made, name)
    x, w, bias = arguments = values(*inputs)
    wanted = torch.relu(reference([x, w], [1] * 4) + torch.from_numpy(bias) + torch.from_numpy(x))
    assert decibels(result(made, arguments), wanted.numpy()) > LEAST_DB


def test_two_that_share_a_weight_store_it_once():
    inputs = shapes((1, 32, 24, 24), 32)
    made = lowered(lambda x, w: conv(op.nn.relu(conv(x, w)), w), *inputs)
    assert winograd_kernels(made)
    assert len(made.fused["main"].params) == 2
    x, w = arguments = values(*inputs)
    between = torch.relu(reference([x, w], [1] * 4)).numpy()
    assert decibels(result(made, arguments), reference([between, w], [1] * 4).numpy()) > LEAST_DB


@pytest.mark.parametrize(
    ("inputs", "options"),
    [
        pytest.param(shapes((1, 32, 48, 48), 32), {"strides": 2}, id="steps of two"),
        pytest.param(shapes((1, 32, 24, 24), 32), {"dilation": 2}, id="windows with holes"),
        pytest.param([((1, 32, 24, 24), F32), ((32, 16, 3, 3), F32)], {"groups": 2}, id="groups"),
        pytest.param(shapes((1, 32, 24, 24), 32, window=5), {"padding": 2}, id="larger windows"),
        pytest.param(shapes((1, 32, 24, 24), 32, dtype="float16"), {}, id="half precision"),
        pytest.param(shapes((1, 32, 20, 20), 32), {}, id="few tiles"),
        pytest.param(shapes((1, 3, 24, 24), 32), {}, id="channels that do not fill vectors"),
        pytest.param(shapes((1, 32, 24, 24), 37), {}, id="results that do not fill vectors"),
        pytest.param(shapes((1, 256, 24, 24), 256), {}, id="weights that would take much more room"),
    ],
)
def test_other_convolutions_stay_unchanged(inputs: list[Any], options: dict[str, Any]):
    assert not winograd_kernels(lowered(lambda x, w: conv(x, w, **options), *inputs))


def test_computed_weights_stay_unchanged():
    assert not winograd_kernels(lowered(lambda x, w: conv(x, op.multiply(w, w)), *shapes((1, 32, 24, 24), 32)))


def test_without_rules_convolutions_stay_unchanged():
    assert not winograd_kernels(lowered(conv, *shapes((1, 32, 24, 24), 32), rules=False))


def test_every_machine_transforms_weights_to_the_same_bits():
    """With and without a fused multiply-add instruction: no intermediate value is rounded."""
    inputs = shapes((1, 32, 24, 24), 32)
    made = lowered(conv, *inputs)
    (weight,) = values(*inputs)[1:]
    names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
    (packed,) = packed_weights({"x1": tvm.runtime.tensor(weight)}, made.packings, names).values()
    assert np.array_equal(np.sort(packed.numpy(), axis=None), np.sort(by_hand(weight), axis=None))


def by_hand(weight: np.ndarray) -> np.ndarray:
    """Integers first, in a fixed order, then the division; all in float32."""
    rows = [
        lambda a, b, c: a,
        lambda a, b, c: -a - b - c,
        lambda a, b, c: -a + b - c,
        lambda a, b, c: a + b * np.float32(2) + c * np.float32(4),
        lambda a, b, c: a - b * np.float32(2) + c * np.float32(4),
        lambda a, b, c: c,
    ]
    divisors = [4, 6, 6, 24, 24, 1]
    found = []
    for row, first in zip(rows, divisors, strict=True):
        columns = [row(*(weight[:, :, r, s] for r in range(3))) for s in range(3)]
        for column, second in zip(rows, divisors, strict=True):
            found.append(column(*columns) * np.float32(1 / (first * second)))
    return np.stack(found)


def test_so_does_64_bit_arm(tmp_path: Path):
    inputs = shapes((1, 16, 24, 24), 16)
    made = lowered(conv, *inputs, target=ARM)
    (name,) = winograd_kernels(made)
    assert is_in_strips(made, name)
    x, weight = values(*inputs)
    names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
    (packed,) = packed_weights({"x1": tvm.runtime.tensor(weight)}, made.packings, names).values()
    room = np.zeros((1, 24, 24, 16), "float32")
    data = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    found = run_emulated(made.fused[name], ARM, [data, packed.numpy(), room], tmp_path)
    wanted = reference([x, weight], [1] * 4).numpy().transpose(0, 2, 3, 1)
    assert decibels(found, wanted) > LEAST_DB
