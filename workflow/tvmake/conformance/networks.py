"""The networks of a self-test: a dozen operators, and a probe for each known fault of kernels for Adreno.

Each is an ONNX graph with one output per operator or probe, so one package answers many questions. ONNX' reference evaluator
computes the expected outputs with numpy in float32. Inputs and weights are fixed draws from the standard normal
distribution.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPSET = 17
SEED = 20
CHANNELS, SIZE = 16, 12
"""Of the image: four blocks of four channels, and rows that no work group divides."""
ROWS, COLUMNS = 8, 24
"""Of the matrix."""


@dataclass
class Graph:
    """A graph in the making: nodes, and the weights that they use."""

    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))

    def add(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: object) -> str:
        """Add a node; returns the name of its output."""
        from onnx import helper

        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def draw(self, *shape: int, scale: float = 1.0) -> str:
        """The name of weights of a shape."""
        return self.keep(self.random.standard_normal(shape).astype("float32") * np.float32(scale))

    def keep(self, value: np.ndarray) -> str:
        """The name of a constant."""
        name = f"w{len(self.weights)}"
        self.weights[name] = value
        return name

    def conv(self, data: str, inputs: int, outputs: int, size: int = 3, group: int = 1, output: str = "") -> str:
        """A convolution that keeps the image's size, scaled so that outputs are about 1."""
        weight = self.draw(outputs, inputs // group, size, size, scale=(inputs // group * size * size) ** -0.5)
        return self.add("Conv", [data, weight, self.draw(outputs)], output, pads=[size // 2] * 4, group=group)


@dataclass(frozen=True)
class Question:
    """One output of a network.

    Attributes:
        name: the output's name, also in the report.
        make: adds its nodes to a graph, from ``image`` and ``matrix``.
        purpose: for a probe, the fault of a device, driver or compiler that it detects.
    """

    name: str
    make: Callable[[Graph, str], object]
    purpose: str = ""


def _operator(name: str, operator: str, data: str = "image", **attributes: object) -> Question:
    return Question(name, lambda graph, out: graph.add(operator, [data], out, **attributes))


def _conv(size: int, group: int = 1) -> Callable[[Graph, str], object]:
    return lambda graph, out: graph.conv("image", CHANNELS, CHANNELS, size, group, out)


def _matmul(graph: Graph, out: str) -> None:
    graph.add("MatMul", ["matrix", graph.draw(COLUMNS, 20, scale=COLUMNS**-0.5)], out)


def _add_scaled(graph: Graph, out: str) -> None:
    graph.add("Add", [graph.add("Mul", ["image", graph.draw(1, CHANNELS, 1, 1)]), graph.draw(1, CHANNELS, 1, 1)], out)


def _layer_norm(graph: Graph, out: str) -> None:
    graph.add("LayerNormalization", ["matrix", graph.draw(COLUMNS), graph.draw(COLUMNS)], out, axis=-1)


def _resize(graph: Graph, out: str) -> None:
    scales = graph.keep(np.array([1, 1, 2, 2], "float32"))
    graph.add("Resize", ["image", "", scales], out, mode="linear", coordinate_transformation_mode="half_pixel")


def _concat(graph: Graph, out: str) -> None:
    graph.add("Concat", ["image", graph.add("Neg", ["image"])], out, axis=1)


OPERATORS = (
    Question("conv2d_3x3", _conv(3)),
    Question("conv2d_1x1", _conv(1)),
    Question("conv2d_depthwise", _conv(3, CHANNELS)),
    Question("matmul", _matmul),
    _operator("max_pool2d", "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _operator("avg_pool2d", "AveragePool", kernel_shape=[2, 2], strides=[2, 2]),
    Question("scale_and_add", _add_scaled),
    _operator("sigmoid", "Sigmoid"),
    _operator("softmax", "Softmax", "matrix", axis=-1),
    Question("layer_norm", _layer_norm),
    _operator("mean", "ReduceMean", axes=[2, 3], keepdims=0),
    Question("resize2d", _resize),
    Question("concat", _concat),
    _operator("transpose", "Transpose", perm=[0, 2, 3, 1]),
)


def _pixel_stores(graph: Graph, out: str) -> None:
    graph.add("Relu", [graph.conv("image", CHANNELS, CHANNELS)], out)


def _pooled_pixels(graph: Graph, out: str) -> None:
    pooled = graph.add("MaxPool", [graph.conv("image", CHANNELS, 8)], kernel_shape=[2, 2], strides=[2, 2])
    graph.conv(pooled, 8, 8, 1, output=out)


def _edge_reads(graph: Graph, out: str) -> None:
    graph.conv(graph.conv("image", CHANNELS, 4, 5), 4, 4, 7, output=out)


def _two_scopes(graph: Graph, out: str) -> None:
    texture = graph.add("Sigmoid", [graph.conv("image", CHANNELS, CHANNELS)])
    buffer = graph.add("Sigmoid", ["image"])
    graph.add("Add", [graph.conv(texture, CHANNELS, CHANNELS), buffer], out)


def _scope_copies(graph: Graph, out: str) -> None:
    image = graph.conv("image", CHANNELS, CHANNELS)
    turned = graph.add("Transpose", [graph.add("Transpose", [image], perm=[0, 2, 3, 1])], perm=[0, 3, 1, 2])
    graph.conv(turned, CHANNELS, 8, output=out)


def _grouped(graph: Graph, out: str) -> None:
    graph.conv(graph.conv("image", CHANNELS, CHANNELS, 3, CHANNELS), CHANNELS, CHANNELS, 3, 4, output=out)


def _epilogue(graph: Graph, out: str) -> None:
    convolved = graph.conv("image", CHANNELS, CHANNELS)
    graph.add("Mul", [graph.add("Sigmoid", [convolved]), graph.add("Add", [convolved, "image"])], out)


def _other_writers(graph: Graph, out: str) -> None:
    graph.conv(graph.add("Softmax", [graph.conv("image", CHANNELS, 8)], axis=1), 8, 8, 1, output=out)


def _blocked_axes(graph: Graph, out: str) -> None:
    image = graph.conv("image", CHANNELS, CHANNELS)
    mean = graph.add("ReduceMean", [image], axes=[1], keepdims=1)
    graph.add("Sub", [image, mean], out)


def _vector_booleans(graph: Graph, out: str) -> None:
    positive = graph.add("Cast", [graph.add("Greater", ["image", graph.keep(np.zeros(1, "float32"))])], to=1)
    graph.add("Mul", ["image", positive], out)


def _running_sums(graph: Graph, out: str) -> None:
    graph.add("CumSum", ["matrix", graph.keep(np.array(1, "int64"))], out)


def _all_threads(graph: Graph, out: str) -> None:
    graph.add("ReduceSum", [graph.add("Mul", ["matrix", "matrix"]), graph.keep(np.array([0, 1]))], out, keepdims=0)


def _vector_product(graph: Graph, out: str) -> None:
    row = graph.add("ReduceMean", ["matrix"], axes=[0], keepdims=1)
    graph.add("MatMul", [row, graph.draw(COLUMNS, 48, scale=COLUMNS**-0.5)], out)


PROBES = (
    Question("pixel_stores", _pixel_stores, "a store into a pixel of an image must write its four values at once"),
    Question("pooled_pixels", _pooled_pixels, "lanes of a pixel must not share an accumulator, nor keep an old value"),
    Question("edge_reads", _edge_reads, "reads outside of an image go through a sampler that clamps"),
    Question("two_scopes", _two_scopes, "one kernel is called with images here and buffers there"),
    Question("scope_copies", _scope_copies, "tensors are copied between buffers and images"),
    Question("grouped_convolutions", _grouped, "grouped and depthwise convolutions read their own channels"),
    Question("epilogues", _epilogue, "several things are computed from a convolution's result within its kernel"),
    Question("other_writers", _other_writers, "kernels other than convolutions write images"),
    Question(
        "blocked_axes", _blocked_axes, "operators of four axes get tensors in blocks of channels, which have five"
    ),
    Question("vector_booleans", _vector_booleans, "booleans of vectors are -1 in OpenCL C, and 1 everywhere else"),
    Question("running_sums", _running_sums, "running sums must not expect the threads of a group to advance together"),
    Question("all_threads", _all_threads, "reductions over a work group need barriers and separate local memory"),
    Question(
        "vector_products", _vector_product, "a matmul with one row distributes its result over the threads of a group"
    ),
)


@dataclass(frozen=True)
class Network:
    """A model with its expected outputs.

    Attributes:
        model: the serialised ONNX model.
        inputs: by name, float32.
        expected: each output by name, float32.
    """

    model: bytes
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def network(questions: Sequence[Question]) -> Network:
    """One network with an output for each question.

    The inputs are multiplied by ones first, so that all computation uses half precision and images if the network does: types and
    memory of the inputs themselves are those of the model.
    """
    graph = Graph()
    eye = np.eye(CHANNELS, dtype="float32").reshape(CHANNELS, CHANNELS, 1, 1)
    graph.add("Conv", ["pixels", graph.keep(eye)], "image")
    graph.add("MatMul", ["table", graph.keep(np.eye(COLUMNS, dtype="float32"))], "matrix")
    for question in questions:
        question.make(graph, question.name)
    inputs = {
        "pixels": graph.random.standard_normal((1, CHANNELS, SIZE, SIZE)).astype("float32"),
        "table": graph.random.standard_normal((ROWS, COLUMNS)).astype("float32"),
    }
    return evaluate(graph, inputs, [question.name for question in questions])


def evaluate(graph: Graph, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Network:
    """The network of a graph, without unused values, with expected outputs."""
    from onnx import TensorProto, checker, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    nodes: list[Any] = []
    used = set(outputs)
    for node in reversed(graph.nodes):
        if used & set(node.output):
            nodes.insert(0, node)
            used |= set(node.input)
    used_inputs = {name: value for name, value in inputs.items() if name in used}
    weights = [numpy_helper.from_array(value, name) for name, value in graph.weights.items() if name in used]

    def infos(values: Mapping[str, np.ndarray | None]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, None if value is None else value.shape)
            for name, value in values.items()
        ]

    def model(results: Mapping[str, np.ndarray | None]) -> Any:
        graph_proto = helper.make_graph(nodes, "selftest", infos(used_inputs), infos(results), weights)
        return helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    computed = ReferenceEvaluator(model(dict.fromkeys(outputs))).run(None, used_inputs)
    expected = {name: np.asarray(value, "float32") for name, value in zip(outputs, computed, strict=True)}
    complete = model(expected)
    checker.check_model(complete, full_check=True)
    return Network(complete.SerializeToString(), used_inputs, expected)
