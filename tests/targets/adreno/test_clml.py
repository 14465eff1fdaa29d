"""What CLML could take over, and what a TVM without its code generator makes of that."""

import json
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.targets.adreno.nets import CLML, conv, op, target, tensor
from tests.tune.graphs import graph
from tvmake.codegen.clml_offload import asks_for_clml, clml_offload
from tvmake.targets.adreno import clml

DIGITS = Path(__file__).resolve().parents[3] / "resources/digits.onnx"

X, W, B = tensor(1, 8, 8, 8), tensor(8, 8, 3, 3), tensor(1, 8, 1, 1)


def net(x, w, b):
    hidden = op.nn.relu(op.add(conv(x, w), b))
    return op.nn.gelu(op.nn.max_pool2d(hidden, (2, 2), (2, 2)))


@pytest.fixture(scope="module")
def module():
    return graph(net, X, W, B)


@pytest.fixture(scope="module")
def params():
    random = np.random.default_rng(0)
    return {
        name: tvm.runtime.tensor(random.standard_normal(shape).astype(dtype))
        for name, (shape, dtype) in [("x1", W), ("x2", B)]
    }


def test_the_clml_targets_ask_for_it():
    assert asks_for_clml(target(CLML)) and not asks_for_clml(target())


def test_offloaded_operators_and_those_that_stay_are_told_layer_by_layer(module, params):
    report = clml_offload(module, params).report
    assert report.offloaded == {"add": 1, "nn.conv2d": 1, "nn.max_pool2d": 1, "nn.relu": 1}
    assert report.fallback == {"nn.gelu": 1}
    assert [layer.operators for layer in report.layers] == [
        ["nn.conv2d", "add", "nn.relu"],
        ["nn.max_pool2d"],
        ["nn.gelu"],
    ]
    assert [layer.offloaded_to for layer in report.layers] == ["clml0", "clml1", None]


def test_a_bias_is_part_of_the_convolution_although_parameters_are_arguments(module, params):
    (first, _) = clml_offload(module, params).report.subgraphs
    assert first.pattern == "relu.bias.nn.conv2d"
    assert first.nodes[0].attributes["padding"] == [1, 1, 1, 1]
    assert first.nodes[0].inputs[1] == "constant" and first.nodes[1].inputs[0] == first.nodes[0].name


def test_the_reports_are_json_files_beside_the_package(module, params):
    files = clml_offload(module, params).files()
    assert set(files) == {"clml/offload.json", "clml/clml0.json", "clml/clml1.json"}
    assert json.loads(files["clml/offload.json"])["offloaded"]["nn.conv2d"] == 1


@pytest.mark.skipif(clml.can_compile(), reason="this TVM compiles CLML")
def test_without_a_code_generator_the_network_stays_as_it_is_and_the_report_says_so(module, params):
    made = clml_offload(module, params)
    assert made.module.same_as(module)
    assert not made.report.is_compiled and "no code generator for CLML" in made.report.reason


def test_every_part_has_a_name_of_its_own_though_results_have_equal_names():
    from tests.transform.nets import transformed
    from tvmake.config.model import ImportOptions
    from tvmake.frontend.onnx.importer import read

    made, weights = transformed(read(DIGITS, ImportOptions(source=str(DIGITS))))
    report = clml_offload(made, weights).report
    parts = clml.partition(made, weights)
    composites = sum(
        isinstance(binding.value, tvm.relax.Function)
        for _, function in parts.functions_items()
        for binding in clml._bindings(function)
    )
    names = [part.name for part in report.subgraphs]
    assert len(names) == len(set(names)) == composites > 1
    assert [layer.offloaded_to for layer in report.layers if layer.offloaded_to] == names
