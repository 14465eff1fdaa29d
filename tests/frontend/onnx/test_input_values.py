"""Inputs that the config gives a value become constants of the package."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, INT64, model, random, read, refusal, runtime, save
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.onnx_model import open_model


def branch(name: str, factor: str) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(name, FLOAT, ["n", 4])
    return helper.make_graph([helper.make_node("Mul", ["x", factor], [name])], name, [], [output])


@pytest.fixture
def path(tmp_path):
    """One of two branches, by the sampling rate, as in voice activity detectors; and a scale for each of four columns."""
    nodes = [
        helper.make_node("Equal", ["rate", "sixteen_thousand"], ["is_wide"]),
        helper.make_node(
            "If", ["is_wide"], ["scaled"], then_branch=branch("a", "two"), else_branch=branch("b", "three")
        ),
        helper.make_node("Mul", ["scaled", "scale"], ["y"]),
    ]
    constants = {"sixteen_thousand": np.array(16000), "two": np.float32(2), "three": np.float32(3)}
    inputs = {"x": (FLOAT, ["n", 4]), "rate": (INT64, []), "scale": (FLOAT, [4])}
    return save(tmp_path / "m.onnx", model(nodes, inputs, ["y"], constants))


INPUTS = {"rate": {"value": 16000}, "scale": {"value": [1, 2, 3, 0.5]}}


def test_a_value_is_an_input_no_longer_and_chooses_the_branch(path):
    imported = read(path, inputs=INPUTS)
    assert [spec.name for spec in imported.signature.inputs] == ["x"]
    assert "If" in " ".join(imported.notes["preparation"])
    x = random(3, 4)
    expected = runtime(onnx.load(path), [x, np.array(16000), np.array([1, 2, 3, 0.5], np.float32)])
    np.testing.assert_allclose(run_compiled(imported, [x])[0], expected[0])


def test_one_number_fills_the_inputs_shape(path):
    imported = read(path, inputs={"scale": {"value": 2}, "rate": {"value": 8000}})
    x = random(2, 4)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], x * 6, rtol=1e-6)


def test_the_reference_gets_the_values(path):
    options = ImportOptions(source=str(path), inputs=INPUTS)
    x = random(3, 4)
    outputs = open_model(str(path), options, read(path, inputs=INPUTS).signature).run({"x": x})
    np.testing.assert_allclose(outputs["y"], x * 2 * np.array([1, 2, 3, 0.5], np.float32))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("rate", 0.5, "int64[], which cannot be 0.5"),
        ("scale", [1, 2], "float32[4], not [1, 2]"),
        ("x", 1, "float32[n, 4], which has no fixed shape"),
        ("rates", 1, "the model has no input 'rates'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(path, name, value, problem):
    assert problem in str(refusal(path, inputs={name: {"value": value}}))


def test_types_that_are_stored_as_bytes_cannot_have_a_value(tmp_path):
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)]
    narrow = save(tmp_path / "m.onnx", model(nodes, {"x": (TensorProto.INT4, [2])}, ["y"], opset=21))
    assert "whose element type cannot have one" in str(refusal(narrow, inputs={"x": {"value": 1}}))
