"""The import records whether a source is quantised; the package and its goals use this fact."""

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnxruntime.quantization import QuantType
from torch import Tensor, nn

from tests.frontend.onnx import models as onnx_models
from tests.quantize.nets import drawn_network, image, quantized_by_onnxruntime, quantized_dynamically
from tvmake import Package
from tvmake.artifact import stage_json
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.module_files import load_module
from tvmake.config.requests.building import BuildRequest, ExportRequest
from tvmake.config.requests.running import ValidateRequest
from tvmake.config.target import TargetConfig
from tvmake.config.validation import Goals, default_goals
from tvmake.frontend.options import ImportOptions
from tvmake.frontend.torch.importer import read
from tvmake.quantize.precision import PrecisionConfig
from tvmake.quantize.source.rounding import is_source_in_integers, is_source_quantized, note_quantized_source
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.stages.package.build import build
from tvmake.stages.package.export import export
from tvmake.transform.options import TransformRequest
from tvmake.validate.numerics import compare


def imported(model: onnx.ModelProto, place):
    onnx_models.save(place / "net.onnx", model)
    written = [place / name for name in ("model.json", "model.params", "signature.json", "source.json")]
    import_model(ImportOptions(source=str(place / "net.onnx")), *written)
    return written


def is_quantized(model: onnx.ModelProto, place) -> bool:
    return is_source_quantized(load_module(imported(model, place)[0]))


@pytest.mark.parametrize("seed", range(3))
def test_a_network_that_rounds_its_activations_is_quantised(seed, tmp_path):
    network = drawn_network(seed)
    assert not is_quantized(network, tmp_path)
    assert is_quantized(quantized_by_onnxruntime(network, seed, tmp_path), tmp_path)


def test_a_network_with_dynamic_scales_is_quantised(tmp_path):
    assert is_quantized(quantized_dynamically(drawn_network(0), QuantType.QUInt8, False, tmp_path), tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_bfloat16_network_rounds_and_has_no_integers(dtype):
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.to(dtype) * 3).exp().float()

    read_in = read(torch.export.export(Net(), (torch.zeros(2, 3),)), ImportOptions(source="net"))
    noted = note_quantized_source(read_in.module, 1, framework_rounds=False)
    assert is_source_quantized(noted) is (dtype is torch.bfloat16)
    assert not is_source_in_integers(noted)


def test_a_network_with_only_narrow_weights_is_not_quantised(tmp_path):
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["real"], axis=1),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    constants = {"w": np.arange(32, dtype=np.int8).reshape(8, 4), "scale": np.full(4, 0.5, np.float32)}
    model = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 8])}, ["y"], constants)
    assert not is_quantized(model, tmp_path)


def test_the_package_of_a_quantised_network_has_the_goals_of_int8(tmp_path):
    model = quantized_by_onnxruntime(drawn_network(1), 1, tmp_path)
    files = imported(model, tmp_path)
    made = [tmp_path / name for name in ("module.json", "module.params", "bound.json")]
    transform_model(*files[:3], TransformRequest(precision=PrecisionConfig(base="float32")), *made)
    built = [tmp_path / name for name in ("mod.so", "mod.json", "packing.json")]
    request = BuildRequest(
        model="net", precision="float32", target_name="cpu", target=TargetConfig(kind="llvm", mcpu="native")
    )
    build(*made, request, *built, tmp_path / "sources")
    assert stage_json.load(Manifest, built[1]).is_source_quantized
    export(*built, made[1], ExportRequest(), tmp_path / "package.tar")

    package = Package(tmp_path / "package.tar")
    expected = onnx_models.runtime(model, [image(7)])[0]
    noise = np.random.default_rng(0).standard_normal(expected.shape) * expected.std() * 0.03
    near = (expected + noise).astype(np.float32)
    report = package.validate(near, image(7))
    assert 10 < report.overall.sqnr_db < 40
    assert report.passed
    assert not package.validate(near, image(7), goals={"sqnr_db": 60}).passed


def test_explicit_goals_apply_to_a_quantised_source_unchanged():
    request = ValidateRequest(goals=Goals(sqnr_db=60), quantized_goals=Goals(sqnr_db=10))
    assert (request.goals_of(True).sqnr_db, request.goals_of(False).sqnr_db) == (10, 60)
    assert ValidateRequest(goals=Goals(sqnr_db=8)).goals_of(True).sqnr_db == 8


@pytest.mark.parametrize(("operator", "rounds"), [("Round", True), ("ArgMax", False)])
def test_bytes_that_a_network_rounds_from_float16_may_be_one_step_apart(tmp_path, operator, rounds):
    half, byte = onnx.TensorProto.FLOAT16, onnx.TensorProto.UINT8
    last = helper.make_node("Round", ["h"], ["r"]) if operator == "Round" else helper.make_node("ArgMax", ["h"], ["r"])
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=half),
        helper.make_node("Mul", ["f", "k"], ["h"]),
        last,
        helper.make_node("Cast", ["r"], ["b"], to=byte),
        helper.make_node("Transpose", ["b"], ["y"]),
    ]
    model = onnx_models.model(nodes, {"x": (byte, [4, 8])}, ["y"], {"k": np.float16([0.3])})
    assert is_quantized(model, tmp_path) is rounds
    goals, other = default_goals("float16", rounds), default_goals("float16")
    expected = np.arange(100, dtype=np.uint8)
    rarely = np.arange(100) % 10 == 0
    apart, off, biased = expected + rarely, expected + 2 * rarely, expected + 1
    passes = [
        compare([({"y": expected}, {"y": got.astype(np.uint8)}, None)], goals).passed for got in (apart, off, biased)
    ]
    assert passes == [rounds, False, False]
    assert not compare([({"y": expected}, {"y": apart.astype(np.uint8)}, None)], other).passed
