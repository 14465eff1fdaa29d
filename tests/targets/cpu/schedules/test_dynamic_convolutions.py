"""Convolutions and pooling with a dynamic batch, height and width equal PyTorch's at every size."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi

from tests.targets.cpu.schedules.dynamic_nets import Case, DynamicNetwork, error, tensor
from tvmake.targets.cpu.vectors.winograd_strips import simplify_winograd_strips
from tvmake.targets.cpu.winograd import is_winograd

op = tvm.relax.op
NEAR = 2e-6
WINOGRAD_NEAR = 1e-5
"""The algorithm rounds a little more than plain sums do."""

DYNAMIC = {
    "batch": ("b", 11, 13),
    "height": (2, "h", 13),
    "width": (2, 11, "w"),
    "height and width": (1, "h", "w"),
    "batch, height and width": ("b", "h", "w"),
}


def conv(**options: Any) -> Callable[..., Any]:
    return lambda x, weight: op.nn.conv2d(x, weight, **options)


def conv_of_torch(strides: int = 1, **options: Any) -> Callable[..., Any]:
    def expected(x: np.ndarray, weight: np.ndarray) -> Any:
        data = torch.from_numpy(x).double()
        return torch.nn.functional.conv2d(data, torch.from_numpy(weight).double(), stride=strides, **options)

    return expected


def same(channels: int, filters: int, window: int, groups: int = 1, **options: Any) -> dict[str, Case]:
    """A convolution, for each choice of dynamic dimensions."""
    options |= {"padding": window // 2, "groups": groups}
    return {
        dynamic: Case(
            conv(**options),
            conv_of_torch(**options),
            [tensor(batch, channels, height, width)],
            [tensor(filters, channels // groups, window, window)],
        )
        for dynamic, (batch, height, width) in DYNAMIC.items()
    }


def residual(x: Any, weight: Any, bias: Any) -> Any:
    return op.nn.relu(op.add(op.add(op.nn.conv2d(x, weight, padding=1), bias), x))


def residual_of_torch(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Any:
    return torch.relu(torch.from_numpy(bias + x) + conv_of_torch(padding=1)(x, weight))


def pools(pool: Callable[..., Any], pool_of_torch: Callable[..., Any]) -> dict[str, Case]:
    return {
        dynamic: Case(
            lambda x: pool(x, (3, 3), (2, 2), 1),
            lambda x: pool_of_torch(torch.from_numpy(x), 3, 2, 1),
            [tensor(batch, 24, height, width)],
        )
        for dynamic, (batch, height, width) in DYNAMIC.items()
    }


BOTH = ["batch", "batch, height and width"]
KINDS = {
    "windows of three": same(7, 20, 3),
    "windows of one": {name: same(24, 37, 1)[name] for name in BOTH},
    "stride of two": {name: same(9, 16, 3, strides=2)[name] for name in BOTH},
    "few filters": {name: same(16, 3, 3)[name] for name in BOTH},
    "depthwise": {name: same(24, 24, 3, groups=24)[name] for name in ("height and width", *BOTH)},
    "depthwise, stride of two": {name: same(20, 20, 3, groups=20, strides=2)[name] for name in BOTH},
    "grouped": {name: same(16, 24, 3, groups=4)[name] for name in BOTH},
    "residual": {
        name: Case(
            residual,
            residual_of_torch,
            [tensor(DYNAMIC[name][0], 20, *DYNAMIC[name][1:])],
            [tensor(20, 20, 3, 3), tensor(1, 20, 1, 1)],
        )
        for name in BOTH
    },
    "maximum pooling": {
        name: pools(op.nn.max_pool2d, torch.nn.functional.max_pool2d)[name] for name in ("height", *BOTH)
    },
    "average pooling": {
        name: pools(
            lambda x, *options: op.nn.avg_pool2d(x, *options, count_include_pad=True), torch.nn.functional.avg_pool2d
        )[name]
        for name in BOTH
    },
    "mean of an image": {
        name: Case(
            lambda x: op.mean(x, [2, 3]),
            lambda x: x.mean((2, 3)),
            [tensor(DYNAMIC[name][0], 24, *DYNAMIC[name][1:])],
        )
        for name in BOTH
    },
}
CASES = {f"{kind}: {dynamic}": case for kind, cases in KINDS.items() for dynamic, case in cases.items()}


@cache
def network() -> DynamicNetwork:
    return DynamicNetwork(CASES)


@cache
def results(b: int, h: int, w: int) -> dict[str, Any]:
    return network().results(b=b, h=h, w=w)


SIZES = [(1, h, 1 + 5 * h % 23) for h in range(1, 18)] + [(2, 1, 7), (3, 9, 1), (5, 8, 8), (8, 31, 19)]


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_images_with_dynamic_dimensions_is_pytorch_s_at_every_size(name: str):
    errors = {size: error(*results(*size)[name]) for size in SIZES}
    # With vectors of 8, one with 20 channels is in Winograd's form.
    near = WINOGRAD_NEAR if name.startswith("residual") else NEAR
    assert {size: far for size, far in errors.items() if far > near} == {}


def test_all_of_them_have_schedules():
    assert network().lowered.ruled == network().kernels.keys()


WINOGRAD = {
    "batch": Case(conv(padding=1), conv_of_torch(padding=1), [tensor("b", 16, 24, 26)], [tensor(16, 16, 3, 3)]),
    "height": Case(conv(padding=1), conv_of_torch(padding=1), [tensor(1, 16, "h", 26)], [tensor(16, 16, 3, 3)]),
    "width": Case(conv(padding=1), conv_of_torch(padding=1), [tensor(1, 16, 24, "w")], [tensor(16, 16, 3, 3)]),
    "height and width, no padding": Case(conv(), conv_of_torch(), [tensor(1, 16, "h", "w")], [tensor(16, 16, 3, 3)]),
    "batch, height and width, residual": Case(
        residual, residual_of_torch, [tensor("b", 16, "h", "w")], [tensor(16, 16, 3, 3), tensor(1, 16, 1, 1)]
    ),
}


@cache
def winograd_network() -> DynamicNetwork:
    return DynamicNetwork(WINOGRAD)


@cache
def winograd_results(b: int, h: int, w: int) -> dict[str, Any]:
    return winograd_network().results(b=b, h=h, w=w)


WINOGRAD_SIZES = [(1, h, 3 + 7 * h % 41) for h in range(3, 14)] + [(2, 24, 26), (3, 3, 40), (1, 37, 5), (5, 24, 64)]


@pytest.mark.parametrize("name", WINOGRAD)
def test_so_is_one_in_winograd_s_form(name: str):
    errors = {size: error(*winograd_results(*size)[name]) for size in WINOGRAD_SIZES}
    assert {size: far for size, far in errors.items() if far > WINOGRAD_NEAR} == {}


def test_all_of_these_are_in_winograd_s_form_and_have_schedules():
    lowered = winograd_network().lowered
    forms = [
        function
        for _, function in lowered.unscheduled.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc) and is_winograd(function)
    ]
    assert len(forms) == len(WINOGRAD)
    assert lowered.ruled == winograd_network().kernels.keys()


def test_their_loops_over_tiles_begin_with_the_first_one():
    for function in winograd_network().kernels.values():
        bounds: list[Any] = []
        simple = simplify_winograd_strips(tvm.IRModule({"main": function}))["main"]
        tvm_ffi.structural_walk(simple.body, ((tvm.tirx.Min, tvm.tirx.Max), bounds.append))
        assert not [bound for bound in bounds if str(bound.ty.dtype) == "int64"]
