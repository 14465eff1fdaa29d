"""Calibration finds the ranges of activations; with them a network computes in int8."""

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from pydantic import ValidationError

from tests.frontend.onnx import models as onnx_models
from tests.quantize.nets import drawn_network, image, quantized_by_onnxruntime
from tests.transform.nets import IMAGE, calls, classifier, classifier_onnx, imported, input_dtypes, run
from tvmake.artifact import stage_json
from tvmake.artifact.calibration import Calibration
from tvmake.artifact.module_files import load_module, save_module
from tvmake.artifact.weights.tensors import load_params, save_params
from tvmake.config.dataset import DatasetConfig, Preprocessing
from tvmake.config.requests.calibrating import CalibrateRequest
from tvmake.errors import InputError
from tvmake.frontend.options import ImportOptions
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages.model.calibrate import STAGE, calibrate
from tvmake.stages.model.import_model import import_model
from tvmake.transform.graph import transform
from tvmake.transform.options import TransformRequest


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The imported classifier."""
    directory = tmp_path_factory.mktemp("imported")
    made = classifier()
    save_module(made.module, directory / "model.json")
    save_params(made.params, directory / "model.params")
    stage_json.save(made.signature, directory / "signature.json")
    return directory


def dataset(directory: Path, images: np.ndarray) -> DatasetConfig:
    np.savez(directory / "images.npz", images=images.astype(np.float32))
    return DatasetConfig(path=str(directory / "images.npz"), labels=None, preprocess=Preprocessing(scale=1))


def calibrated(files: Path, out: Path, data: DatasetConfig | None = None, **precision) -> Calibration:
    request = CalibrateRequest(
        model="net", precision=PrecisionConfig(base="int8", **precision), dataset=data, samples=4
    )
    return calibrate(
        files / "model.json", files / "model.params", files / "signature.json", request, out / "calibration.json"
    )


def test_the_same_data_gives_the_same_bytes(files, tmp_path):
    images = np.random.default_rng(0).normal(size=(4, 3, 8, 8))
    calibrated(files, tmp_path, dataset(tmp_path, images))
    first = (tmp_path / "calibration.json").read_bytes()
    calibrated(files, tmp_path, dataset(tmp_path, images))
    assert (tmp_path / "calibration.json").read_bytes() == first


def test_ranges_are_those_of_the_data(files, tmp_path):
    images = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype(np.float32)
    found = calibrated(files, tmp_path, dataset(tmp_path, images))
    assert (found.ranges[0].low, found.ranges[0].high) == pytest.approx((images.min(), images.max()))
    assert (found.data, found.samples, found.warnings) == ("dataset", 4, [])


@pytest.mark.parametrize(
    "calibration", [{"method": "percentile", "percentile": 99}, {"method": "entropy"}], ids=["percentile", "entropy"]
)
def test_an_outlier_is_cut_off(files, tmp_path, calibration):
    images = np.random.default_rng(0).normal(size=(4, 3, 8, 8))
    images[0, 0, 0, 0] = 1000
    found = calibrated(files, tmp_path, dataset(tmp_path, images), calibration=calibration)
    assert found.ranges[0].highest == 1000
    assert found.ranges[0].high < 500


def test_an_int8_network_multiplies_integers_and_keeps_close_to_the_float_one(files, tmp_path):
    found = calibrated(files, tmp_path)
    imported = classifier()
    made = transform(imported.module, imported.params, TransformRequest(precision=PrecisionConfig(base="int8")), found)
    products = [*calls(made[0], "nn.conv2d"), *calls(made[0], "matmul")]
    assert len(products) == 3
    assert {str(call.ty.dtype) for call in products} == {"int32"}
    assert all(set(input_dtypes(call)) <= {"int8", "uint8"} for call in products)
    exact = onnx_models.runtime(classifier_onnx(), [IMAGE])[0].astype(np.float64)
    assert 10 * np.log10((exact**2).sum() / ((run(made, IMAGE) - exact) ** 2).sum()) > 25


def test_what_a_transformer_adds_to_is_not_rounded(tmp_path):
    """Values that only matmuls read in 8 bits are unchanged for other readers: roundings would add up from block to block."""
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["d"]),
        helper.make_node("Add", ["d", "x"], ["y"]),
    ]
    weights = {"a": onnx_models.random(16, 32, seed=1), "b": onnx_models.random(32, 16, seed=2) / 10_000}
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [4, 16])}, ["y"], weights)
    residual, value = imported(network), onnx_models.random(4, 16, seed=3)
    save_module(residual.module, tmp_path / "model.json")
    save_params(residual.params, tmp_path / "model.params")
    stage_json.save(residual.signature, tmp_path / "signature.json")
    request = TransformRequest(precision=PrecisionConfig(base="int8"))
    made = transform(residual.module, residual.params, request, calibrated(tmp_path, tmp_path))
    assert len(calls(made[0], "matmul")) == 2
    exact = onnx_models.runtime(network, [value])[0].astype(np.float64)
    assert 10 * np.log10((exact**2).sum() / ((run(made, value) - exact) ** 2).sum()) > 60


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory) -> Path:
    """Twelve steps of an imported LSTM with 24 inputs and 64 outputs."""
    directory = tmp_path_factory.mktemp("recurrent")
    constants = {
        "w": onnx_models.random(1, 256, 24, seed=1) / 5,
        "r": onnx_models.random(1, 256, 64, seed=2) / 8,
        "b": onnx_models.random(1, 512, seed=3) / 5,
    }
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "y"], hidden_size=64)]
    made = imported(onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [12, 1, 24])}, ["y"], constants))
    save_module(made.module, directory / "model.json")
    save_params(made.params, directory / "model.params")
    stage_json.save(made.signature, directory / "signature.json")
    return directory


def test_the_steps_of_a_recurrent_network_share_weights_and_grid(recurrent, tmp_path):
    module, params = load_module(recurrent / "model.json"), load_params(recurrent / "model.params")
    sequences = np.random.default_rng(0).normal(size=(96, 1, 24)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=sequences)
    data = DatasetConfig(path=str(tmp_path / "x.npz"), images="x", input="x", labels=None)
    made = transform(module, params, TransformRequest(precision=PrecisionConfig(base="int8")),
                     calibrated(recurrent, tmp_path, data))  # fmt: skip
    plain = transform(module, params, TransformRequest(precision=PrecisionConfig(base="float32")))
    assert all(input_dtypes(call) == ["uint8", "int8"] for call in calls(made[0], "matmul"))
    held, whole = (sum(value.numpy().nbytes for value in values.values()) for _, values in (made, plain))
    assert held < 0.4 * whole
    sample = sequences[:12]
    noise = np.mean((run(made, sample) - run(plain, sample)) ** 2)
    assert 10 * np.log10(np.mean(run(plain, sample) ** 2) / noise) > 30


def test_steps_that_are_written_out_share_their_weights_and_one_grid(tmp_path):
    """A loop over a cell as exporters write it: each step slices one input, and transposes the weights again."""
    steps, width = 6, 64
    nodes = [helper.make_node("Gemm", ["h0", "u"], ["s0"], transB=1)]
    for step in range(steps):
        nodes += [
            helper.make_node("Gather", ["x", f"i{step}"], [f"x{step}"], axis=1),
            helper.make_node("Gemm", [f"x{step}", "w", "b"], [f"a{step}"], transB=1),
            helper.make_node("Add", [f"a{step}", f"s{step}"], [f"t{step}"]),
            helper.make_node("Tanh", [f"t{step}"], [f"h{step + 1}"]),
            helper.make_node("Gemm", [f"h{step + 1}", "u"], [f"s{step + 1}"], transB=1),
        ]
    weights = {"w": onnx_models.random(width, 32, seed=1) / 6, "u": onnx_models.random(width, width, seed=2) / 8}
    indices = {f"i{step}": np.asarray(step, np.int64) for step in range(steps)}
    constants = {**weights, **indices, "b": onnx_models.random(width, seed=3), "h0": np.zeros((1, width), np.float32)}
    inputs = {"x": (onnx_models.FLOAT, [1, steps, 32])}
    model = onnx_models.model(nodes, inputs, [f"s{steps}"], constants)
    module, params = saved(model, tmp_path)
    np.savez(tmp_path / "x.npz", x=np.stack([onnx_models.random(steps, 32, seed=10 + seed) for seed in range(16)]))
    data = DatasetConfig(path=str(tmp_path / "x.npz"), images="x", input="x", labels=None)
    found = calibrated(tmp_path, tmp_path, data)
    made = transform(module, params, TransformRequest(precision=PrecisionConfig(base="int8")), found)
    assert found.products == 2 * steps
    held = sum(value.numpy().nbytes for value in made[1].values() if str(value.dtype) == "int8")
    assert held == sum(weight.size for weight in weights.values())
    vectors = [name for name, value in made[1].items() if value.numpy().size == width]
    assert len(vectors) == 4  # scales and offsets, of either weight


def test_excluded_operators_stay_in_float_and_are_reported(files, tmp_path):
    found = calibrated(files, tmp_path, never=["matmul"])
    assert [(kept.operator, kept.reason) for kept in found.kept] == [("matmul", "it is named under never")]
    imported = classifier()
    precision = PrecisionConfig(base="int8", never=["matmul"])
    made = transform(imported.module, imported.params, TransformRequest(precision=precision), found)
    assert [str(call.ty.dtype) for call in calls(made[0], "matmul")] == ["float32"]


def test_the_log_says_how_many_products_are_integers_and_why_others_are_not(files, tmp_path):
    assert "int8: all convolutions and matmuls use integers (3)" in STAGE.report(calibrated(files, tmp_path))
    lines = STAGE.report(calibrated(files, tmp_path, never=["matmul"]))
    (line,) = [line for line in lines if line.startswith("int8: ")]
    assert line.startswith("int8: 2 of 3 convolutions and matmuls use integers; in float32: matmul '")
    assert line.endswith("because it is named under never")


def test_the_shift_of_a_channel_in_8_bits_is_corrected(files, tmp_path):
    images = np.random.default_rng(0).normal(1, 1, size=(8, 3, 8, 8)).astype(np.float32)
    data = dataset(tmp_path, images)
    imported = classifier()
    exact = np.concatenate([onnx_models.runtime(classifier_onnx(), [image[None]])[0] for image in images])
    off = []
    for is_corrected in (False, True):
        found = calibrated(files, tmp_path, data, calibration={"bias_correction": is_corrected})
        assert bool(found.shifts) == is_corrected
        request = TransformRequest(precision=PrecisionConfig(base="int8"))
        made = transform(imported.module, imported.params, request, found)
        shift = np.concatenate([run(made, image[None]) for image in images]) - exact
        off.append(np.abs(shift.mean(axis=0)).sum())
    assert off[1] < 0.7 * off[0]


def test_random_inputs_correct_nothing(files, tmp_path):
    assert calibrated(files, tmp_path).shifts == []


def saved(model, directory):
    """Run the import stage; returns its files."""
    onnx_models.save(directory / "net.onnx", model)
    written = [directory / name for name in ("model.json", "model.params", "signature.json", "source.json")]
    import_model(ImportOptions(source=str(directory / "net.onnx")), *written)
    return load_module(written[0]), load_params(written[1])


def test_where_nothing_is_quantised_the_network_is_that_of_float32_and_the_log_says_so(files, tmp_path):
    found = calibrated(files, tmp_path, never=["matmul", "nn.conv2d"])
    assert "warning: int8: nothing is quantised: the package computes what float32 does" in STAGE.report(found)
    assert (found.products, found.samples, found.ranges, len(found.kept)) == (0, 0, [], 3)
    imported = classifier()
    request = TransformRequest(precision=PrecisionConfig(base="int8", never=["matmul", "nn.conv2d"]))
    expected = onnx_models.runtime(classifier_onnx(), [IMAGE])[0]
    np.testing.assert_allclose(run(transform(imported.module, imported.params, request, found), IMAGE), expected, 1e-4)


def test_a_network_without_products_is_made_too(tmp_path):
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    module, params = saved(onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 4])}, ["y"], {}), tmp_path)
    found = calibrated(tmp_path, tmp_path)
    assert "int8: no convolutions or matmuls to quantise" in STAGE.report(found)
    made = transform(module, params, TransformRequest(precision=PrecisionConfig(base="int8")), found)
    x = np.array([[0, 0.5, -1, 2]], np.float32)
    np.testing.assert_allclose(run(made, x), np.tanh(x), 1e-5)


def test_a_source_that_is_quantised_already_keeps_its_integers(tmp_path):
    model = quantized_by_onnxruntime(drawn_network(1), 1, tmp_path)
    module, params = saved(model, tmp_path)
    found = calibrated(tmp_path, tmp_path)
    assert any("the source is quantised already" in warning for warning in found.warnings)
    networks = [
        transform(module, params, TransformRequest(precision=PrecisionConfig(base=base)), found)
        for base in ("int8", "float32")
    ]
    assert [calls(made[0], "nn.conv2d")[0].ty.dtype for made in networks] == ["int32"] * 2
    np.testing.assert_array_equal(*(run(made, image(5)) for made in networks))


def test_random_inputs_a_single_sample_and_constants_are_warned_of(files, tmp_path):
    assert "no dataset" in calibrated(files, tmp_path).warnings[0]
    blank = calibrated(files, tmp_path, dataset(tmp_path, np.zeros((1, 3, 8, 8))))
    assert "a single sample" in blank.warnings[0]
    assert "the same value for every sample: image" in blank.warnings[1]
    assert any(line.startswith("warning: int8: ") for line in STAGE.report(blank))


def test_a_nan_is_named_with_tensor_and_sample(files, tmp_path):
    images = np.zeros((3, 3, 8, 8))
    images[2, 0, 0, 0] = np.nan
    with pytest.raises(InputError, match="sample 2: input 'image' has NaN or infinity"):
        calibrated(files, tmp_path, dataset(tmp_path, images))


def test_ranges_of_another_network_are_refused(files, tmp_path):
    found = calibrated(files, tmp_path).model_copy(update={"ranges": []})
    imported = classifier()
    request = TransformRequest(precision=PrecisionConfig(base="int8"))
    with pytest.raises(InputError, match="has 0 ranges for 3 tensors"):
        transform(imported.module, imported.params, request, found)
    other = calibrated(files, tmp_path).model_copy(update={"shifts": [[0.5]]})
    with pytest.raises(InputError, match="corrects other channels"):
        transform(imported.module, imported.params, request, other)


def test_only_int8_is_calibrated():
    with pytest.raises(ValidationError, match="calibration is for base int8"):
        PrecisionConfig(base="float16", calibration={"method": "entropy"})
    with pytest.raises(ValidationError, match="name operators that stay in float32 under never"):
        PrecisionConfig(base="int8", always=["matmul"])
