"""Sizes, bounds, paddings and scales that are inputs, or that the network computes from them, agree with ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, runtime, save
from tests.transform.nets import transformed
from tvmake.codegen.on_this_machine import runner

node = helper.make_node
CONSTANTS = {"zero": np.array([0]), "one": np.array([1]), "two": np.array([2]), "four": np.array([4]), "axes": np.array([-1, 1]), "minus": np.array([-1])}  # fmt: skip
IMAGE = (FLOAT, [1, 2, "h", 5])
LINEAR = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}

CASES = {
    "slices": (
        [
            node("Slice", ["x", "v", "w", "axes"], ["a"]),
            node("Slice", ["x", "v", "w", "axes", "steps"], ["b"]),
        ],
        {"x": (FLOAT, [3, "n", 6]), "v": (INT64, [2]), "w": (INT64, [2])},
        [(np.array([0, 1]), np.array([4, 3])), (np.array([-3, -2]), np.array([2**62, 9])), (np.array([5, 0]), np.array([1, -9]))],
    ),
    "paddings": (
        [
            node("Pad", ["x", "v"], ["a"]),
            node("Pad", ["x", "v", "w"], ["b"]),
            node("Pad", ["x", "v"], ["c"], mode="reflect"),
            node("Pad", ["x", "v"], ["d"], mode="edge"),
        ],
        {"x": (FLOAT, ["n", 4]), "v": (INT64, [4]), "w": (FLOAT, [1])},
        [(np.array([0, 1, 2, 3]), np.array([7], np.float32)), (np.array([2, 0, 0, 1]), np.array([-1], np.float32))],
    ),
    "expansions": (
        [
            node("Expand", ["x", "v"], ["a"]), node("ConstantOfShape", ["v"], ["b"]),
            node("Mul", ["v", "two"], ["twice"]), node("Concat", ["one", "twice"], ["target"], axis=0), node("Expand", ["s", "target"], ["c"]),
        ],
        {"x": (FLOAT, [1, 4]), "v": (INT64, [2]), "s": (FLOAT, [])},
        [(np.array([3, 4]), np.array(2, np.float32)), (np.array([1, 1]), np.array(2, np.float32))],
    ),
    "reshapes": (
        [
            node("Reshape", ["x", "v"], ["a"]),
            node("Shape", ["x"], ["shape"]), node("Slice", ["shape", "zero", "one"], ["rows"]),
            node("Concat", ["rows", "w", "minus"], ["target"], axis=0), node("Reshape", ["x", "target"], ["b"]),
        ],
        {"x": (FLOAT, ["n", 6]), "v": (INT64, [2]), "w": (INT64, [1])},
        [(np.array([-1, 3]), np.array([2])), (np.array([0, 6]), np.array([6])), (np.array([12, -1]), np.array([1]))],
    ),
    "parts and largest elements": (
        [node("Split", ["x", "v"], ["a", "b"], axis=1), node("TopK", ["x", "w"], ["c", "d"], axis=1)],
        {"x": (FLOAT, ["n", 6]), "v": (INT64, [2]), "w": (INT64, [1])},
        [(np.array([2, 4]), np.array([3])), (np.array([6, 0]), np.array([6]))],
    ),
    "sizes of an image": (
        [
            node("Shape", ["x"], ["shape"]), node("Slice", ["shape", "zero", "two"], ["planes"]),
            node("Concat", ["planes", "v"], ["sizes"], axis=0),
            node("Resize", ["x", "", "", "sizes"], ["a"], **LINEAR), node("Resize", ["x", "", "", "sizes"], ["b"]),
            node("Resize", ["x", "", "", "v"], ["c"], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
            node("Conv", ["a", "kernel"], ["d"]),
        ],
        {"x": IMAGE, "v": (INT64, [2])},
        [(np.array([6, 9]),), (np.array([3, 5]),)],
    ),
    "scales of an image": (
        [
            node("Resize", ["x", "", "v"], ["a"], **LINEAR),
            node("Resize", ["x", "", "v"], ["b"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        ],
        {"x": IMAGE, "v": (FLOAT, [4])},
        [(np.array([1, 1, 1.7, 0.6], np.float32),), (np.array([1, 1, 1, 2], np.float32),)],
    ),
}  # fmt: skip


def network(name: str):
    nodes, inputs, _ = CASES[name]
    outputs = [value for layer in nodes for value in layer.output if len(value) == 1]
    constants = {**CONSTANTS, "steps": np.array([2, 1]), "kernel": random(3, 2, 1, 1)}
    return model(nodes, inputs, outputs, constants)


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_inputs_give_agree_with_onnx_runtime(tmp_path, name):
    proto = network(name)
    imported = read(save(tmp_path / "m.onnx", proto))
    _, inputs, samples = CASES[name]
    shape = [4 if isinstance(size, str) else size for size in inputs["x"][1]]
    for sample in samples:
        values = [random(*shape), *sample]
        for result, expected in zip(run_compiled(imported, values), runtime(proto, values), strict=True):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_slice_between_bounds_of_the_data_is_lowered(tmp_path):
    proto = network("slices")
    module, weights = transformed(read(save(tmp_path / "m.onnx", proto)))
    run = runner(module, weights, 3)
    values = [random(3, 4, 6), np.array([0, 1]), np.array([4, 3])]
    for result, expected in zip(run(values), runtime(proto, values), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("aligns_corners", [0, 1])
def test_an_affine_grid_has_the_size_of_an_image_of_any_size(tmp_path, aligns_corners):
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("AffineGrid", ["theta", "size"], ["grid"], align_corners=aligns_corners),
        node("GridSample", ["x", "grid"], ["y"], align_corners=aligns_corners),
    ]
    proto = model(nodes, {"theta": (FLOAT, ["b", 2, 3]), "x": (FLOAT, ["b", 3, "h", "w"])}, ["grid", "y"], opset=20)
    values = [random(2, 2, 3), random(2, 3, 5, 6)]
    results = run_compiled(read(save(tmp_path / "m.onnx", proto)), values)
    for result, expected in zip(results, runtime(proto, values), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
