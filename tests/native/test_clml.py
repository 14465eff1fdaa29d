"""Layers by CLML, against a stand-in for Qualcomm's library: format, dispatch, numbers, and what runs without it."""

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.native import clml
from tests.native.clml_layers import CASES
from tests.native.devices import programs
from tests.patience import HANG_S
from tvmake.artifact.tensor_file import member, read_array, write_array

DIGITS = Path(__file__).parents[2] / "resources/digits.onnx"

BOUNDS = {"float32": 1e-6, "float16": 1e-3}
"""Of differences, by the largest value."""


@pytest.fixture(scope="module")
def layers() -> dict[tuple[str, str], dict[str, Any]]:
    """The results of all layers, by type and name."""
    code = "import sys, runpy; sys.argv[0] = ''; runpy.run_module('tests.native.clml_layers', run_name='__main__')"
    rows = json.loads(clml.run_python(code).splitlines()[-1])
    return {(dtype, name): row for dtype, name, row in rows}


@pytest.mark.parametrize(("dtype", "name"), CASES)
def test_a_layer_by_clml_gives_what_tvm_gives(layers: dict[tuple[str, str], dict[str, Any]], dtype: str, name: str):
    row = layers[dtype, name]
    assert (row["clml"], row["why_not"]) == ("4.0", "")
    assert row["error"] <= BOUNDS[dtype]
    assert row["layers"] == len(row["patterns"]) > 0


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's package for CLML, by the stages that make it."""
    code = """
import sys
from pathlib import Path
from tests.targets.opencl.test_packages import DIGITS, Network
print(Network(str(DIGITS), Path(sys.argv[1]), {}).package("adreno-730-clml"))
"""
    printed = clml.run_python(code, tmp_path_factory.mktemp("clml"))
    return Path(printed.splitlines()[-1])


@pytest.fixture(scope="module")
def image() -> np.ndarray:
    return np.random.default_rng(0).random((1, 1, 8, 8), np.float32)


def run(
    package: Path, image: np.ndarray, directory: Path, **settings: str
) -> tuple[np.ndarray, dict[str, Any], list[str]]:
    """A package's output by tvmake-run, its result, and the layers that CLML computed."""
    inputs, outputs, result, log = (directory / name for name in ("in.npz", "out.npz", "result.json", "log"))
    (name,) = [tensor["name"] for tensor in json.loads((package / "mod.json").read_text())["signature"]["inputs"]]
    with zipfile.ZipFile(inputs, "w") as archive:
        write_array(archive, member("input", name, 0), image)
    command = [str(programs() / "tvmake-run"), "--package", str(package), "--inputs", str(inputs), "--runs", "1"]
    command += ["--outputs", str(outputs), "--result", str(result), "--load-library", str(clml.runtime())]
    environment = clml.environment(FAKE_CLML_LOG=str(log), **settings)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(outputs) as archive:
        (value,) = (read_array(archive, name) for name in archive.namelist())
    computed = log.read_text().split() if log.exists() else []
    return value, json.loads(result.read_text())["timing"]["conditions"], computed


def reference(image: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(DIGITS)
    return session.run(None, {session.get_inputs()[0].name: image})[0]


def test_a_package_says_which_layers_and_bytes_are_clmls(package: Path):
    manifest = json.loads((package / "mod.json").read_text())
    parts = manifest["clml"]
    weights = {entry["name"]: int(np.prod(entry["shape"])) * 4 for entry in manifest["parameters"]}
    assert parts and all(part["layers"] for part in parts)
    for part in parts:
        assert part["weight_bytes"] >= sum(weights[name] for name in part["weights"]) > 0
    report = json.loads((package / "sources/clml/offload.json").read_text())
    assert report["is_compiled"] and sum(len(part["layers"]) for part in parts) == len(
        [layer for layer in report["layers"] if layer["offloaded_to"]]
    )


def test_a_package_runs_its_layers_by_clml_and_the_result_says_so(package: Path, image: np.ndarray, tmp_path: Path):
    value, conditions, computed = run(package, image, tmp_path)
    np.testing.assert_allclose(value, reference(image), rtol=1e-4, atol=1e-4)
    parts = json.loads((package / "mod.json").read_text())["clml"]
    count = sum(len(part["layers"]) for part in parts)
    assert len(computed) % count == 0 and computed[:count] == computed[-count:]  # in each run
    assert conditions["clml"] == f"{len(parts)} of {len(parts)} parts by CLML 4.0"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"FAKE_CLML_VERSIONS": "9.0"}, "the driver has CLML 9.0, and this program knows 1 to 4"),
        ({"FAKE_CLML_VERSIONS": ""}, "the driver's library lacks CLML"),
        ({"TVMAKE_OPENCL_LIBRARY": "libOpenCL.so.1"}, "does not have cl_qcom_ml_ops"),
        ({"FAKE_CLML_REFUSE": "conv2d"}, "refuses openclml."),
    ],
)
def test_without_clml_the_same_package_runs_kernels(
    settings: dict[str, str], why: str, package: Path, image: np.ndarray, tmp_path: Path
):
    value, conditions, _ = run(package, image, tmp_path, **settings)
    np.testing.assert_allclose(value, reference(image), rtol=1e-4, atol=1e-4)
    assert why in conditions["clml"]


@pytest.mark.parametrize("version", ["1.0", "2.0", "3.0"])
def test_older_versions_of_the_interface_are_used_if_the_driver_has_no_newer(
    version: str, package: Path, image: np.ndarray, tmp_path: Path
):
    value, conditions, computed = run(package, image, tmp_path, FAKE_CLML_VERSIONS=version)
    np.testing.assert_allclose(value, reference(image), rtol=1e-4, atol=1e-4)
    assert conditions["clml"].endswith(f"by CLML {version}") and computed


def test_weights_that_are_set_again_are_used(tmp_path: Path):
    code = """
import json, numpy as np, tvm, tvm_ffi
from tests.native.clml_layers import graph_json, part_of
function, _ = part_of("dense", "float32")
module = tvm_ffi.get_global_func("tvmake.clml.create")("layer", *graph_json(function))
device = tvm.device("opencl", 0)
x = tvm.runtime.tensor(np.ones((3, 8), "float32"), device)
sums = []
for value in (1.0, 2.0):
    weight = tvm.runtime.tensor(np.full((8, 5), value, "float32"), device)
    result = tvm.runtime.empty((3, 5), "float32", device)
    assert module["layer_ready"](x, weight)
    module["layer"](x, weight, result)
    sums.append(float(result.numpy().max()))
print(json.dumps(sums))
"""
    assert json.loads(clml.run_python(code).splitlines()[-1]) == [8.0, 16.0]


def test_an_sdk_without_its_header_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tvmake.errors import MachineError
    from tvmake.native.compile import build
    from tvmake.native.parts import find_built

    monkeypatch.setenv("TVMAKE_CLML_SDK", str(tmp_path))
    with pytest.raises(MachineError, match=r"has no CL/cl_qcom_ml_ops\.h"):
        build("opencl")
    assert find_built("opencl") is None
