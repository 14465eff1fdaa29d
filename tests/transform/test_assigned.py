"""A network with a precision for each layer: the dtypes of layers, and the accuracy of the network."""

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.transform.nets import Transformed, calls, imported, input_dtypes, operators, run
from tvmake.artifact.calibration import Calibration, TensorRange
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import float_network, transform
from tvmake.transform.network_layers import network_layers
from tvmake.transform.options import TransformRequest

FLOATS = ("float32", "float16", "int8")
ROWS = onnx_models.random(4, 32, seed=9)
AUTO = PrecisionConfig(base="auto")


@cache
def network() -> ImportedModel:
    """Three products with a residual sum, and a product of two activations: ``x`` [4, 32] to ``y`` [4, 4]."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["b"]),
        helper.make_node("Add", ["b", "r"], ["s"]),
        helper.make_node("Tanh", ["s"], ["c"]),
        helper.make_node("MatMul", ["c", "w3"], ["d"]),
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["d", "t"], ["y"]),
    ]
    weights = {f"w{number}": onnx_models.random(32, 32, seed=number) / 6 for number in (1, 2, 3)}
    return imported(onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [4, 32])}, ["y"], weights))


def calibration() -> Calibration:
    ranges = [TensorRange(name=name, low=-8, high=8, lowest=-8, highest=8) for name in ("x", "r", "c")]
    return Calibration(data="dataset", samples=1, method="minmax", ranges=ranges, products=3)


def assigned(*precisions: str, found: Calibration | None = None) -> Transformed:
    model = network()
    request = TransformRequest(precision=AUTO)
    return transform(model.module, model.params, request, found or calibration(), precisions)


def noise_db(made: Transformed) -> float:
    expected = run(assigned("float32", "float32", "float32", "float32"), ROWS)
    error = run(made, ROWS) - expected
    return float(10 * np.log10((expected**2).sum() / max((error**2).sum(), 1e-30)))


def products(made: Transformed) -> list[str]:
    return [input_dtypes(call)[0] for call in calls(made[0], "matmul")]


def layers(never: Sequence[str] = (), among: Sequence[str] = FLOATS):
    model = network()
    request = TransformRequest(precision=AUTO)
    return network_layers(float_network(model.module, model.params, request), among, never)


def test_layers_have_their_supported_precisions_and_predecessors():
    found = layers()
    assert [layer.operator for layer in found] == ["matmul"] * 4
    assert [layer.precisions for layer in found] == [FLOATS, FLOATS, FLOATS, ("float32", "float16")]
    assert found[3].why_not == "int8: its second operand is computed, not a weight"
    assert [layer.sources for layer in found] == [(), (0,), (0, 1), (2,)]
    assert [layer.elements for layer in found] == [128, 128, 128, 16]


def test_layers_in_never_keep_the_most_accurate_precision_with_a_reason():
    found = layers(never=["matmul"], among=("float16", "int8"))
    assert {layer.precisions for layer in found} == {("float16",)}
    assert {layer.why_not for layer in found} == {"it is named under never"}


@pytest.mark.parametrize(
    ("precisions", "dtypes"),
    [
        (("float32", "float32", "float32", "float32"), ["float32"] * 4),
        (("float16", "float32", "float16", "float32"), ["float16", "float32", "float16", "float32"]),
        (("float16", "int8", "float32", "float16"), ["float16", "int8", "float32", "float16"]),
    ],
)
def test_each_layer_is_computed_in_its_precision_and_the_network_keeps_its_outputs_type(precisions, dtypes):
    made = assigned(*precisions)
    found = ["int8" if dtype in ("int8", "uint8", "int32", "int16") else dtype for dtype in products(made)]
    assert found == dtypes
    assert str(made[0]["main"].ret_ty.dtype) == "float32"


def test_only_element_wise_operators_after_float16_layers_stay_in_float16():
    half = assigned("float16", "float16", "float16", "float16")
    assert {input_dtypes(call)[0] for name in ("nn.relu", "add") for call in calls(half[0], name)} == {"float16"}
    assert operators(half[0])["astype"] == 2  # the input, and the output
    mixed = assigned("float16", "float32", "float32", "float32")
    assert input_dtypes(calls(mixed[0], "nn.relu")[0]) == ["float16"]
    assert input_dtypes(calls(mixed[0], "add")[0]) == ["float32", "float32"]


def test_float16_acc32_sums_in_float32():
    made = assigned("float16_acc32", "float32", "float32", "float32")
    (first, *_) = calls(made[0], "matmul")
    assert (input_dtypes(first)[0], str(first.ty.dtype)) == ("float16", "float32")


def test_single_and_joint_assignments_are_accurate_up_to_rounding():
    assert noise_db(assigned("float16", "float16", "float16", "float16")) > 50
    assert noise_db(assigned("float16", "int8", "float32", "float16")) > 25
    assert noise_db(assigned("float32", "int8", "float32", "float32")) > noise_db(
        assigned("int8", "int8", "int8", "float32")
    )


@pytest.mark.parametrize(
    ("precisions", "problem"),
    [
        (("float32",) * 3, "names the precisions of 3 layers, the network has 4"),
        (("float32", "float32", "float32", "int8"), "names int8 for a layer without an integer form"),
    ],
)
def test_an_assignment_of_another_network_is_refused(precisions: tuple[str, ...], problem: str):
    with pytest.raises(InputError, match=problem):
        assigned(*precisions)


def test_ranges_of_another_network_are_refused():
    with pytest.raises(InputError, match="has ranges of another network"):
        assigned("int8", "float32", "float32", "float32", found=calibration().model_copy(update={"ranges": []}))
