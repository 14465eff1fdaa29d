"""Which operators of a network CLML computes, and how they are written into a package."""

import json

import numpy as np
import pytest
import tvm

from tests.targets.adreno_texture.nets import CLML, conv, op, target, tensor
from tests.tune.graphs import graph
from tvmake.targets.adreno_clml.calls import to_kernels
from tvmake.targets.adreno_clml.graph import WEIGHTS, graph_json
from tvmake.targets.adreno_clml.partition import composites, partition
from tvmake.targets.adreno_clml.report import clml_offload
from tvmake.targets.backends import backend_of

X, W, B = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(1, 8, 1, 1)


def net(x, w, b):
    hidden = op.nn.relu(op.add(conv(x, w), b))
    return op.nn.gelu(op.nn.max_pool2d(hidden, (2, 2), (2, 2)))


@pytest.fixture(scope="module")
def module():
    return graph(net, X, W, B)


def offloaded_patterns(expression, *inputs, weights=None):
    """The patterns that CLML computes of an expression; all inputs but the first are weights."""
    cut = partition(graph(expression, *inputs), len(inputs) if weights is None else len(inputs) - weights)
    return [name.removeprefix("openclml.") for part in cut.chosen.values() for name in composites(part.function)]


def test_the_clml_targets_ask_for_it():
    assert backend_of(target(CLML)).offloads_to_clml and not backend_of(target()).offloads_to_clml


def test_offloaded_and_remaining_operators_are_listed_layer_by_layer(module):
    report = clml_offload(module, 1).report
    assert report.is_compiled and report.reason is None
    assert report.offloaded == {"add": 1, "nn.conv2d": 1, "nn.max_pool2d": 1, "nn.relu": 1}
    assert report.fallback == {"nn.gelu": 1}
    assert [layer.operators for layer in report.layers] == [
        ["nn.conv2d", "add", "nn.relu"],
        ["nn.max_pool2d"],
        ["nn.gelu"],
    ]
    assert [layer.offloaded_to for layer in report.layers] == ["clml0", "clml1", None]


def test_a_bias_is_part_of_the_convolution_although_parameters_are_arguments(module):
    (first, second) = clml_offload(module, 1).report.subgraphs
    assert first.pattern == "relu.bias.nn.conv2d"
    assert first.part == second.part == "clml_part0"
    assert first.nodes[0].attributes["padding"] == [1, 1, 1, 1]
    assert first.nodes[0].inputs[1] == "x1" and first.nodes[1].inputs == [first.nodes[0].name, "x2"]


def test_a_part_says_which_weights_it_takes_and_how_many_bytes_they_are(module):
    (part,) = clml_offload(module, 1).parts
    assert part.layers == ["relu.bias.nn.conv2d", "nn.max_pool2d"]
    assert part.weights == ["x1", "x2"] and part.weight_bytes == (8 * 8 * 3 * 3 + 8) * 4


def test_the_reports_are_json_files_beside_the_package(module):
    files = clml_offload(module, 1).files()
    assert set(files) == {"clml/offload.json", "clml/clml0.json", "clml/clml1.json"}
    assert json.loads(files["clml/offload.json"])["offloaded"]["nn.conv2d"] == 1


def test_a_network_with_dynamic_dimensions_stays_with_kernels_and_the_report_says_why():
    n = tvm.tirx.Var("n", "int64")
    made = clml_offload(graph(lambda x, w: conv(x, w), tensor(n, 8, 8, 8), W), 1)
    assert not made.parts and not made.report.is_compiled and "dynamic dimensions" in made.report.reason


def test_the_graph_is_in_tvms_form_with_weights_behind_the_inputs(module):
    (part,) = partition(module, 1).chosen.values()
    function = part.function.with_attrs({"global_symbol": "f", WEIGHTS: len(part.weights)})
    text, names = graph_json(function)
    read = json.loads(text)
    assert [node["op"] for node in read["nodes"]] == ["input", "const", "const", "kernel", "kernel"]
    assert read["arg_nodes"] == [0, 1, 2] and read["heads"] == [[4, 0, 0]] and names == ["weight0", "weight1"]
    layer = read["nodes"][3]
    assert layer["name"] == "openclml.relu.bias.nn.conv2d" and layer["inputs"] == [[0, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert layer["attrs"]["activation_type"] == "relu" and layer["attrs"]["shape"] == [[1, 8, 8, 8]]


def test_a_parts_kernels_are_its_operators(module):
    (part,) = partition(module, 1).chosen.values()
    kernels = to_kernels(part.function)
    calls = [b.value.op.name for block in kernels.body.blocks for b in block.bindings if hasattr(b.value, "op")]
    assert calls == ["relax.nn.conv2d", "relax.add", "relax.nn.relu", "relax.nn.max_pool2d"]


def test_two_layers_of_equal_shape_keep_their_own_weights():
    cut = partition(graph(lambda x, w, v: op.nn.gelu(conv(op.nn.gelu(conv(x, w)), v)), X, W, W), 1)
    assert [part.weights for part in cut.chosen.values()] == [("x1",), ("x2",)]


def test_constants_of_the_network_are_weights_too():
    bias = tvm.relax.const(np.ones((1, 8, 1, 1), "float32"))
    (part,) = partition(graph(lambda x, w: op.add(conv(x, w), bias), X, W), 1).chosen.values()
    assert part.parameters == ["x1"] and len(part.weights) == len(part.function.params) - 1 == 2


def test_reshapes_alone_are_not_offloaded():
    assert offloaded_patterns(lambda x: op.nn.gelu(op.reshape(x, (1, 512))), X) == []


@pytest.mark.parametrize(
    ("pattern", "expression", "inputs"),
    [
        ("nn.conv2d", conv, [X, tensor(8, 8, 3, 3)]),
        ("nn.conv2d", lambda x, w: conv(x, w, groups=8), [X, tensor(8, 1, 3, 3)]),
        ("bias.nn.conv2d", lambda x, w, b: op.add(conv(x, w), b), [X, W, B]),
        ("relu6.bias.nn.conv2d", lambda x, w, b: op.clip(op.add(conv(x, w), b), 0, 6), [X, W, B]),
        ("nn.dense", op.matmul, [tensor(3, 8), tensor(8, 5)]),
        ("bias.nn.dense", lambda x, w, b: op.add(op.matmul(x, w), b), [tensor(1, 8), tensor(8, 5), tensor(5)]),
        ("concatenate", lambda x, w: op.concat([conv(x, w), x], 1), [X, W]),
    ],
)
def test_operators_without_a_matching_pattern_of_tvm_are_offloaded(pattern, expression, inputs):
    assert pattern in offloaded_patterns(expression, *inputs, weights=len(inputs) - 1)


@pytest.mark.parametrize(
    ("why", "expression", "inputs"),
    [
        ("two groups", lambda x, w: conv(x, w, groups=2), [X, tensor(8, 4, 3, 3)]),
        ("five dimensions", op.nn.relu, [tensor(1, 2, 3, 4, 5)]),
        ("integers", op.add, [tensor(1, 8, dtype="int32"), tensor(1, 8, dtype="int32")]),
        (
            "an average that counts its padding",
            lambda x: op.nn.avg_pool2d(x, (2, 2), (2, 2), 1, count_include_pad=True),
            [X],
        ),
        ("a window over the edge", lambda x: op.nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=True), [X]),
        ("a mean of an image that is not square", lambda x: op.mean(x, [2, 3]), [tensor(1, 8, 4, 6)]),
        ("a batch of matrices", op.matmul, [tensor(2, 3, 4), tensor(2, 4, 5)]),
    ],
)
def test_operators_that_clml_cannot_express_stay_with_kernels(why, expression, inputs):
    assert offloaded_patterns(expression, *inputs) == []


def test_a_bias_that_is_not_by_channel_is_not_part_of_the_convolution():
    assert offloaded_patterns(lambda x, w, b: op.add(conv(x, w), b), X, W, tensor(1, 8, 8, 8), weights=2) == [
        "nn.conv2d",
        "relax.add",
    ]
