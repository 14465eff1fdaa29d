"""Textures need fixed shapes; functions for some shapes compute other batches."""

import platform
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

from tests.codegen.conftest import _transformed
from tests.codegen.test_build import built
from tests.frontend.onnx import models
from tests.native.devices import programs
from tests.native.devices import run as run_program
from tests.native.opencl_device import require_opencl
from tests.targets.adreno_texture.nets import BUFFER, TEXTURE, conv, lowered, tensor
from tests.targets.opencl.test_packages import run
from tests.transform.nets import classifier_onnx
from tvmake.artifact.manifest import Manifest
from tvmake.artifact.other_sizes import other_sizes
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.errors import InputError


def test_dynamic_dimensions_are_refused_by_name_for_textures_only():
    batch = tvm.tirx.Var("batch", "int64")
    inputs = ((batch, 8, 8, 8), "float32"), tensor(8, 8, 3, 3)
    with pytest.raises(InputError, match="the model has the dimensions batch"):
        lowered(lambda x, w: conv(x, w), *inputs)
    assert lowered(lambda x, w: conv(x, w), *inputs, name=BUFFER)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with code for batches of 1 and 8."""
    directory = tmp_path_factory.mktemp("shapes")
    onnx.save(classifier_onnx("batch"), directory / "net.onnx")
    network = _transformed(directory / "net.onnx", directory)
    target = TargetConfig(tag=TEXTURE)
    shapes = [{"batch": 1}, {"batch": 8}]
    request = BuildRequest(model="net", precision="float32", target_name="t", target=target, shapes=shapes)
    return built(network, directory / "package", request)


def classes(images: np.ndarray) -> np.ndarray:
    return models.runtime(classifier_onnx("batch"), [images])[0]


@pytest.mark.parametrize("batch", [1, 3, 5, 8, 11])
def test_any_batch_is_computed_by_the_functions_for_some(package: Path, batch: int):
    images = models.random(batch, 3, 8, 8)
    np.testing.assert_allclose(run(package, images), classes(images), rtol=1e-4, atol=1e-5)


def test_the_manifest_says_how_other_batches_are_computed(package: Path):
    manifest = Manifest.model_validate_json((package / "mod.json").read_bytes())
    assert manifest.signature.shapes == [] and manifest.signature.bounds == {"batch": (1, None)}
    assert [(entry.range, entry.how) for entry in other_sizes(manifest)] == [
        ("batch 2 to 4", "1 at a time"),
        ("batch 5 to 7", "padded to 8"),
        ("batch 9 or more", "8 at a time, and the rest as a smaller size"),
    ]


@pytest.mark.long
def test_the_native_runner_computes_them_too(package: Path, tmp_path: Path):
    require_opencl()
    runner = [str(programs(platform.machine(), with_opencl=True) / "tvmake-run")]
    images = models.random(11, 3, 8, 8)
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        write_array(archive, member("input", "image", 0), images)
    files = ["--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"]
    kept = {"HOME": str(tmp_path), "POCL_CACHE_DIR": str(tmp_path)}
    done = run_program(runner, "--package", package, *files, **kept)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        np.testing.assert_allclose(read_array(archive, member("output", "y", 0)), classes(images), rtol=1e-4, atol=1e-5)
    done = run_program(runner, "--package", package, "--dim", "batch=0", **kept)
    assert done.returncode == 1
    assert done.stderr.endswith("error: inputs: batch is 0 in 'image'; this package takes 1 or more\n")
