"""Values inside of models, by their own frameworks."""

from pathlib import Path

import numpy as np
import pytest

from tests.validate.test_reference import tflite_relu
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.debug.source_values import source_values
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.run import open_reference, reference_outputs

RESOURCES = Path(__file__).resolve().parents[2] / "resources"
IMAGE = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)


def tensor(name: str, shape: tuple[int, ...]) -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype="float32")


@pytest.mark.parametrize(
    ("file", "output", "operators"),
    [
        ("digits.onnx", "logits", ("Conv", "Relu", "MaxPool", "Gemm")),
        ("digits.pt2", "output_0", ("aten.conv2d", "aten.relu", "aten.max_pool2d", "aten.linear")),
    ],
)
def test_each_operator_has_its_values_in_the_order_of_the_network(file: str, output: str, operators: tuple[str, ...]):
    source = str(RESOURCES / file)
    digits = Signature(inputs=(tensor("image", (1, 1, 8, 8)),), outputs=(tensor(output, (1, 10)),))
    options = ImportOptions(source=source)
    values = source_values(source, options, digits, {"image": IMAGE})
    found = [next(at for at, value in enumerate(values) if value.operator.startswith(name)) for name in operators]
    assert found == sorted(found)
    (relu, before) = (values[found[1]], {value.name: value.array for value in values})
    np.testing.assert_array_equal(relu.array, np.maximum(before[relu.inputs[0]], 0))
    (expected,) = reference_outputs(open_reference(source, options, digits), digits, [{"image": IMAGE}])
    np.testing.assert_allclose(values[-1].array, expected[output], rtol=1e-4, atol=1e-4)


def test_a_tflite_models_operators_have_theirs(tmp_path: Path):
    source = str(tflite_relu(tmp_path / "relu.tflite"))
    relu = Signature(inputs=(tensor("x", (1, 3)),), outputs=(tensor("y", (1, 3)),))
    x = np.array([[-1, 0, 2]], np.float32)
    (value,) = source_values(source, ImportOptions(source=source), relu, {"x": x})
    assert value.operator == "RELU"
    np.testing.assert_array_equal(value.array, np.maximum(x, 0))


def test_a_format_without_values_inside_is_refused():
    with pytest.raises(InputError, match="cannot be read"):
        source_values("net.bin", ImportOptions(source="net.bin"), Signature(inputs=(), outputs=()), {})
