"""Axes of dynamic size are removed; the package checks that they have one element."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError

CONSTANTS = {"two": np.array([2]), "one": np.array([1]), "three": np.array([3]), "last": np.array([-1])}


def branch(name: str, operator: str, operands: list[str]) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(name, FLOAT, None)
    return helper.make_graph([helper.make_node(operator, operands, [name])], name, [], [output])


def plain() -> list[onnx.NodeProto]:
    return [helper.make_node("Squeeze", ["x", "last"], ["squeezed"])]


def conditional() -> list[onnx.NodeProto]:
    """``squeeze(2)`` as PyTorch's exporter writes it."""
    return [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "two", "three"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["is_one"]),
        helper.make_node(
            "If",
            ["is_one"],
            ["squeezed"],
            then_branch=branch("then", "Squeeze", ["x", "last"]),
            else_branch=branch("else", "Identity", ["x"]),
        ),
    ]


@pytest.mark.parametrize("squeeze", [plain, conditional])
def test_a_dimension_that_is_removed_must_be_1(tmp_path, squeeze):
    nodes = [*squeeze(), helper.make_node("MatMul", ["squeezed", "w"], ["y"])]
    proto = model(nodes, {"x": (FLOAT, ["n", 4, "t"])}, ["y"], {**CONSTANTS, "w": random(4, 3)})
    imported = read(save(tmp_path / "m.onnx", proto))
    assert imported.signature.inputs[0].shape == ("n", 4, 1)
    x = random(5, 4, 1)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], runtime(proto, [x])[0], rtol=1e-5, atol=1e-6)


def test_a_size_that_must_be_1_is_checked_when_the_package_runs(tmp_path):
    """Windows of four elements: only lengths from 4 to 7 have one."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], kernel_shape=[4], strides=[4]),
        helper.make_node("Squeeze", ["pooled", "last"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [2, 3, "t"])}, ["y"], CONSTANTS)
    imported = read(save(tmp_path / "m.onnx", proto))
    lowered = lower(imported.module, UNOPTIMISED, [], PassOptions(), 1, rules=False)
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())
    for length in (4, 7):
        x = random(2, 3, length)
        np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), runtime(proto, [x])[0])
    with pytest.raises(InputError, match="Squeeze"), checking_arguments():
        machine["main"](tvm.runtime.tensor(random(2, 3, 8)))
