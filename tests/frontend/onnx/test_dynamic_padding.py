"""Padding that depends on dynamic height and width agrees with ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx.models import FLOAT, model, random, read, save
from tests.unoptimised import UNOPTIMISED, unoptimised_machine
from tvmake.codegen.lowering import lower
from tvmake.codegen.options import PassOptions
from tvmake.frontend.onnx import importer
from tvmake.frontend.options import ImportOptions
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest

SIZES = [(8, 12), (7, 5), (2, 9), (1, 4)]
WEIGHT = np.random.default_rng(0).standard_normal((6, 4, 3, 2)).astype(np.float32)
BIAS = np.arange(6, dtype=np.float32)


def assert_agrees_with_runtime(path: Path, nodes: list, constants: dict[str, np.ndarray], sizes: list) -> None:
    """Compare with ONNX Runtime; nodes without a consumer are outputs."""
    read_names = {name for node in nodes for name in node.input}
    outputs = [name for node in nodes for name in node.output if name not in read_names]
    graph = helper.make_graph(
        nodes,
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, "h", "w"])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(proto.SerializeToString())
    imported = importer.read(path, ImportOptions(source=str(path)))
    machine = unoptimised_machine(imported.module)
    weights = [imported.params[str(one.name)] for one in imported.module["main"].params[1:]]
    for height, width in sizes:
        x = np.sin(np.arange(8 * height * width, dtype=np.float32)).reshape(2, 4, height, width) - 2
        results = machine["main"](tvm.runtime.tensor(x), *weights)
        results = results if len(outputs) > 1 else [results]
        for result, expected in zip(results, onnxruntime.InferenceSession(str(path)).run(None, {"x": x}), strict=True):
            assert result.shape == expected.shape
            np.testing.assert_allclose(result.numpy(), expected, atol=1e-5)


def test_strided_windows_are_padded_on_both_sides(tmp_path: Path):
    nodes = []
    for side in ("SAME_UPPER", "SAME_LOWER"):
        for number, (kernel, strides) in enumerate(
            [([3, 2], [2, 2]), ([3, 3], [1, 1]), ([2, 2], [3, 1]), ([2, 2], [2, 2])]
        ):
            window = {"kernel_shape": kernel, "strides": strides, "auto_pad": side}
            nodes += [
                helper.make_node(operator, ["x"], [f"{operator}_{side}_{number}"], **window)
                for operator in ("MaxPool", "AveragePool")
            ]
        nodes.append(helper.make_node("Conv", ["x", "weight", "bias"], [side], strides=[2, 2], auto_pad=side))
    assert_agrees_with_runtime(tmp_path / "same.onnx", nodes, {"weight": WEIGHT, "bias": BIAS}, SIZES)


def test_windows_that_start_at_the_same_position_for_any_size_have_padding_of_their_own(tmp_path: Path):
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pooled"], **window),
        helper.make_node("Conv", ["pooled", "w"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_LOWER"),
    ]
    proto = model(nodes, {"x": (FLOAT, ["n", 4, "height", "width"])}, ["y"], {"w": random(6, 4, 3, 3)})
    imported = read(save(tmp_path / "same.onnx", proto))
    assert [variable.name_hint for variable in imported.module.get_global_vars()] == ["main"]


def test_consecutive_padded_convolutions_of_a_sequence(tmp_path: Path):
    """Fused kernels have equal sizes."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["third"], kernel_shape=[3], strides=[3], pads=[2, 1]),
        helper.make_node("Conv", ["third", "v"], ["y"], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"),
    ]
    proto = model(nodes, {"x": (FLOAT, ["n", 1, "length"])}, ["y"], {"w": random(12, 1, 3), "v": random(3, 12, 3)})
    imported = read(save(tmp_path / "sequence.onnx", proto))
    module, _ = transform(imported.module, imported.params, TransformRequest())
    assert lower(module, UNOPTIMISED, [], PassOptions(), 1).final


def test_an_image_is_padded_to_a_multiple(tmp_path: Path):
    """Pad the ends to a multiple of four, by widths that the network computes from height and width."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "two", "four"], ["spatial"]),
        helper.make_node("Neg", ["spatial"], ["negative"]),
        helper.make_node("Mod", ["negative", "four"], ["missing"]),
        helper.make_node("Concat", ["zeros", "missing"], ["widths"], axis=0),
        *(helper.make_node("Pad", ["x", "widths"], [mode], mode=mode) for mode in ("constant", "edge")),
    ]
    constants = {"two": np.array([2]), "four": np.array([4]), "zeros": np.zeros(6, np.int64)}
    assert_agrees_with_runtime(tmp_path / "multiple.onnx", nodes, constants, SIZES)


def test_blocks_of_pixels_become_channels(tmp_path: Path):
    nodes = [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)]
    assert_agrees_with_runtime(tmp_path / "blocks.onnx", nodes, {}, [(8, 12), (2, 4)])
