"""The source model in its own framework, measured alternately in a separate process."""

from pathlib import Path

import numpy as np
import pytest

from tests.requirements import need_module
from tests.validate.test_reference import RESOURCES, XY, digit_images, digits, tflite_relu
from tvmake.artifact.signature import Signature
from tvmake.benchmark.baseline.process import baseline_process
from tvmake.benchmark.baseline.result import Baseline, NoBaseline
from tvmake.config.benchmark import Measurement
from tvmake.config.device import LocalDeviceConfig
from tvmake.config.requests.running import BenchmarkRequest
from tvmake.device.sharing.turns import Partner
from tvmake.frontend.options import ImportOptions
from tvmake.validate.reference.stored import ReferenceSample, ReferenceSetInfo, write_reference_set

DIGIT = digit_images(1)[0]


def measure(
    tmp_path: Path,
    source: Path,
    signature: Signature | None = None,
    inputs: dict[str, np.ndarray] = DIGIT,
    *,
    threads: int = 1,
    turns: int = 5,
    **environment: str,
) -> Baseline | NoBaseline:
    """What is measured beside a package's process, for which this one stands."""
    signature = signature or digits()
    outputs = {spec.name: np.zeros(1, "float32") for spec in signature.outputs}
    info = ReferenceSetInfo(signature=signature, runtime="-", data="dataset", seed=0)
    write_reference_set(tmp_path / "reference.npz", info, [ReferenceSample(inputs, outputs, None)])
    request = BenchmarkRequest(
        device_name="local",
        device=LocalDeviceConfig(),
        measurement=Measurement(warmup=1, repeat=20),
        baseline=ImportOptions(source=str(source)),
    )
    with baseline_process(request, tmp_path / "reference.npz", environment) as process:
        partner = Partner(process.address, request.measurement)
        partner.begin(threads)
        for _ in range(turns):
            partner.pass_on()
        partner.close()
        return process.result()


def test_onnx_models_run_in_onnx_runtime(tmp_path: Path):
    found = measure(tmp_path, RESOURCES / "digits.onnx", threads=2)
    assert isinstance(found, Baseline)
    assert found.framework.startswith("onnxruntime ")
    assert (found.threads, len(found.samples_ms), found.statistics.samples) == (2, 20, 20)
    assert min(found.samples_ms) > 0


def test_exported_programs_run_in_torch(tmp_path: Path):
    need_module("torch", "pip install 'tvmake[torch]'")
    found = measure(tmp_path, RESOURCES / "digits.pt2", digits("output"), turns=2)
    assert isinstance(found, Baseline)
    assert found.framework.startswith("torch ")
    assert len(found.samples_ms) == 8


def test_tflite_models_run_in_litert(tmp_path: Path):
    path = tflite_relu(tmp_path / "relu.tflite")
    found = measure(tmp_path, path, XY, {"x": np.ones((4, 3), "float32")}, turns=1)
    assert isinstance(found, Baseline)
    assert found.framework.startswith("ai-edge-litert ")
    assert len(found.samples_ms) == 4


def without_onnxruntime(tmp_path: Path, text: str) -> str:
    """A directory whose ``onnxruntime`` is this."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "onnxruntime.py").write_text(text)
    return str(tmp_path / "libraries")


def test_a_framework_that_is_not_installed_is_named_with_what_installs_it(tmp_path: Path):
    libraries = without_onnxruntime(tmp_path, "raise ModuleNotFoundError('onnxruntime')\n")
    found = measure(tmp_path, RESOURCES / "digits.onnx", PYTHONPATH=libraries)
    assert found == NoBaseline(problem="onnxruntime is not installed", remedy="`pip install onnxruntime`")


def test_a_framework_that_crashes_ends_its_own_process_only(tmp_path: Path):
    libraries = without_onnxruntime(tmp_path, "import os\nos.abort()\n")
    found = measure(tmp_path, RESOURCES / "digits.onnx", PYTHONPATH=libraries)
    assert isinstance(found, NoBaseline)
    assert "SIGABRT" in found.problem


def test_a_model_that_the_framework_refuses_is_named_in_one_line(tmp_path: Path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07" * 20)
    found = measure(tmp_path, tmp_path / "broken.onnx")
    assert isinstance(found, NoBaseline)
    assert found.problem.startswith("ONNX Runtime cannot load it: ")
    assert "\n" not in found.problem


def test_without_a_turn_there_is_no_figure(tmp_path: Path):
    found = measure(tmp_path, RESOURCES / "digits.onnx", turns=0)
    assert isinstance(found, NoBaseline)


def test_a_long_name_of_the_temporary_directory_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    directory = tmp_path / ("long" * 40)
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    assert isinstance(measure(tmp_path, RESOURCES / "digits.onnx", turns=1), Baseline)
