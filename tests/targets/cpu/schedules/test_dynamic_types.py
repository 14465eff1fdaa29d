"""Integers and float16 give the same results with dynamic as with static dimensions."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm

from tests.targets.cpu import integer_nets
from tests.targets.cpu.emulated_kernel import run as run_emulated
from tests.targets.cpu.integer_nets import convolution, instructions, product, requantized, target_of
from tests.targets.cpu.schedules.dynamic_nets import Case, DynamicNetwork, error, tensor
from tests.targets.cpu.schedules.nets import lowered
from tests.targets.cpu.test_half_precision import HALF, HERE
from tvmake.codegen.weights import packed_weights

op = tvm.relax.op


def convolution_of_torch(x: np.ndarray, weight: np.ndarray, **options: Any) -> np.ndarray:
    """In float64, which represents these sums exactly."""
    data = torch.from_numpy(x).double()
    sums = torch.nn.functional.conv2d(data, torch.from_numpy(weight).double(), padding=1, **options)
    return sums.numpy().astype("int32")


def product_of_numpy(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x.astype("int32") @ weight.astype("int32")


def requantized_of_numpy(sums: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.round(sums.astype("float32") * scale), 0, 255).astype("uint8")


def uint8(*shape: int | str) -> Any:
    return tensor(*shape, dtype="uint8")


def int8(*shape: int | str) -> Any:
    return tensor(*shape, dtype="int8")


INTEGERS = {
    "matmul of dynamic rows": Case(product, product_of_numpy, [uint8("n", 30)], [int8(30, 40)]),
    "matmul of a dynamic batch and length": Case(product, product_of_numpy, [int8("b", "n", 32)], [int8(32, 37)]),
    "matmul, its result in 8 bits": Case(
        lambda x, w, scale: requantized(product(x, w), scale),
        lambda x, w, scale: requantized_of_numpy(product_of_numpy(x, w), scale),
        [uint8("b", "n", 24)],
        [int8(24, 48), tensor(48)],
    ),
    "convolution of a dynamic batch": Case(
        convolution, convolution_of_torch, [uint8("b", 16, 7, 9)], [int8(24, 16, 3, 3)]
    ),
    "convolution of dynamic images": Case(
        convolution, convolution_of_torch, [int8(1, 8, "h", "n")], [int8(20, 8, 3, 3)]
    ),
    "convolution of dynamic images, its result in 8 bits": Case(
        lambda x, w, scale: requantized(convolution(x, w), scale),
        lambda x, w, scale: requantized_of_numpy(convolution_of_torch(x, w), scale),
        [uint8("b", 12, "h", "n")],
        [int8(16, 12, 3, 3), tensor(1, 16, 1, 1)],
    ),
    "convolution from three channels": Case(
        convolution, convolution_of_torch, [uint8("b", 3, "h", "n")], [int8(16, 3, 3, 3)]
    ),
    "convolution from one channel": Case(
        convolution, convolution_of_torch, [uint8("b", 1, "h", "n")], [int8(16, 1, 3, 3)]
    ),
    "convolution, depthwise": Case(
        lambda x, w: convolution(x, w, groups=20),
        lambda x, w: convolution_of_torch(x, w, groups=20),
        [uint8("b", 20, "h", "n")],
        [int8(20, 1, 3, 3)],
    ),
}


def draw(*inputs: Any, seed: int = 0) -> list[np.ndarray]:
    return integer_nets.values(list(inputs), seed)


SOME = ["matmul of a dynamic batch and length", "convolution of dynamic images, its result in 8 bits"]


@cache
def integers(target: str) -> DynamicNetwork:
    return DynamicNetwork(
        INTEGERS if target == "VNNI" else {name: INTEGERS[name] for name in SOME}, target_of(target), draw
    )


@cache
def integer_results(target: str, b: int, n: int, h: int) -> dict[str, Any]:
    return integers(target).results(b=b, n=n, h=h)


SIZES = [(1 + n % 3, n, 1 + 5 * n % 11) for n in range(1, 19)] + [(1, 61, 4), (7, 33, 1)]


@pytest.mark.parametrize(
    ("target", "name"), [*(("VNNI", name) for name in INTEGERS), *(("AVX2", name) for name in SOME)]
)
def test_integers_are_those_of_numpy_at_every_size(target: str, name: str):
    for size in SIZES:
        np.testing.assert_array_equal(*integer_results(target, *size)[name], err_msg=str(size))


def test_the_instructions_for_small_integers_compute_them_and_their_weights_are_packed():
    network = integers("VNNI")
    assert network.lowered.ruled == network.kernels.keys()
    assert {name.rpartition(".")[0] for name in instructions(network.lowered)} == {"llvm.x86.avx512.vpdpbusd"}
    weights = [parameter.ty for parameter in network.lowered.fused["main"].params[len(INTEGERS) :]]
    groups = [int(ty.shape[-1]) for ty in weights if str(ty.dtype) == "int8"]
    assert (
        groups.count(4) >= len(INTEGERS) - 1
    )  # of four values, which an instruction adds up; depthwise ones have none


def test_so_do_those_of_64_bit_arm(tmp_path: Path):
    target = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon", "+dotprod"]})
    made = lowered(product, ((tvm.tirx.Var("n", "int64"), 32), "int8"), int8(32, 40), target=target)
    assert instructions(made) == {"llvm.aarch64.neon.sdot"}
    (kernel,) = [function for _, function in made.fused.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
    for rows in (1, 5, 17):
        data, weight = draw(int8(rows, 32), int8(32, 40))
        (packed,) = packed_weights({"x1": tvm.runtime.tensor(weight)}, made.packings, names).values()
        room = np.zeros((rows, 40), "int32")
        found = run_emulated(kernel, target, [data, packed.numpy(), room], tmp_path)
        np.testing.assert_array_equal(found, product_of_numpy(data, weight))


HALVES = {
    "matmul of a dynamic batch and length": Case(
        op.matmul,
        lambda x, w: x.astype("float64") @ w.astype("float64"),
        [tensor("b", "n", 33, dtype=HALF)],
        [tensor(33, 40, dtype=HALF)],
    ),
    "matmul of long sums": Case(
        lambda x, w: op.matmul(op.abs(x), op.abs(w)),
        lambda x, w: np.abs(x.astype("float64")) @ np.abs(w.astype("float64")),
        [tensor("n", 4000, dtype=HALF)],
        [tensor(4000, 16, dtype=HALF)],
    ),
    "sum over a dynamic axis": Case(
        lambda x, y: op.matmul(x, y),
        lambda x, y: x.astype("float64") @ y.astype("float64"),
        [tensor("b", 5, "n", dtype=HALF), tensor("b", "n", 16, dtype=HALF)],
    ),
    "convolution of dynamic images": Case(
        lambda x, w: op.nn.conv2d(x, w, padding=1),
        lambda x, w: torch.nn.functional.conv2d(
            torch.from_numpy(x).double(), torch.from_numpy(w).double(), padding=1
        ).numpy(),
        [tensor("b", 8, "h", "n", dtype=HALF)],
        [tensor(16, 8, 3, 3, dtype=HALF)],
    ),
    "softmax over a dynamic last axis": Case(
        lambda x: op.nn.softmax(x, -1),
        lambda x: torch.softmax(torch.from_numpy(x).double(), -1).numpy(),
        [tensor("b", "h", "n", dtype=HALF)],
    ),
    "layer norm of dynamic rows": Case(
        lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes=[-1]),
        lambda x, scale, shift: torch.nn.functional.layer_norm(
            torch.from_numpy(x).double(), scale.shape, *(torch.from_numpy(value).double() for value in (scale, shift))
        ).numpy(),
        [tensor("b", "n", 40, dtype=HALF)],
        [tensor(40, dtype=HALF), tensor(40, dtype=HALF)],
    ),
    "activation of a dynamic last axis": Case(
        op.sigmoid, lambda x: 1 / (1 + np.exp(-x.astype("float64"))), [tensor("b", "n", dtype=HALF)]
    ),
}


@cache
def halves() -> DynamicNetwork:
    return DynamicNetwork(HALVES, HERE)


@cache
def half_results(b: int, n: int, h: int) -> dict[str, Any]:
    return halves().results(b=b, n=n, h=h)


@pytest.mark.parametrize("name", HALVES)
def test_float16_is_exact_results_rounded_once_at_every_size(name: str):
    for size in SIZES:
        found, expected = half_results(*size)[name]
        assert found.dtype == HALF
        assert error(found, expected) <= 2**-10, size


def test_kernels_of_float16_have_schedules():
    assert halves().lowered.ruled == halves().kernels.keys()
