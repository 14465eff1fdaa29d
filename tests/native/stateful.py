"""Small networks with states, as packages for tests."""

from collections.abc import Mapping
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.codegen.conftest import Transformed
from tests.native.devices import package_for
from tvmake.artifact.dims import DimBounds, Dims
from tvmake.frontend.options import ImportOptions
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.transform.options import TransformRequest

import numpy as np  # isort: skip

Shapes = Mapping[str, list[int | str]]


def network_of(
    directory: Path,
    nodes: list[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    state: dict[str, str],
    dims: Dims | None = None,
) -> Transformed:
    """A float32 network; the initializer ``axes`` is [1]."""
    directory.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.array([1]), "axes")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), directory / "net.onnx"
    )
    return transformed(directory, ImportOptions(source=str(directory / "net.onnx"), state=state), **(dims or {}))


def transformed(directory: Path, options: ImportOptions, **dims: int | DimBounds) -> Transformed:
    """A network, imported and transformed, with sizes or bounds of dynamic dimensions."""
    directory.mkdir(parents=True, exist_ok=True)
    imported = [directory / name for name in ("model.json", "model.params", "signature.json", "source.json")]
    import_model(options, *imported)
    files = Transformed(directory / "module.json", directory / "module.params", directory / "bound.json")
    transform_model(*imported[:3], TransformRequest(dims=dims), files.module, files.params, files.signature)
    return files


def package_of(
    directory: Path,
    nodes: list[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    state: dict[str, str],
    dims: Dims | None = None,
) -> Path:
    """An unpacked package of a network."""
    return package_for(network_of(directory, nodes, inputs, outputs, state, dims), directory / "package")


def accumulator(directory: Path) -> Path:
    """y = x + s, and s becomes x + s; x: [1, 4]."""
    return package_for(accumulator_network(directory), directory / "package")


def accumulator_network(directory: Path) -> Transformed:
    nodes = [helper.make_node("Add", ["x", "s"], ["y"]), helper.make_node("Add", ["x", "s"], ["s_next"])]
    return network_of(directory, nodes, {"x": [1, 4], "s": [1, 4]}, {"y": [1, 4], "s_next": [1, 4]}, {"s": "s_next"})


def cache(directory: Path, width: int = 2, dims: Dims | None = None) -> Path:
    """y is the sum of all x so far, which past keeps: [1, past, width]; x: [1, 1, width]."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("ReduceSum", ["present", "axes"], ["y"], keepdims=0),
    ]
    inputs: Shapes = {"x": [1, 1, width], "past": [1, "past", width]}
    outputs: Shapes = {"y": [1, width], "present": [1, "total", width]}
    return package_of(directory, nodes, inputs, outputs, {"past": "present"}, dims)


def cache_in_place(directory: Path) -> Path:
    """The same for up to 20 x, with a buffer of that size."""
    return cache(directory, dims={"past": DimBounds(max=19)})


def delay(directory: Path) -> Path:
    """y = x + 10 a + 100 b: a becomes x, an input itself, and b becomes a; x: [1, 4096]."""
    ten = helper.make_node("Constant", [], ["ten"], value_float=10.0)
    nodes = [
        ten,
        helper.make_node("Mul", ["b", "ten"], ["b10"]),
        helper.make_node("Add", ["a", "b10"], ["sum"]),
        helper.make_node("Mul", ["sum", "ten"], ["sum10"]),
        helper.make_node("Add", ["x", "sum10"], ["y"]),
        helper.make_node("Identity", ["x"], ["a_next"]),
        helper.make_node("Identity", ["a"], ["b_next"]),
    ]
    shape: list[int | str] = [1, 4096]
    names = ("y", "a_next", "b_next")
    return package_of(
        directory, nodes, dict.fromkeys("xab", shape), dict.fromkeys(names, shape), {"a": "a_next", "b": "b_next"}
    )
