"""Sizes that do not fit in a branch are an error only if the branch is taken; results may differ in shape."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, refusal, runtime, save
from tests.unoptimised import unoptimised_machine
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError

node = helper.make_node

CONDITION = (TensorProto.BOOL, [])


def branch(nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
    name = nodes[-1].output[0]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, FLOAT, None)])


def network(nodes: list[onnx.NodeProto], inputs: dict, rest: tuple[onnx.NodeProto, ...] = ()) -> onnx.ModelProto:
    """The nodes if the condition is false, else ``relu(x)``."""
    chosen = node("If", ["c"], ["z"], then_branch=branch([node("Relu", ["x"], ["t"])]), else_branch=branch(nodes))
    constants = {"one": np.array([1]), "zero": np.array([0]), "twelve": np.array([12]), "w": random(3, 5)}
    last = rest or (node("Neg", ["z"], ["y"]),)
    return model([chosen, *last], {**inputs, "c": CONDITION}, ["y"], constants)


CASES = {
    "addition": ([node("Add", ["x", "v"], ["e"])], {"x": (FLOAT, ["n"]), "v": (FLOAT, ["m"])}, [random(4), random(4)], [random(4), random(3)]),
    "concatenation": (
        [node("Concat", ["x", "v"], ["e"], axis=1)],
        {"x": (FLOAT, ["n", 3]), "v": (FLOAT, ["m", 3])},
        [random(3, 3), random(3, 3)],
        [random(3, 3), random(9000, 3)],
    ),
    "matmul": (
        [node("MatMul", ["x", "v"], ["e"])],
        {"x": (FLOAT, ["n", "k"]), "v": (FLOAT, ["m", 3])},
        [random(2, 4), random(4, 3)],
        [random(2, 4), random(0, 3)],
    ),
    "reshape": (
        [node("Reshape", ["x", "v"], ["r"]), node("Reshape", ["r", "twelve"], ["e"])],
        {"x": (FLOAT, [12]), "v": (INT64, [2])},
        [random(12), np.array([3, 4])],
        [random(12), np.array([5000, 1000])],
    ),
    "a size below 0": (
        [node("Sub", ["v", "one"], ["less"]), node("ConstantOfShape", ["less"], ["e"])],
        {"x": (FLOAT, [4]), "v": (INT64, [1])},
        [random(4), np.array([3])],
        [random(4), np.array([0])],
    ),
    "too many elements of a sorted axis": (
        [node("TopK", ["x", "v"], ["largest", "i"]), node("Relu", ["largest"], ["e"])],
        {"x": (FLOAT, [4]), "v": (INT64, [1])},
        [random(4), np.array([3])],
        [random(4), np.array([5])],
    ),
}  # fmt: skip
"""Nodes, inputs, values that fit, and values that do not."""


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_do_not_fit_are_an_error_only_in_the_branch_that_is_taken(tmp_path, name):
    nodes, inputs, fitting, unfit = CASES[name]
    proto = network(nodes, inputs)
    machine = unoptimised_machine(read(save(tmp_path / "m.onnx", proto)).module)

    def run(values: list[np.ndarray], condition: bool) -> np.ndarray:
        return machine["main"](*map(tvm.runtime.tensor, [*values, np.array(condition)])).numpy()

    for values, condition in ((fitting, False), (fitting, True), (unfit, True)):
        expected = runtime(proto, [*values, np.array(condition)])[0]
        np.testing.assert_allclose(run(values, condition), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="select"), checking_arguments():
        run(unfit, False)


def test_operators_take_results_of_branches_that_differ_in_shape(tmp_path):
    rest = (
        node("MatMul", ["z", "w"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Reshape", ["a", "s"], ["b"]),
        node("Softmax", ["b"], ["y"], axis=0),
    )
    proto = network([node("Concat", ["x", "x"], ["e"], axis=0)], {"x": (FLOAT, [4, 3])}, rest)
    imported = read(save(tmp_path / "m.onnx", proto))
    for condition in (True, False):
        inputs = [random(4, 3), np.array(condition)]
        (output,) = run_compiled(imported, inputs)
        np.testing.assert_allclose(output, runtime(proto, inputs)[0], rtol=1e-5, atol=1e-6)


def test_results_of_branches_that_differ_in_rank_are_refused_by_that_name(tmp_path):
    proto = network([node("Unsqueeze", ["x", "zero"], ["e"])], {"x": (FLOAT, [4])})
    assert "the branches of an If give Neg" in refusal(save(tmp_path / "m.onnx", proto)).problem
