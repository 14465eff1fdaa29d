"""Stage files of two networks small enough to build in a test, written as the transform stage writes them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmake.frontend.options import ImportOptions
from tvmake.transform.options import TransformRequest


@dataclass(frozen=True)
class Transformed:
    """The build stage's input files."""

    module: Path
    params: Path
    signature: Path


def _save(
    path: Path, nodes: list, inputs: dict[str, list], outputs: dict[str, list], weights: dict[str, np.ndarray]
) -> None:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def _transformed(source: Path, directory: Path, request: TransformRequest | None = None) -> Transformed:
    from tvmake.stages.model.import_model import import_model
    from tvmake.stages.model.transform import transform_model

    made = [directory / name for name in ("model.json", "model.params", "signature.json", "source.json")]
    import_model(ImportOptions(source=str(source)), *made)
    files = Transformed(directory / "module.json", directory / "module.params", directory / "bound.json")
    transform_model(*made[:3], request or TransformRequest(), files.module, files.params, files.signature)
    return files


@pytest.fixture(scope="session")
def static_net(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    """conv2d, relu, softmax; all shapes fixed."""
    directory = tmp_path_factory.mktemp("static")
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"], axis=1),
    ]
    weights = {"w": random.standard_normal((6, 3, 3, 3)).astype("float32")}
    _save(directory / "net.onnx", nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 6]}, weights)
    return _transformed(directory / "net.onnx", directory)


@pytest.fixture(scope="session")
def dynamic_net(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    """Two dynamic extents and their products, which TVM's own pipeline orders by memory address."""
    directory = tmp_path_factory.mktemp("dynamic")
    nodes = [
        helper.make_node("Concat", ["x", "x", "x"], ["c"], axis=0),
        helper.make_node("Concat", ["c", "c"], ["d"], axis=1),
        helper.make_node("Flatten", ["d"], ["f"], axis=2),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    weights = {"w": np.random.default_rng(0).standard_normal((4, 5)).astype("float32")}
    _save(directory / "net.onnx", nodes, {"x": ["n", "m", 4]}, {"y": ["a", 5]}, weights)
    return _transformed(directory / "net.onnx", directory)


BOUNDS = {"batch": {"max": 4}, "length": {"min": 0, "max": 64}}


@pytest.fixture(scope="session")
def bounded_net(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    """Two inputs, mask first, that share a batch of 1 to 4 and a length of 0 to 64."""
    return dimensions_net(tmp_path_factory.mktemp("bounded"), BOUNDS)


def dimensions_net(directory: Path, dims: dict) -> Transformed:
    """mask [batch, length, 1] and x [batch, length, 4], two matmuls with 256 values for each position between them."""
    nodes = [
        helper.make_node("Mul", ["x", "mask"], ["masked"]),
        helper.make_node("MatMul", ["masked", "w1"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["relu"]),
        helper.make_node("MatMul", ["relu", "w2"], ["y"]),
    ]
    random = np.random.default_rng(0)
    weights = {
        "w1": random.standard_normal((4, 256)).astype("float32"),
        "w2": random.standard_normal((256, 5)).astype("float32"),
    }
    inputs = {"mask": ["batch", "length", 1], "x": ["batch", "length", 4]}
    _save(directory / "net.onnx", nodes, inputs, {"y": ["batch", "length", 5]}, weights)
    return _transformed(directory / "net.onnx", directory, TransformRequest.model_validate({"dims": dims}))


@pytest.fixture(scope="session")
def tunable_net(tmp_path_factory: pytest.TempPathFactory) -> Transformed:
    """Two convolutions that share a kernel, and a matmul whose width no vector divides."""
    directory = tmp_path_factory.mktemp("tunable")
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    shapes = {"w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 8, 3, 3), "b2": (8,), "w3": (100, 128), "b3": (100,)}
    weights = {name: random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    _save(directory / "net.onnx", nodes, {"x": [1, 8, 16, 16]}, {"y": [1, 100]}, weights)
    return _transformed(directory / "net.onnx", directory)
