"""Inputs of dynamic shape with one value: a mask of ones that grows with a decoder's cache."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmake
from tvmake.frontend.onnx.filled_inputs import filled_inputs, make_inside
from tvmake.frontend.options import InputSpec

pytestmark = pytest.mark.usefixtures("own_home")

DECODER = """
<ir_version: 8, opset_import: ["" : 17]>
decoder (float[b, t, 8] x, int64[b, "past + t"] mask, float[b, past, 8] keys)
    => (float[b, t, 8] y, float[b, "past + t", 8] present)
<float[8, 8] w, int64[1] one = {1}, float far = {-1e9}, int64 zero = {0}>
{
  present = Concat<axis = 1>(keys, x)
  q = MatMul(x, w)
  transposed = Transpose<perm = [0, 2, 1]>(present)
  scores = MatMul(q, transposed)
  row = Unsqueeze(mask, one)
  is_hidden = Equal(row, zero)
  hidden = Where(is_hidden, far, scores)
  weights = Softmax<axis = -1>(hidden)
  y = MatMul(weights, present)
}
"""


def decoder() -> onnx.ModelProto:
    text = DECODER.replace('"past + t"', "s").replace("float[8, 8] w, ", "")
    model = onnx.parser.parse_model(text)
    values = np.random.default_rng(0).normal(size=(8, 8)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "s":
                dim.dim_param = "past + t"
    return model


def test_the_sizes_of_other_inputs_make_the_input():
    (filled,) = filled_inputs(decoder(), {"mask": InputSpec(value=1)})
    assert dict(filled.sources) == {"b": ("x", 0), "t": ("x", 1), "past": ("keys", 1)}
    made = filled.array({"x": np.zeros((2, 3, 8)), "keys": np.zeros((2, 4, 8))})
    assert (made.shape, made.dtype, made.min()) == ((2, 7), np.int64, 1)


@pytest.mark.parametrize("entry", [InputSpec(value=[1, 1]), InputSpec(value=1, shape=[1, 4]), InputSpec()])
def test_a_list_or_a_fixed_shape_is_a_constant_as_ever(entry: InputSpec):
    assert filled_inputs(decoder(), {"mask": entry}) == []


def test_a_size_that_no_other_input_has_cannot_be_known():
    assert filled_inputs(decoder(), {"mask": InputSpec(value=1), "keys": InputSpec(value=0)}) == []


def test_the_network_that_makes_it_inside_computes_the_same():
    model = decoder()
    (filled,) = filled_inputs(model, {"mask": InputSpec(value=1)})
    before = onnxruntime.InferenceSession(model.SerializeToString())
    make_inside(model, filled)
    after = onnxruntime.InferenceSession(model.SerializeToString())
    assert [value.name for value in after.get_inputs()] == ["x", "keys"]
    given = {"x": np.ones((2, 3, 8), "float32"), "keys": np.ones((2, 4, 8), "float32")}
    expected = before.run(None, {**given, "mask": np.ones((2, 7), "int64")})
    for want, got in zip(expected, after.run(None, given), strict=True):
        assert np.array_equal(want, got)


def test_a_decoder_with_its_cache_as_state_takes_tokens_alone(tmp_path: Path):
    file = tmp_path / "decoder.onnx"
    onnx.save(decoder(), file)
    model = tvmake.load(file, state={"keys": "present"}, values={"mask": 1})
    package = model.compile(shows_progress=False)
    assert [spec.name for spec in package.inputs] == ["x"]
    source = onnxruntime.InferenceSession(file)
    keys = np.zeros((1, 0, 8), "float32")
    for length in (5, 1, 1, 3, 1):
        x = np.random.default_rng(length).normal(size=(1, length, 8)).astype("float32")
        mask = np.ones((1, keys.shape[1] + length), "int64")
        y, keys = source.run(None, {"x": x, "mask": mask, "keys": keys})
        np.testing.assert_allclose(package.run(x)["y"], y, rtol=1e-4, atol=1e-5)
    assert package.validate(model, samples=8).passed
