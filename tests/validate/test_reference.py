import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as OrtNotImplemented

from tests.requirements import need_module
from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.run import open_reference, reference_outputs

RESOURCES = Path(__file__).parents[2] / "resources"


def tensor(name, shape, dtype="float32") -> TensorSpec:
    return TensorSpec(name=name, relax_name=name, shape=shape, dtype=dtype)


def digits(output="logits") -> Signature:
    return Signature(inputs=(tensor("image", (1, 1, 8, 8)),), outputs=(tensor(output, (1, 10)),))


def digit_images(count=5) -> list[dict[str, np.ndarray]]:
    with np.load(RESOURCES / "digits-test.npz") as data:
        return [{"image": image.astype(np.float32).reshape(1, 1, 8, 8) / 16} for image in data["images"][:count]]


def outputs_of(source, signature, samples):
    return list(
        reference_outputs(open_reference(str(source), ImportOptions(source=str(source)), signature), signature, samples)
    )


def unary(tmp_path, node_type, shape, opset=17, domain="", dtype=TensorProto.FLOAT, out=None, **attributes) -> Path:
    graph = helper.make_graph(
        [helper.make_node(node_type, ["x"], ["y"], domain=domain, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", out or dtype, None)],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    return path


XY = Signature(inputs=(tensor("x", ("N", 3)),), outputs=(tensor("y", ("N", 3)),))


def test_onnx_runtime_gives_the_digits_logits_the_same_bits_every_time():
    first, second = (outputs_of(RESOURCES / "digits.onnx", digits(), digit_images()) for _ in range(2))
    assert [set(outputs) for outputs in first] == [{"logits"}] * 5
    for one, two in zip(first, second, strict=True):
        assert one["logits"].shape == (1, 10)
        np.testing.assert_array_equal(one["logits"], two["logits"])


def test_torch_gives_what_onnx_runtime_gives():
    need_module("torch", "pip install 'tvmake[torch]'")
    reference = outputs_of(RESOURCES / "digits.onnx", digits(), digit_images())
    program = outputs_of(RESOURCES / "digits.pt2", digits("output"), digit_images())
    for one, other in zip(reference, program, strict=True):
        np.testing.assert_allclose(one["logits"], other["output"], rtol=1e-4, atol=1e-5)


def test_samples_are_run_on_request():
    asked = []

    def samples():
        for number, sample in enumerate(digit_images()):
            asked.append(number)
            yield sample

    model = open_reference(str(RESOURCES / "digits.onnx"), ImportOptions(source="digits.onnx"), digits())
    outputs = reference_outputs(model, digits(), samples())
    next(outputs)
    assert asked == [0]


def test_a_dynamic_extent_may_differ_between_samples(tmp_path):
    path = unary(tmp_path, "Relu", ["N", 3])
    inputs = [np.random.RandomState(n).standard_normal((n, 3)).astype(np.float32) for n in (1, 4)]
    for value, outputs in zip(inputs, outputs_of(path, XY, [{"x": value} for value in inputs]), strict=True):
        np.testing.assert_array_equal(outputs["y"], np.maximum(value, 0))


def test_each_sample_of_a_tflite_network_is_a_first_call(tmp_path):
    need_module("ai_edge_litert", "pip install 'tvmake[tflite]'")
    from tests.frontend.tflite.test_lstm import lstm

    path = tmp_path / "m.tflite"
    path.write_bytes(lstm())
    signature = Signature(inputs=(tensor("x", (2, 5, 3)),), outputs=(tensor("y", (2, 5, 4)),))
    value = np.random.default_rng(0).standard_normal((2, 5, 3)).astype("float32")
    first, second = outputs_of(path, signature, [{"x": value}, {"x": value}])
    np.testing.assert_array_equal(first["y"], second["y"])


def test_sums_of_8_bit_products_do_not_saturate(tmp_path):
    """ONNX Runtime's fastest kernels for AVX2 add pairs of products in 16 bits."""
    weight = np.full((64, 4), 127, np.int8)
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
            "sums",
            [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 64])],
            [helper.make_tensor_value_info("y", TensorProto.INT32, [2, 4])],
            [onnx.numpy_helper.from_array(weight, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10,
    )
    onnx.save(proto, tmp_path / "m.onnx")
    signature = Signature(inputs=(tensor("x", (2, 64), "uint8"),), outputs=(tensor("y", (2, 4), "int32"),))
    (outputs,) = outputs_of(tmp_path / "m.onnx", signature, [{"x": np.full((2, 64), 255, np.uint8)}])
    assert (outputs["y"] == 64 * 127 * 255).all()


def test_an_operator_that_onnx_runtime_lacks_runs_in_the_onnx_packages_own_implementation(tmp_path):
    path = unary(tmp_path, "ThresholdedRelu", ["N", 3], dtype=TensorProto.DOUBLE, alpha=0.5)
    with pytest.raises(OrtNotImplemented, match="ThresholdedRelu"):
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    signature = Signature(inputs=(tensor("x", ("N", 3), "float64"),), outputs=(tensor("y", ("N", 3), "float64"),))
    value = np.linspace(-1, 1, 6).reshape(2, 3)
    (outputs,) = outputs_of(path, signature, [{"x": value}])
    np.testing.assert_array_equal(outputs["y"], np.where(value > 0.5, value, 0))


def test_an_operator_that_nobody_has_is_an_input_error_naming_both_runtimes(tmp_path):
    path = unary(tmp_path, "Gelu2", ["N", 3], domain="com.acme")
    with pytest.raises(InputError, match=r"neither ONNX Runtime .* nor onnx\.reference"):
        outputs_of(path, XY, [{"x": np.zeros((1, 3), np.float32)}])


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        (Signature(inputs=(tensor("z", (1, 3)),), outputs=XY.outputs), "has no input 'z'"),
        (Signature(inputs=XY.inputs, outputs=(tensor("w", (1, 3)),)), "has no output 'w'"),
    ],
)
def test_names_that_the_model_does_not_have_are_an_input_error(tmp_path, signature, says):
    with pytest.raises(InputError, match=says):
        outputs_of(unary(tmp_path, "Relu", ["N", 3]), signature, [{"x": np.zeros((1, 3), np.float32)}])


@pytest.mark.parametrize("value", [np.zeros((1, 4), np.float32), np.zeros((1, 3), np.int32), np.zeros(3, np.float32)])
def test_inputs_of_the_wrong_shape_or_dtype_are_an_input_error(tmp_path, value):
    with pytest.raises(InputError, match="ONNX Runtime cannot run it"):
        outputs_of(unary(tmp_path, "Relu", ["N", 3]), XY, [{"x": value}])


@pytest.mark.parametrize("suffix", ["onnx", "pt2", "tflite"])
def test_missing_and_broken_files_are_input_errors_in_every_format(tmp_path, suffix):
    with pytest.raises(InputError):
        outputs_of(tmp_path / f"none.{suffix}", XY, [{}])
    path = tmp_path / f"broken.{suffix}"
    path.write_bytes(b"garbage" * 100)
    with pytest.raises(InputError):
        outputs_of(path, XY, [{}])


def test_the_runtimes_name_and_version_are_recorded():
    source = str(RESOURCES / "digits.onnx")
    assert open_reference(source, ImportOptions(source=source), digits()).name.startswith("onnxruntime 1.")


def tflite_relu(path: Path) -> Path:
    """One ReLU on float32 [N, 3], written with LiteRT's own schema."""
    need_module("ai_edge_litert", "pip install 'tvmake[tflite]'")
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def table(kind, **fields):
        made = getattr(schema, f"{kind}T")()
        vars(made).update(fields)
        return made

    tensors = [
        table("Tensor", name=name, shape=[1, 3], shapeSignature=[-1, 3], type=schema.TensorType.FLOAT32, buffer=0)
        for name in "xy"
    ]
    relu = schema.BuiltinOperator.RELU
    graph = table(
        "SubGraph",
        tensors=tensors,
        inputs=[0],
        outputs=[1],
        operators=[table("Operator", opcodeIndex=0, inputs=[0], outputs=[1])],
    )
    code = table("OperatorCode", builtinCode=relu, deprecatedBuiltinCode=relu, version=1)
    model = table("Model", version=3, operatorCodes=[code], subgraphs=[graph], buffers=[table("Buffer")])
    builder = flatbuffers.Builder(256)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_litert_runs_a_tflite_model_and_resizes_its_inputs(tmp_path):
    path = tflite_relu(tmp_path / "relu.tflite")
    inputs = [np.random.RandomState(n).standard_normal((n, 3)).astype(np.float32) for n in (1, 4)]
    for value, outputs in zip(inputs, outputs_of(path, XY, [{"x": value} for value in inputs]), strict=True):
        np.testing.assert_array_equal(outputs["y"], np.maximum(value, 0))


def test_litert_refuses_names_and_types_that_do_not_fit(tmp_path):
    path = tflite_relu(tmp_path / "relu.tflite")
    with pytest.raises(InputError, match="has no input 'z'"):
        outputs_of(path, Signature(inputs=(tensor("z", (1, 3)),), outputs=XY.outputs), [{}])
    with pytest.raises(InputError, match="LiteRT cannot run it"):
        outputs_of(path, XY, [{"x": np.zeros((1, 3), np.int32)}])


@pytest.mark.parametrize(
    ("source", "library"),
    [("resources/digits.onnx", "onnxruntime"), ("resources/digits.pt2", "torch"), ("m.tflite", "ai_edge_litert")],
)
def test_a_missing_library_is_named_with_the_command_that_installs_it(source, library):
    """In a process of its own, where the library cannot be imported."""
    program = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from tvmake.artifact.signature import Signature\n"
        "from tvmake.frontend.options import ImportOptions\n"
        "from tvmake.errors import MachineError\n"
        "from tvmake.validate.reference.run import open_reference\n"
        "try:\n"
        f"    open_reference({source!r}, ImportOptions(source={source!r}), Signature(inputs=(), outputs=()))\n"
        "except MachineError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=RESOURCES.parent, capture_output=True, text=True)
    assert "pip install" in done.stdout, done.stderr
