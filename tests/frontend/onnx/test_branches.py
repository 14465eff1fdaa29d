"""Branches with a condition that is known only at run time agree with ONNX Runtime, whichever is taken."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tests.unoptimised import unoptimised_machine

node = helper.make_node

CONSTANTS = {
    "reversed": np.array([2, 0, 0, 0]), "last": np.array([-1]), "start": np.array([-9]), "zero": np.array([0]), "one": np.array([1]),
    "W": random(1, 16, 4), "R": random(1, 16, 4, seed=1),
}  # fmt: skip


def branch(name: str, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(nodes[-1].output[-1], FLOAT, None)
    return helper.make_graph(nodes, name, [], [output])


BRANCHES = {
    "operators that TVM's importer converts wrongly": (
        [node("IsInf", ["x"], ["a"], detect_negative=0), node("Cast", ["a"], ["t"], to=FLOAT)],
        [node("IsNaN", ["x"], ["b"]), node("Cast", ["b"], ["e"], to=FLOAT)],
    ),
    "paddings that constants determine": (
        [node("Slice", ["reversed", "last", "start", "zero", "last"], ["widths"]), node("Pad", ["x", "widths"], ["t"])],
        [node("Slice", ["x", "zero", "one", "one"], ["column"]), node("Concat", ["column", "x", "column"], ["e"], axis=1)],
    ),
    "recurrent layers": (
        [node("Unsqueeze", ["x", "one"], ["steps"]), node("LSTM", ["steps", "W", "R"], ["", "t"], hidden_size=4)],
        [node("Unsqueeze", ["x", "zero"], ["steps_"]), node("ReduceSum", ["steps_", "one"], ["f"]), node("Relu", ["f"], ["e"])],
    ),
    "results of different shapes": ([node("Relu", ["x"], ["t"])], [node("Concat", ["x", "x"], ["e"], axis=1)]),
    "branches in a branch": (
        [
            node(
                "If", ["c"], ["t"],
                then_branch=branch("u", [node("Relu", ["x"], ["u"])]), else_branch=branch("v", [node("Exp", ["x"], ["v"])]),
            )
        ],
        [node("Neg", ["x"], ["e"])],
    ),
}  # fmt: skip


def network(name: str) -> onnx.ModelProto:
    then_nodes, else_nodes = BRANCHES[name]
    chosen = node("If", ["c"], ["y"], then_branch=branch("then", then_nodes), else_branch=branch("else", else_nodes))
    return model([chosen], {"x": (FLOAT, [3, 4]), "c": (TensorProto.BOOL, [])}, ["y"], CONSTANTS)


@pytest.mark.parametrize("name", BRANCHES)
def test_either_branch_agrees_with_onnx_runtime(tmp_path: Path, name: str):
    proto = network(name)
    imported = read(save(tmp_path / "m.onnx", proto))
    machine = unoptimised_machine(imported.module)
    weights = [value.numpy() for value in imported.params.values()]
    x = random(3, 4)
    x[0, :3] = (0.5, -0.5, 0) if "wrongly" not in name else (np.inf, -np.inf, np.nan)
    for condition in (True, False):
        inputs = [x, np.array(condition)]
        output = machine["main"](*map(tvm.runtime.tensor, [*inputs, *weights])).numpy()
        (expected,) = runtime(proto, inputs)
        assert output.shape == expected.shape
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


def test_a_branch_that_is_not_taken_does_not_refuse_the_sizes_of_the_other_one(tmp_path: Path):
    """Silero's voice activity detector has a network for each of two sampling rates, which take frames of different lengths."""
    branches = [
        branch(
            name,
            [
                node("MaxPool", ["x"], [f"{name}p"], kernel_shape=[size], strides=[size]),
                node("Squeeze", [f"{name}p", "last"], [name]),
            ],
        )
        for name, size in (("t", 6), ("e", 3))
    ]
    chosen = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    proto = model([chosen], {"x": (FLOAT, [2, 4, "n"]), "c": (TensorProto.BOOL, [])}, ["y"], CONSTANTS)
    machine = unoptimised_machine(read(save(tmp_path / "m.onnx", proto)).module)
    for size, condition in ((6, True), (3, False)):
        x = random(2, 4, size)
        output = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.array(condition))).numpy()
        np.testing.assert_array_equal(output, x.max(axis=2))
    with pytest.raises(RuntimeError, match="match_cast"):  # two frames of three elements
        machine["main"](tvm.runtime.tensor(random(2, 4, 6)), tvm.runtime.tensor(np.array(False)))
