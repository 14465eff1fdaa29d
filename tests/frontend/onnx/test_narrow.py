"""Element types of fewer than eight bits, and floats of eight, are bytes in inputs and outputs, and are computed like in ONNX."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.compiled import run_compiled
from tests.frontend.onnx.models import FLOAT, model, read, reference, save
from tvmake.frontend.onnx.narrow_types import from_storage_dtype, to_storage_dtype
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.onnx_model import open_model

node = helper.make_node
FLOATS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1")
INTEGERS = ("INT4", "UINT4", "INT2", "UINT2")


def number(kind):
    return getattr(TensorProto, kind)


def every_float_worth_trying(dtype):
    """All values of a type, their midpoints, both neighbours of these, zeros, infinities and NaN."""
    codes = np.arange(16 if dtype.itemsize == 1 and "4_" in dtype.name else 256, dtype=np.uint8)
    values = np.unique(codes.view(dtype).astype(np.float32))
    values = values[np.isfinite(values)]
    middles = (values[1:] + values[:-1]) / 2
    near = np.concatenate([np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e9, -1e9, 1e-12], np.float32)
    return np.concatenate([values, middles, near, special]).astype(np.float32)


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("kind", FLOATS)
def test_a_cast_to_a_small_float_rounds_half_to_even_and_saturates_optionally(tmp_path, kind, saturate):
    dtype = helper.tensor_dtype_to_np_dtype(number(kind))
    x = every_float_worth_trying(dtype)
    proto = model(
        [node("Cast", ["x"], ["y"], to=number(kind), saturate=saturate)], {"x": (FLOAT, [len(x)])}, ["y"], opset=24
    )
    imported = read(save(tmp_path / "m.onnx", proto))
    assert imported.signature.outputs[0].dtype == "uint8"
    (bits,) = run_compiled(imported, [x])
    expected = to_storage_dtype(reference(proto, [x])[0])
    np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("kind", FLOATS)
def test_every_code_of_a_small_float_has_its_value(tmp_path, kind):
    codes = np.arange(16 if kind == "FLOAT4E2M1" else 256, dtype=np.uint8)
    proto = model([node("Cast", ["x"], ["y"], to=FLOAT)], {"x": (number(kind), [len(codes)])}, ["y"], opset=24)
    (values,) = run_compiled(read(save(tmp_path / "m.onnx", proto)), [codes])
    np.testing.assert_array_equal(values, from_storage_dtype(codes, number(kind)).astype(np.float32))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two_are_rounded_by_the_casts_mode(tmp_path, mode):
    x = np.array([0.25, 0.3, 0.374, 0.375, 1, 1.5, 1.6, 3.9, 1e38, 2e-38], np.float32)
    cast = node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode)
    proto = model([cast], {"x": (FLOAT, [len(x)])}, ["y"], opset=25)
    (bits,) = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    np.testing.assert_array_equal(bits, to_storage_dtype(reference(proto, [x])[0]))


@pytest.mark.parametrize("kind", INTEGERS)
def test_small_integers_are_quantised_and_dequantised_with_blocked_scales(tmp_path, kind):
    x = np.random.default_rng(0).uniform(-12, 12, (3, 8)).astype(np.float32)
    zero = np.full((3, 2), 1, helper.tensor_dtype_to_np_dtype(number(kind)))
    constants = {"scale": np.linspace(0.5, 2, 6, dtype=np.float32).reshape(3, 2), "zero": zero}
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1, block_size=4),
        node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1, block_size=4),
    ]
    proto = model(nodes, {"x": (FLOAT, [3, 8])}, ["q", "y"], constants, opset=25)
    result = run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])
    bits, values = reference(proto, [x])
    np.testing.assert_array_equal(result[0], to_storage_dtype(bits))
    np.testing.assert_array_equal(result[1], values)


def test_large_weights_of_eight_bit_floats_are_stored_in_one_byte_each(tmp_path):
    random = np.random.default_rng(0)
    weight = random.standard_normal((2100, 500)).astype(ml_dtypes.float8_e4m3fn)
    constants = {"w": weight, "ws": np.full(500, 0.5, np.float32), "xs": np.float32(0.02)}
    constants["z"] = np.zeros((), ml_dtypes.float8_e4m3fn)
    nodes = [
        node("QuantizeLinear", ["x", "xs", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs"], ["xd"]),
        node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1),
        node("MatMul", ["xd", "wd"], ["y"]),
    ]
    proto = model(nodes, {"x": (FLOAT, [2, 2100])}, ["y"], constants, opset=23)
    imported = read(save(tmp_path / "m.onnx", proto))
    assert [value.numpy().dtype for value in imported.params.values() if value.numpy().size == 1_050_000] == [np.uint8]
    x = random.standard_normal((2, 2100)).astype(np.float32)
    np.testing.assert_allclose(run_compiled(imported, [x])[0], reference(proto, [x])[0], rtol=1e-4, atol=1e-3)


def test_the_reference_has_the_inputs_and_outputs_of_packages(tmp_path):
    proto = model(
        [node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E5M2)], {"x": (TensorProto.INT4, [4])}, ["y"], opset=24
    )
    path = save(tmp_path / "m.onnx", proto)
    imported = read(path)
    (spec,) = imported.signature.inputs
    assert (spec.dtype, spec.range) == ("int8", (-8, 7))
    x = np.array([-8, -1, 0, 7], np.int8)
    expected = open_model(str(path), ImportOptions(source=str(path)), imported.signature).run({"x": x})["y"]
    assert expected.dtype == np.uint8
    np.testing.assert_array_equal(run_compiled(imported, [x])[0], expected)


def test_small_integers_in_a_loop_are_replaced_once_it_is_unrolled(tmp_path):
    body = helper.make_graph(
        [node("Cast", ["state"], ["small"], to=TensorProto.INT4), node("Cast", ["small"], ["new"], to=FLOAT)],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", FLOAT, [3])],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_tensor_value_info("new", FLOAT, [3])],
    )  # fmt: skip
    constants = {"trips": np.array(2), "true": np.array(True)}
    proto = model(
        [node("Loop", ["trips", "true", "x"], ["y"], body=body)], {"x": (FLOAT, [3])}, ["y"], constants, opset=24
    )
    x = np.array([9.0, -3.7, 2.2], np.float32)
    np.testing.assert_array_equal(run_compiled(read(save(tmp_path / "m.onnx", proto)), [x])[0], [-7, -3, 2])


def test_bytes_are_the_tensors_of_onnx():
    tensor = numpy_helper.from_array(np.array([1.5, -2], ml_dtypes.float8_e4m3fn), "t")
    assert to_storage_dtype(onnx.numpy_helper.to_array(tensor)).tobytes() == tensor.raw_data
