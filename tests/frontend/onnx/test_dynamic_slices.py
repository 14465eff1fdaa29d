"""Slices between dynamic dimensions: positions and masks of decoders with a past, and the last rows of a sequence."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import FLOAT, model, random, read, runtime, save
from tests.unoptimised import UNOPTIMISED
from tvmake.codegen.link import generate
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import BuildOptions, PassOptions
from tvmake.device.code import checking_arguments
from tvmake.errors import InputError

node = helper.make_node
ROWS = 40
CONSTANTS = {
    "0": np.array(0), "1": np.array(1), "[0]": np.array([0]), "[1]": np.array([1]), "[2]": np.array([2]), "[3]": np.array([3]),
    "end": np.array([2**62]), "large": np.array([10**9]), "before": np.array([-9]), "[-2]": np.array([-2]), "[-1]": np.array([-1]), "edges": np.array([0, 1, 0, 0, 0, 0]), "[0,2]": np.array([0, 2]), "table": random(ROWS, 8), "numbers": np.arange(ROWS)[None],
    "causal": np.tril(np.ones((ROWS, ROWS), bool)), "least": np.array(-1e4, np.float32), "[5,8]": np.array([5, 8]), "[8]": np.array([8]),
}  # fmt: skip
LENGTHS = [
    node("Shape", ["x"], ["of_x"]), node("Slice", ["of_x", "[1]", "[2]", "[0]"], ["n"]),
    node("Shape", ["past"], ["of_past"]), node("Slice", ["of_past", "[1]", "[2]", "[0]"], ["p"]),
    node("Add", ["p", "n"], ["both"]), node("Squeeze", ["p"], ["from"]), node("Squeeze", ["both"], ["to"]),
]  # fmt: skip
CASES = {
    "range": [node("Range", ["from", "to", "1"], ["y"])],
    "range_looked_up": [node("Range", ["from", "to", "1"], ["r"]), node("Gather", ["table", "r"], ["y"])],
    "range_as_floats": [
        node("Range", ["from", "to", "1"], ["r"]), node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["f", "[1]"], ["column"]), node("Add", ["x", "column"], ["y"]),
    ],
    "range_from_0_moved": [
        node("Squeeze", ["n"], ["scalar"]), node("Range", ["0", "scalar", "1"], ["r"]), node("Add", ["r", "p"], ["moved"]),
        node("Gather", ["table", "moved"], ["y"]),
    ],
    "positions": [node("Slice", ["table", "p", "both", "[0]"], ["rows"]), node("Add", ["x", "rows"], ["y"])],
    "numbers_of_positions": [
        node("Slice", ["numbers", "p", "both", "[1]"], ["cut"]), node("Gather", ["table", "cut"], ["rows"]),
        node("Add", ["x", "rows"], ["y"]),
    ],
    "causal_mask": [
        node("Concat", ["past", "x"], ["keys"], axis=1), node("Transpose", ["keys"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["x", "k"], ["scores"]), node("Slice", ["causal", "p", "both", "[0]"], ["rows"]),
        node("Slice", ["rows", "[0]", "both", "[1]"], ["mask"]), node("Where", ["mask", "scores", "least"], ["y"]),
    ],
    "last": [node("Sub", ["n", "[1]"], ["l"]), node("Slice", ["x", "l", "end", "[1]"], ["y"])],
    "last_but_one": [
        node("Sub", ["n", "[2]"], ["l"]), node("Sub", ["n", "[1]"], ["e"]), node("Slice", ["x", "l", "e", "[1]"], ["y"]),
    ],
    "last_but_two": [node("Sub", ["n", "[3]"], ["l"]), node("Slice", ["x", "l", "end", "[1]"], ["y"])],
    "to_a_large_end": [node("Slice", ["x", "[0]", "large", "[1]"], ["z"]), node("Relu", ["z"], ["y"])],
    "backwards": [node("Slice", ["x", "[3]", "before", "[1]", "[-2]"], ["y"])],
    "backwards_and_joined": [  # waveforms are continued by their reversed beginnings
        node("Slice", ["x", "[3]", "before", "[1]", "[-1]"], ["start"]), node("Concat", ["start", "x"], ["long"], axis=1),
        node("Pad", ["long", "edges"], ["padded"], mode="edge"), node("Slice", ["padded", "[0]", "[-1]", "[1]"], ["late"]),
        node("Sub", ["long", "late"], ["y"]),
    ],
    "last_copied": [
        node("Sub", ["n", "[1]"], ["l"]), node("Slice", ["x", "l", "end", "[1]"], ["z"]), node("Expand", ["z", "[5,8]"], ["y"]),
    ],
    "last_for_all": [
        node("Sub", ["n", "[1]"], ["l"]), node("Slice", ["x", "l", "end", "[1]"], ["z"]),
        node("Concat", ["n", "[8]"], ["shape"], axis=0), node("Expand", ["z", "shape"], ["y"]),
    ],
}  # fmt: skip


def network() -> onnx.ModelProto:
    """All cases over the same inputs, with one output per case."""
    nodes = list(LENGTHS)
    for name, steps in CASES.items():
        proto = {output for step in steps for output in step.output}
        for step in steps:
            inputs, outputs = (
                [f"{name}.{each}" if each in proto else each for each in part] for part in (step.input, step.output)
            )
            nodes.append(node(step.op_type, inputs, outputs))
            nodes[-1].attribute.extend(step.attribute)
    dims = {"x": (FLOAT, [1, "n", 8]), "past": (FLOAT, [1, "past", 8])}
    return model(nodes, dims, [f"{name}.y" for name in CASES], CONSTANTS)


def test_slices_between_dynamic_dimensions_agree_with_onnx_runtime(tmp_path: Path):
    proto = network()
    imported = read(save(tmp_path / "m.onnx", proto))
    lowered = lower(imported.module, UNOPTIMISED, [], PassOptions(), 2, rules=False)
    machine = tvm.relax.VirtualMachine(generate(lowered.final, UNOPTIMISED, BuildOptions(), "targets.t"), tvm.cpu())

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        results: Any = machine["main"](
            *map(tvm.runtime.tensor, [*inputs, *(each.numpy() for each in imported.params.values())])
        )
        return [result.numpy() for result in results]

    for n, p in itertools.product((1, 2, 7), (0, 1, ROWS - 7)):
        inputs = [random(1, n, 8), random(1, p, 8)]
        for name, expected, found in zip(CASES, runtime(proto, inputs), run(*inputs), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{name} at {n}, {p}")

    too_long = r"needs equal sizes, and min\(past \+ n, 40\) is 40, past \+ n is 41"
    with pytest.raises(InputError, match=too_long), checking_arguments():
        run(random(1, 7, 8), random(1, ROWS - 6, 8))
    assert len(run(random(1, 7, 8), random(1, ROWS - 7, 8))) == len(CASES)
