import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.frontend.compiled import run_compiled
from tests.frontend.tflite import models as tflite_models
from tests.frontend.tflite.models import OP
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.tflite import importer as tflite
from tvmake.frontend.tflite import source as tflite_source


def write(path, content):
    path.write_bytes(content)
    return path


def read(path, **options):
    return tflite.read(path, ImportOptions(source=str(path), **options))


def litert(path, value):
    interpreter = Interpreter(model_path=str(path))
    (entry,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(entry["index"], value.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def image(dtype, batch=1):
    random = np.random.default_rng(1)
    shape = (batch, 8, 8, 3)
    if dtype == "int8":
        return random.integers(-128, 128, shape).astype("int8")
    return random.uniform(-1, 1, shape).astype("float32")


def test_a_float_network_agrees_with_litert(tmp_path):
    path = write(tmp_path / "float.tflite", tflite_models.convolutional(quantised=False))
    (output,) = run_compiled(read(path), [image("float32")])
    assert np.abs(output - litert(path, image("float32"))).max() < 1e-5


def test_a_network_quantised_to_int8_agrees_with_litert(tmp_path):
    path = write(tmp_path / "int8.tflite", tflite_models.convolutional(quantised=True))
    model = read(path)
    assert [spec.dtype for spec in (*model.signature.inputs, *model.signature.outputs)] == ["int8", "int8"]
    reference = litert(path, image("int8"))
    assert len(np.unique(reference)) > 2, "a saturated output would agree with anything"
    (output,) = run_compiled(model, [image("int8")])
    # One step of the output's scale: the two round ties differently.
    assert np.abs(output.astype(int) - reference).max() <= 1


def test_a_dynamic_dimension_takes_the_configured_size(tmp_path):
    path = write(tmp_path / "batch.tflite", tflite_models.convolutional(quantised=False))
    model = read(path, inputs={"serving/image:0": {"shape": [3, 8, 8, 3]}})
    assert model.signature.outputs[0].shape == (3, 5)
    value = image("float32", batch=3)
    np.testing.assert_allclose(run_compiled(model, [value])[0], litert(path, value), rtol=1e-4, atol=1e-5)


def test_a_size_with_which_a_network_computes_nothing_is_refused(tmp_path):
    path = write(tmp_path / "image.tflite", tflite_models.resizable())
    with pytest.raises(InputError, match=r"computes nothing for input 'image' of the shape \[1, 1, 8, 3\]"):
        read(path)
    assert read(path, inputs={"image": {"shape": [1, 5, 8, 3]}}).signature.outputs[0].shape == (1, 3, 6, 4)


def test_weights_are_arguments_and_names_are_identifiers(tmp_path):
    model = read(write(tmp_path / "net.tflite", tflite_models.convolutional(quantised=False)))
    assert sorted(int(np.prod(value.shape)) for value in model.params.values()) == [432, 1280]
    (spec,) = model.signature.inputs
    assert (spec.name, spec.relax_name) == ("serving/image:0", "serving_image_0")
    assert "params" not in model.module["main"].attrs


def test_inspection_returns_the_range_of_indices(tmp_path):
    path = write(tmp_path / "lookup.tflite", tflite_models.lookup())
    spec = tflite_source.inspect(path).inputs[0]
    assert spec.range == spec.indices == (0, 6)
    ids = np.array([6, 0, 3, 3], "int32")
    np.testing.assert_array_equal(run_compiled(read(path), [ids])[0], litert(path, ids))


def test_all_unsupported_operators_are_listed_with_their_counts(tmp_path):
    operators = [(OP.CUSTOM, "Mine"), (OP.ABS, None), (OP.CUSTOM, "Mine"), (OP.SVDF, None), (OP.CUSTOM, "Audio")]
    path = write(tmp_path / "custom.tflite", tflite_models.with_operators(*operators))
    with pytest.raises(InputError) as caught:
        read(path)
    assert "CUSTOM:Audio (1×), CUSTOM:Mine (2×)" in caught.value.problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\x1c\0\0\0ONNX" + bytes(100), "lacks the mark TFL3"),
        (b"\x1c\0\0\0TFL3", "damaged or truncated"),
        (tflite_models.with_shared_names(), "occur twice, for example 'same'"),
        (tflite_models.with_string_input(), "'words' has the type STRING"),
    ],
    ids=["empty", "other_format", "only_a_header", "shared_names", "strings"],
)
def test_unusable_files_are_refused(tmp_path, content, problem):
    with pytest.raises(InputError, match=problem):
        read(write(tmp_path / "bad.tflite", content))


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    for path, problem in ((tmp_path / "absent.tflite", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(InputError, match=problem):
            read(path)


WHOLE = tflite_models.convolutional(quantised=False)


@settings(max_examples=60)
@given(st.integers(min_value=1, max_value=len(WHOLE) - 1))
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path_factory, length):
    path = write(tmp_path_factory.mktemp("tflite") / "cut.tflite", WHOLE[:length])
    with pytest.raises(InputError):
        tflite_source.load(path)


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"serving/imagee:0": {}}, "did you mean 'serving/image:0'"),
        ({"serving/image:0": {"dtype": "int8"}}, "is float32, not int8"),
        ({"serving/image:0": {"shape": [1, 9, 8, 3]}}, "axis 1 .* fixed to 8"),
        ({"serving/image:0": {"shape": ["n", 8, 8, 3]}}, "cannot stay dynamic"),
        ({"serving/image:0": {"shape": [1, 8, 8]}}, "has 4 axes, not 3"),
    ],
)
def test_inputs_that_the_model_contradicts_are_refused(tmp_path, inputs, problem):
    with pytest.raises(InputError, match=problem):
        read(write(tmp_path / "net.tflite", WHOLE), inputs=inputs)
