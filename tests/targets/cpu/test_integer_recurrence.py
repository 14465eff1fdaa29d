"""LSTMs with 8-bit weights use a processor's dot-product instruction, with the results of ONNX Runtime."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tvm

from tests.frontend.onnx.models import read, save
from tests.frontend.onnx.test_recurrent_integers import draw_inputs, layer, run_on_one_thread
from tests.targets.cpu.emulated_kernel import run as run_emulated
from tests.targets.cpu.integer_nets import PORTABLE, TARGETS, instructions, target_of
from tests.unoptimised import UNCHECKED, compile_unoptimised
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import PassOptions
from tvmake.codegen.weights import packed_weights
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.lowering.integer_matmul import Dot
from tvmake.frontend.lowering.recurrent_integer_kernel import integer_projection_kernel, integer_recurrence_kernel
from tvmake.frontend.lowering.recurrent_kernel import Activation, Recurrence
from tvmake.targets.cpu.integer_recurrence import processor_dot
from tvmake.targets.cpu.schedules.machine import machine

from tvm import tirx  # isort: skip

FORM = ("bidirectional", np.uint8, False, ("lengths",))
"""Zero points that are not 0, and sequences of several lengths."""

LAYER = Recurrence("lstm", 18, tuple(map(Activation, ("sigmoid", "tanh", "tanh"))), has_weight_zeros=True)


@cache
def imported() -> ImportedModel:
    with TemporaryDirectory() as directory:
        return read(save(Path(directory) / "m.onnx", layer(*FORM)))


def lowered(target: "tvm.target.Target") -> Lowered:
    model = imported()
    return lower(model.module, target, [], PassOptions(), len(model.signature.inputs))


@pytest.mark.parametrize("name", [*TARGETS, "none"])
def test_results_are_those_of_onnx_runtime(name: str):
    target = PORTABLE if name == "none" else target_of(name)
    made, model = lowered(target), imported()
    names = [str(parameter.name) for parameter in made.fused["main"].params[len(model.signature.inputs) :]]
    weights = list(packed_weights(model.params, made.packings, names).values())
    virtual_machine = tvm.relax.VirtualMachine(generate(made.final, target, UNCHECKED, "targets.t"), tvm.cpu())
    proto = layer(*FORM)
    for length, batch in ((1, 1), (9, 7)):
        inputs = draw_inputs(proto, length, batch)
        outputs = virtual_machine["main"](*map(tvm.runtime.tensor, inputs.values()), *weights)
        for output, wanted in zip(outputs, run_on_one_thread(proto, inputs), strict=True):
            np.testing.assert_allclose(output.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"mcpu": "cascadelake"}, {"llvm.x86.avx512.vpdpbusd.512"}),
        ({"mcpu": "alderlake"}, {"llvm.x86.avx512.vpdpbusd.256"}),
        ({"mcpu": "haswell"}, {"llvm.x86.avx2.pmadd.wd"}),
        ({"mcpu": "x86-64"}, set()),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon", "+dotprod"]}, {"llvm.aarch64.neon.sdot"}),
        ({"mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}, {"llvm.aarch64.neon.saddlp"}),
    ],
)
def test_the_target_determines_the_instruction(target: dict[str, Any], expected: set[str]):
    made = lowered(tvm.target.Target({"kind": "llvm", **target}))
    assert instructions(made) == expected
    weights = made.fused["main"].params[len(imported().signature.inputs) :]
    assert sorted({str(weight.ty.dtype) for weight in weights}) == ["float32", "int32", "int8"]


def pack(weights: np.ndarray, group: int) -> np.ndarray:
    """Weights [D, K, G, N·L] as kernels take them."""
    directions, extent, gates, units = weights.shape
    blocks = np.pad(weights, [(0, 0), (0, -extent % group), (0, 0), (0, 0)])
    blocks = blocks.reshape(directions, -1, group, gates, units // 16, 16).transpose(0, 4, 1, 3, 5, 2)
    return np.ascontiguousarray(blocks).reshape(*blocks.shape[:-2], -1)


def draw_arguments(extent: int, first: np.ndarray, group: int) -> list[np.ndarray]:
    """The arguments of a kernel up to the zero points; ``first`` is the one before the weights."""
    draw = np.random.default_rng(1)
    weights = draw.integers(-128, 128, (1, extent, 4, 32)).astype(np.int8)
    zeros = draw.integers(-9, 9, (1, 4, 32)).astype(np.int32)
    scales = draw.uniform(0.005, 0.02, zeros.shape).astype(np.float32)
    return [first, pack(weights, group), scales, weights.sum(1, dtype=np.int32) - extent * zeros, zeros]


def every_fourth(dtype: str) -> Dot:
    """An instruction with four products in a sum, without one."""

    def add(sums: Any, rows: Any, weights: Any) -> Any:
        for index in range(4):
            places = [tirx.const(4 * lane + index, "int32") for lane in range(16)]
            row, weight = (tirx.Cast("int32x16", tirx.Shuffle([value], places)) for value in (rows, weights))
            sums = sums + row * weight
        return sums

    return Dot(16, 4, dtype, add, 24)


def run_kernel(kernel: Any, arguments: list[np.ndarray], results: list[tuple[int, ...]]) -> list[np.ndarray]:
    tensors = [tvm.runtime.tensor(value) for value in arguments]
    rooms = [tvm.runtime.tensor(np.zeros(shape, np.float32)) for shape in results]
    compile_unoptimised(kernel.with_attr("global_symbol", "main"))["main"](*tensors, *rooms)
    return [room.numpy() for room in rooms]


def run_projection(dot: Dot) -> np.ndarray:
    data = np.random.default_rng(0).standard_normal((3, 2, 21)).astype(np.float32)
    bias = np.random.default_rng(2).standard_normal((1, 4, 32)).astype(np.float32)
    kernel = integer_projection_kernel(LAYER, 3, 2, 21, dot)
    return run_kernel(kernel, [*draw_arguments(21, data, dot.group), bias], [(3, 1, 2, 2, 4, 16)])[0]


def run_recurrence(dot: Dot) -> list[np.ndarray]:
    projected = np.random.default_rng(0).standard_normal((5, 1, 2, 2, 4, 16)).astype(np.float32)
    kernel = integer_recurrence_kernel(replace(LAYER, has_initial_state=False), 5, 2, dot)
    return run_kernel(kernel, draw_arguments(18, projected, dot.group), [(5, 1, 2, 18), (1, 2, 18), (1, 2, 18)])


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_each_form_of_rounded_values_gives_the_same_results(dtype: str):
    """As VNNI and Arm's dotprod take them, on any machine."""
    np.testing.assert_array_equal(run_projection(every_fourth(dtype)), run_projection(Dot()))
    for found, wanted in zip(run_recurrence(every_fourth(dtype)), run_recurrence(Dot()), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("features", [["+neon", "+dotprod"], ["+neon"]], ids=["dotprod", "neon"])
def test_64_bit_arm_gives_the_same_results(tmp_path: Path, features: list[str]):
    target = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": features})
    dot = processor_dot(machine(target))
    assert dot is not None
    data = np.random.default_rng(0).standard_normal((3, 2, 21)).astype(np.float32)
    bias = np.random.default_rng(2).standard_normal((1, 4, 32)).astype(np.float32)
    arguments = [*draw_arguments(21, data, dot.group), bias, np.zeros((3, 1, 2, 2, 4, 16), np.float32)]
    found = run_emulated(integer_projection_kernel(LAYER, 3, 2, 21, dot), target, arguments, tmp_path)
    np.testing.assert_allclose(found, run_projection(Dot()), rtol=1e-5, atol=1e-6)
