"""Matmuls and convolutions of 8-bit integers use dot-product instructions, with the results of plain loops."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.targets.cpu.emulated_kernel import run as run_emulated
from tests.targets.cpu.integer_nets import (
    KERNELS,
    convolution,
    instructions,
    plain,
    product,
    target_of,
    tensor,
    values,
)
from tests.targets.cpu.schedules.nets import lowered, result
from tvmake.codegen.weights import packed_weights


def check(target: "tvm.target.Target", name: str, data: str) -> None:
    expression, shapes = KERNELS[name]
    inputs = shapes(data)
    arguments = values(inputs)
    made = lowered(expression, *inputs, target=target)
    expected, found = plain(expression, inputs, arguments), result(made, arguments, target)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert bool(instructions(made)) == (
        name not in ("convolution, depthwise", "convolution, grouped by awkward numbers")
    )


@pytest.mark.parametrize("name", KERNELS)
def test_vnni_gives_the_numbers_of_plain_loops(name: str):
    check(target_of("VNNI"), name, "int8" if len(name) % 2 else "uint8")


@pytest.mark.parametrize("kind", ["AVX-512", "AVX2", "SSE4"])
@pytest.mark.parametrize("data", ["uint8", "int8"])
def test_so_do_the_instructions_of_older_processors(kind: str, data: str):
    check(target_of(kind), "convolution between primes of channels", data)
    check(target_of(kind), "convolution, grouped", data)


@settings(max_examples=5, deadline=None)
@given(
    data=st.sampled_from(["uint8", "int8"]), channels=st.integers(1, 21), filters=st.integers(1, 70),
    height=st.integers(1, 9), width=st.integers(1, 21), window=st.sampled_from([1, 2, 3]), stride=st.integers(1, 3),
)  # fmt: skip
def test_convolutions_of_any_extents(
    data: str, channels: int, filters: int, height: int, width: int, window: int, stride: int
):
    inputs = [tensor(1, channels, height, width, dtype=data), tensor(filters, channels, window, window, dtype="int8")]

    def expression(x: Any, w: Any) -> Any:
        return convolution(x, w, strides=stride, padding=window // 2)

    arguments = values(inputs)
    np.testing.assert_array_equal(result(lowered(expression, *inputs), arguments), plain(expression, inputs, arguments))


@settings(max_examples=5, deadline=None)
@given(
    data=st.sampled_from(["uint8", "int8"]), rows=st.integers(1, 70), length=st.integers(1, 40),
    columns=st.integers(1, 70),
)  # fmt: skip
def test_matmuls_of_any_extents(data: str, rows: int, length: int, columns: int):
    inputs = [tensor(rows, length, dtype=data), tensor(length, columns, dtype="int8")]
    arguments = values(inputs)
    np.testing.assert_array_equal(result(lowered(product, *inputs), arguments), plain(product, inputs, arguments))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"mcpu": "cascadelake"}, {"llvm.x86.avx512.vpdpbusd.512"}),
        ({"mcpu": "alderlake"}, {"llvm.x86.avx512.vpdpbusd.256"}),
        ({"mcpu": "skylake-avx512"}, {"llvm.x86.avx512.pmaddw.d.512"}),
        ({"mcpu": "haswell"}, {"llvm.x86.avx2.pmadd.wd"}),
        ({"mcpu": "x86-64"}, set()),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon", "+dotprod"]}, {"llvm.aarch64.neon.sdot"}),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon", "+dotprod", "+i8mm"]}, {"llvm.aarch64.neon.usdot"}),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}, {"llvm.aarch64.neon.saddlp"}),
    ],
)
def test_the_target_s_features_say_which_instruction_it_is(target: dict[str, Any], expected: set[str]):
    expression, shapes = KERNELS["convolution"]
    made = lowered(expression, *shapes("uint8"), target=tvm.target.Target({"kind": "llvm", **target}))
    assert instructions(made) == expected


def test_the_correction_of_shifted_data_is_computed_when_the_package_is_built():
    expression, shapes = KERNELS["convolution"]
    made = lowered(expression, *shapes("int8"), target=tvm.target.Target({"kind": "llvm", "mcpu": "cascadelake"}))
    weights = {str(parameter.name): parameter.ty for parameter in made.fused["main"].params[1:]}
    assert sorted(str(ty.dtype) for ty in weights.values()) == ["int32", "int8"]
    assert [int(extent) for ty in weights.values() if str(ty.dtype) == "int8" for extent in ty.shape][-1] == 4


@pytest.mark.parametrize(
    ("channels", "window", "taken"),
    [
        (1, 5, 5 * 8),  # a row of five, filled up to eight
        (1, 3, 3 * 4),
        (2, 3, 3 * 8),
        (3, 3, 9 * 4),  # channels filled up are as few
    ],
)
def test_few_channels_are_not_filled_up_where_rows_of_windows_leave_less_to_fill(channels, window, taken):
    inputs = [tensor(1, channels, 12, 12, dtype="uint8"), tensor(16, channels, window, window, dtype="int8")]
    made = lowered(convolution, *inputs, target=tvm.target.Target({"kind": "llvm", "mcpu": "cascadelake"}))
    (packed,) = (parameter.ty.shape for parameter in made.fused["main"].params[1:])
    assert int(np.prod([int(extent) for extent in packed])) == 16 * taken


def test_a_matmul_after_a_convolution_uses_dot_products_too():
    def expression(x: Any, w: Any, v: Any) -> Any:
        return product(tvm.relax.op.reshape(tvm.relax.op.astype(convolution(x, w), "int8"), (1, 256)), v)

    inputs = [tensor(1, 4, 4, 4, dtype="uint8"), tensor(16, 4, 3, 3, dtype="int8"), tensor(256, 10, dtype="int8")]
    arguments = values(inputs)
    made = lowered(expression, *inputs, target=tvm.target.Target({"kind": "llvm", "mcpu": "cascadelake"}))
    packed = [parameter.ty for parameter in made.fused["main"].params[1:] if str(parameter.ty.dtype) == "int8"]
    assert [[int(extent) for extent in ty.shape][-2:] for ty in packed] == [[16, 4], [16, 4]]
    np.testing.assert_array_equal(result(lowered(expression, *inputs), arguments), plain(expression, inputs, arguments))


def test_a_matmul_of_two_computed_tensors_stays_unchanged():
    def expression(x: Any, y: Any) -> Any:
        return product(x, tvm.relax.op.astype(tvm.relax.op.nn.relu(x), "int8"))

    inputs = [tensor(16, 16, dtype="int8"), tensor(1, dtype="int8")]
    assert instructions(lowered(expression, *inputs)) == set()


@pytest.mark.parametrize(
    ("data", "more"), [("int8", ["+dotprod"]), ("uint8", ["+dotprod", "+i8mm"]), ("int8", []), ("uint8", [])]
)
def test_arm_s_instructions_give_the_numbers_of_plain_loops(data: str, more: list[str], tmp_path: Path):
    target = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon", *more]})

    def expression(x: Any, w: Any) -> Any:
        return convolution(x, w, data_layout="NHWC", kernel_layout="OHWI")

    inputs = [tensor(1, 6, 7, 8, dtype=data), tensor(12, 3, 3, 8, dtype="int8")]
    arguments = values(inputs)
    made = lowered(expression, *inputs, target=target)
    (kernel,) = [function for _, function in made.fused.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    assert instructions(made)
    names = [str(parameter.name) for parameter in made.fused["main"].params[1:]]
    (weight,) = packed_weights({"x1": tvm.runtime.tensor(arguments[1])}, made.packings, names).values()
    room = np.zeros([int(extent) for extent in kernel.params[-1].ty.shape], np.int32)
    found = run_emulated(kernel, target, [arguments[0], weight.numpy(), room], tmp_path)
    np.testing.assert_array_equal(found, plain(expression, inputs, arguments))
