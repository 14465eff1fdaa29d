"""Matmuls of one row by integer weights: when they sum by groups, their results, and the order of weights."""

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from onnx import helper

from tests.decibels import decibels
from tests.frontend.onnx import models as onnx_models
from tests.quantize.weights.test_holding import code
from tests.transform.nets import Transformed, imported, run, transformed
from tests.unoptimised import UNCHECKED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import Lowered, lower
from tvmake.codegen.options import BuildOptions
from tvmake.quantize.precision import PrecisionConfig
from tvmake.targets.cpu.grouped_sums import sum_by_groups
from tvmake.targets.cpu.schedules.grouped_sums import GROUPS, PART, PARTS, ROW_SUMS

AVX2 = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"})
ARM = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]})
GENERIC = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"})

INT4, INT8 = PrecisionConfig(base="int4_weights"), PrecisionConfig(base="int8_weights", group=32)


def network(rows: int = 1, inputs: int = 256, outputs: int = 192, shares: bool = False) -> Any:
    """Two matmuls with additions; the second one with the first one's weights if ``shares``."""
    constants = {"a": onnx_models.random(inputs, outputs, seed=1), "b": onnx_models.random(outputs, inputs, seed=2)}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["s"]),
        helper.make_node("Add", ["s", "x"], ["y"]),
    ]
    if shares:
        nodes += [
            helper.make_node("Concat", ["x", "y"], ["both"], axis=0),
            helper.make_node("MatMul", ["both", "a"], ["z"]),
        ]
    return imported(
        onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [rows, inputs])}, ["z" if shares else "y"], constants)
    )


def lowered(made: Transformed, target: "tvm.target.Target" = AVX2) -> Lowered:
    return lower(made[0], target, (), BuildOptions(), 1)


def parts(module: "tvm.IRModule") -> dict[str, set[str]]:
    """The parts of each kernel that sums by groups."""
    known: dict[str, set[str]] = {}
    for variable, function in module.functions_items():
        if isinstance(function, tvm.tirx.PrimFunc):
            blocks: list[Any] = []
            tvm_ffi.structural_walk(function.body, (tvm.s_tir.SBlock, blocks.append))
            named = {str(block.annotations[PART]) for block in blocks if PART in block.annotations}
            known |= {str(variable.name_hint): named} if named else {}
    return known


@pytest.mark.parametrize("precision", [INT4, INT8, PrecisionConfig(base="int4_weights", group=128)])
def test_results_are_those_of_dequantised_weights(precision: PrecisionConfig):
    made, value = transformed(network(inputs=256, outputs=256), precision), onnx_models.random(1, 256, seed=9)
    assert len(parts(lowered(made).unscheduled)) == 2
    assert decibels(run(made, value), code(made, "llvm")(value)) > 110


def test_kernels_of_4_bits_subtract_the_zero_point_once_a_group():
    assert list(parts(lowered(transformed(network(), INT4)).unscheduled).values()) == [set(PARTS)] * 2
    eight = parts(lowered(transformed(network(), INT8)).unscheduled)
    assert len(eight) == 2 and all(GROUPS in part and ROW_SUMS not in part for part in eight.values())


@pytest.mark.parametrize("target", [AVX2, ARM, GENERIC])
def test_rules_schedule_these_kernels_whole_for_every_cpu(target: "tvm.target.Target"):
    low = lowered(transformed(network(), INT4), target)
    kernels = parts(low.fused)
    assert len(kernels) == 2 and set(kernels) <= low.ruled
    for name in kernels:
        loops: list[Any] = []
        tvm_ffi.structural_walk(low.fused[name].body, (tvm.tirx.For, loops.append))
        assert sum(int(loop.kind) == tvm.tirx.ForKind.VECTORIZED for loop in loops) >= 3
    assert generate(low.final, target, UNCHECKED, "targets.t")


def test_weights_are_packed_once_without_growing():
    low = lowered(transformed(network(), INT4))
    words = [weight for weight in low.fused["main"].params[1:] if str(weight.ty.dtype) == "uint32"]
    assert sum(4 * int(np.prod([int(size) for size in word.ty.shape])) for word in words) == 2 * 256 * 192 // 2
    assert not [weight for weight in low.fused["main"].params[1:] if str(weight.ty.dtype) == "uint8"]


@pytest.mark.parametrize(
    ("sizes", "count"),
    [({"rows": 2}, 0), ({"inputs": 200, "outputs": 100}, 0), ({"shares": True}, 1)],
    ids=["several rows", "incomplete groups", "a weight that another kernel reads for several rows"],
)
def test_other_matmuls_dequantise_as_they_multiply(sizes: dict[str, Any], count: int):
    made = transformed(network(**sizes), INT4)
    assert len(parts(lowered(made).unscheduled)) == count
    value = onnx_models.random(sizes.get("rows", 1), sizes.get("inputs", 256), seed=9)
    assert decibels(run(made, value), code(made, "llvm")(value)) > 100


def test_cpus_without_vectors_keep_their_kernels():
    module = transformed(network(), INT4)[0]
    assert sum_by_groups(module, 1, 1) is module
