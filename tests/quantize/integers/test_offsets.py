"""The offsets of a product's channels are one vector."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.quantize.nets import quantized_by_onnxruntime
from tests.transform.nets import Transformed, imported, run
from tvmake.artifact.calibration import Calibration, TensorRange
from tvmake.ir.dimensions import is_known
from tvmake.quantize.calibrated.sites import find_sites
from tvmake.quantize.precision import PrecisionConfig
from tvmake.transform.graph import float_network, transform
from tvmake.transform.options import TransformRequest

CHANNELS = 80
SHAPE = (1, 16, 6, 6)


def layer(operator: str) -> tuple[onnx.ModelProto, np.ndarray]:
    """A product with a bias, and an input for it with values of both signs."""
    shape, weight, pads = (SHAPE, (CHANNELS, 16, 3, 3), {"pads": [1] * 4})
    if operator == "Gemm":
        shape, weight, pads = ((4, 16), (16, CHANNELS), {})
    node = helper.make_node(operator, ["image", "w", "b"], ["y"], **pads)
    constants = {"w": onnx_models.random(*weight, seed=1), "b": onnx_models.random(CHANNELS, seed=2)}
    model = onnx_models.model([node], {"image": (onnx_models.FLOAT, list(shape))}, ["y"], constants)
    return model, onnx_models.random(*shape, seed=3) + 0.5


def vectors(made: Transformed) -> Counter[str]:
    """Dtypes of the parameters with one value per channel."""
    return Counter(str(value.dtype) for value in made[1].values() if value.numpy().size == CHANNELS)


@pytest.mark.parametrize("operator", ["Conv", "Gemm"])
def test_bias_zero_point_and_correction_are_one_vector_beside_the_scales(operator):
    model, x = layer(operator)
    source = imported(model)
    request = TransformRequest(precision=PrecisionConfig(base="int8"))
    (tensor,) = find_sites(float_network(source.module, source.params, request), ()).tensors
    low, high = float(x.min()), float(x.max())
    found = Calibration(
        data="dataset", samples=1, method="minmax", products=1, shifts=[[float(number) for number in range(CHANNELS)]],
        ranges=[TensorRange(name=str(tensor.name), low=low, high=high, lowest=low, highest=high)],
    )  # fmt: skip
    made = transform(source.module, source.params, request, found)
    assert vectors(made) == {"float32": 2}
    off = onnx_models.runtime(model, [x])[0] - run(made, x)
    shifts = off.reshape(-1, CHANNELS) if operator == "Gemm" else np.moveaxis(off, 1, -1).reshape(-1, CHANNELS)
    np.testing.assert_allclose(shifts, np.broadcast_to(np.arange(CHANNELS), shifts.shape), atol=0.5)


@pytest.mark.parametrize("batch", [1, "n"])
def test_a_quantised_source_has_its_bias_and_zero_point_in_one_vector_of_integers(batch, tmp_path):
    node = helper.make_node("Conv", ["image", "w", "b"], ["y"], pads=[1] * 4)
    constants = {"w": onnx_models.random(CHANNELS, 3, 3, 3, seed=1), "b": onnx_models.random(CHANNELS, seed=2)}
    model = onnx_models.model([node], {"image": (onnx_models.FLOAT, [1, 3, 16, 16])}, ["y"], constants)
    quantized = quantized_by_onnxruntime(model, 3, tmp_path)
    if batch == "n":
        del quantized.graph.value_info[:]
        for value in (*quantized.graph.input, *quantized.graph.output):
            value.type.tensor_type.shape.dim[0].dim_param = batch
    made = transform_source(quantized)
    assert vectors(made)["int32"] == 1
    assert is_known(made[0]["main"].params[0].ty.shape[0]) == (batch == 1)


def transform_source(model: onnx.ModelProto) -> Transformed:
    source = imported(model)
    return transform(source.module, source.params, TransformRequest())
