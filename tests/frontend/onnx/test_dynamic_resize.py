"""Resizes of dynamic height and width agree with ONNX Runtime at all sizes."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper

from tests.frontend.onnx.models import refusal
from tests.unoptimised import unoptimised_machine
from tvmake.frontend.onnx.importer import read
from tvmake.frontend.options import ImportOptions

SIZES = [(8, 12), (7, 5), (2, 9), (5, 2)]
SCALES = [(1.5, 0.6), (3.0, 0.5), (2.0, 2.0), (1.1, 1.1)]
NUMBERS_OF_SCALES = pytest.mark.parametrize("scales", [1, pytest.param(len(SCALES), marks=pytest.mark.soak)])
ROUNDINGS = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
MODES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]


def model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], outputs: int) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"]),
        helper.make_tensor_value_info("like", TensorProto.FLOAT, ["n", 1, "h2", "w2"]),
    ]
    results = [helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, None) for number in range(outputs)]
    graph = helper.make_graph(nodes, "resized", inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def resizes(options: dict[str, object], scales: int) -> onnx.ModelProto:
    """Resizes by the first scales, to the height and width of another tensor, and to twice the height and 7 columns."""
    constants = [
        helper.make_tensor(f"by{number}", TensorProto.FLOAT, [4], [1, 1, *factors])
        for number, factors in enumerate(SCALES[:scales])
    ]
    constants += [
        helper.make_tensor("twice", TensorProto.INT64, [2], [2, 1]),
        helper.make_tensor("seven", TensorProto.INT64, [1], [7]),
        *(helper.make_tensor(f"{index}", TensorProto.INT64, [1], [index]) for index in (0, 1, 2, 4)),
    ]
    nodes = [
        helper.make_node("Resize", ["x", "", f"by{number}"], [f"y{number}"], **options) for number in range(scales)
    ]
    nodes += [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Shape", ["like"], ["wanted"]),
        helper.make_node("Slice", ["shape", "0", "2"], ["kept"]),
        helper.make_node("Slice", ["wanted", "2", "4"], ["spatial"]),
        helper.make_node("Concat", ["kept", "spatial"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], [f"y{scales}"], **options),
        helper.make_node("Slice", ["shape", "2", "4"], ["own"]),
        helper.make_node("Mul", ["own", "twice"], ["doubled"]),
        helper.make_node("Slice", ["doubled", "0", "1"], ["height"]),
        helper.make_node("Concat", ["kept", "height", "seven"], ["others"], axis=0),
        helper.make_node("Resize", ["x", "", "", "others"], [f"y{scales + 1}"], **options),
    ]
    return model(nodes, constants, scales + 2)


def assert_agrees_with_runtime(path: Path, proto: onnx.ModelProto, tolerance: float) -> None:
    path.write_bytes(proto.SerializeToString())
    session = onnxruntime.InferenceSession(str(path))
    imported = read(path, ImportOptions(source=str(path)))
    machine = unoptimised_machine(imported.module)
    weights = [imported.params[str(parameter.name)] for parameter in imported.module["main"].params[2:]]
    for height, width in SIZES:
        x = np.sin(np.arange(2 * 3 * height * width, dtype=np.float32)).reshape(2, 3, height, width)
        inputs = {"x": x, "like": np.zeros((2, 1, height + 1, 2 * width - 1), np.float32)}
        used = {value.name: inputs[value.name] for value in session.get_inputs()}
        results = machine["main"](*map(tvm.runtime.tensor, inputs.values()), *weights)
        for result, expected in zip(results, session.run(None, used), strict=True):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result.numpy(), expected, atol=tolerance)


@pytest.mark.parametrize(
    ("mode", "rounding"),  # test_nearest.py has all pairs of them
    [
        *((MODES[0], rounding) for rounding in ROUNDINGS),
        *((mode, "round_prefer_floor") for mode in (*MODES[1:4], "tf_half_pixel_for_nn")),
    ],
)
@NUMBERS_OF_SCALES
def test_nearest_elements_agree_with_onnx_runtime(tmp_path: Path, mode: str, rounding: str, scales: int):
    options = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    assert_agrees_with_runtime(tmp_path / "nearest.onnx", resizes(options, scales), 0)


@pytest.mark.parametrize(
    ("method", "mode"), [*(("linear", mode) for mode in MODES), ("cubic", "half_pixel"), ("cubic", "align_corners")]
)
@NUMBERS_OF_SCALES
def test_interpolated_values_agree_with_onnx_runtime(tmp_path: Path, method: str, mode: str, scales: int):
    options = {"mode": method, "coordinate_transformation_mode": mode}
    assert_agrees_with_runtime(tmp_path / "interpolated.onnx", resizes(options, scales), 1e-5)


@pytest.mark.parametrize(
    ("method", "mode", "rounding"), [("nearest", "half_pixel", "round_prefer_floor"), ("linear", "half_pixel", "floor")]
)
def test_all_scales_agree_with_onnx_runtime(tmp_path: Path, method: str, mode: str, rounding: str):
    options = {"mode": method, "coordinate_transformation_mode": mode, "nearest_mode": rounding}
    assert_agrees_with_runtime(tmp_path / "resized.onnx", resizes(options, len(SCALES)), 1e-5)


def test_a_cubic_resize_with_another_coefficient_that_excludes_outside(tmp_path: Path):
    options = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
    assert_agrees_with_runtime(tmp_path / "cubic.onnx", resizes(options, 1), 1e-5)


def test_antialiasing_is_refused(tmp_path: Path):
    path = tmp_path / "smooth.onnx"
    path.write_bytes(resizes({"mode": "linear", "antialias": 1}, 1).SerializeToString())
    assert "antialias needs constant sizes, and inputs of fixed height" in refusal(path).problem
