"""Sizes that the data give and no tensor has are errors at run time; the package runs with other inputs afterwards."""

import numpy as np
import pytest
import tvm
from onnx import helper

from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save
from tests.unoptimised import unoptimised_machine
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError

from tvm import relax  # isort: skip

node = helper.make_node

CASES = {
    "TopK": ([node("TopK", ["x", "n"], ["y", "i"])], [8], [[3], [0], [8]], [[9], [-1]]),
    "ConstantOfShape": (
        [node("ConstantOfShape", ["n"], ["z"]), node("Add", ["z", "x"], ["y"])],
        [],
        [[2, 3], [0, 3]],
        [[-1, 3], [-1, -3], [1 << 40, 1 << 20], [1 << 16, 1 << 16]],
    ),
    "Reshape": (
        [node("Reshape", ["x", "n"], ["z"]), node("Relu", ["z"], ["y"])],
        [12],
        [[3, 4], [-1, 4], [4, -1], [0, 1]],
        [[5, 4], [-1, 5], [-2, -6]],
    ),
    "Expand": (
        [node("Expand", ["x", "n"], ["z"]), node("Relu", ["z"], ["y"])],
        [1, 4],
        [[3, 4], [3, 1], [0, 4]],
        [[3, 5], [-3, 4], [1 << 33, 4]],
    ),
    "Split": ([node("Split", ["x", "n"], ["y", "z"], axis=0)], [10], [[4, 6], [0, 10]], [[4, 7], [-1, 11], [4, 5]]),
}
"""Nodes, the shape of ``x``, values of ``n`` that give results, and values that do not."""


@pytest.mark.parametrize("name", CASES)
def test_a_size_that_no_tensor_has_is_an_error_and_the_next_run_is_right(tmp_path, name):
    nodes, shape, valid, invalid = CASES[name]
    proto = model(nodes, {"x": (FLOAT, shape), "n": (INT64, [len(valid[0])])}, ["y"])
    module = read(save(tmp_path / "m.onnx", proto)).module
    # The passes that replace dimensions by others, and assume that all are at least 0.
    passes = [relax.transform.DecomposeOpsForInference(), relax.transform.CanonicalizeBindings()]
    machine = unoptimised_machine(tvm.transform.Sequential(passes)(module))
    x = random(*shape)

    def run(sizes: list[int]) -> np.ndarray:
        returned = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.array(sizes)))
        return (returned if isinstance(returned, tvm.runtime.Tensor) else returned[0]).numpy()

    for sizes in invalid:
        with pytest.raises(InputError, match="select"), checking_arguments():
            run(sizes)
        np.testing.assert_array_equal(run(valid[0]), runtime(proto, [x, np.array(valid[0])])[0])
    for sizes in valid[1:]:
        np.testing.assert_array_equal(run(sizes), runtime(proto, [x, np.array(sizes)])[0])
