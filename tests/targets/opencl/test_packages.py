"""Networks imported, transformed and built by the stages, and run from their packages on an OpenCL device."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm

from tests.networks.unpacked import build_unpacked
from tests.requirements import hint, require
from tvmake.artifact.manifest import Manifest
from tvmake.codegen.options import BuildOptions
from tvmake.config.requests.building import BuildRequest
from tvmake.config.target import TargetConfig
from tvmake.frontend.options import ImportOptions
from tvmake.native.backend import opencl_library
from tvmake.quantize.precision import PrecisionConfig
from tvmake.stages.model.import_model import import_model
from tvmake.stages.model.transform import transform_model
from tvmake.transform.options import TransformRequest

DIGITS = Path(__file__).parents[3] / "resources/digits.onnx"

NAMES = ("model.json", "model.params", "signature.json", "source.json", "module.json", "module.params", "bound.json")


class Network:
    """A network's stage files, and packages built from them."""

    def __init__(self, source: str, directory: Path, dims: dict[str, int], precision: str = "float32"):
        self.directory = directory
        self.precision = precision
        imported, transformed = [directory / name for name in NAMES[:4]], [directory / name for name in NAMES[4:]]
        import_model(ImportOptions(source=source), *imported)
        request = TransformRequest(precision=PrecisionConfig(base=precision), dims=dims)
        transform_model(*imported[:3], request, *transformed)
        self.stage = transformed

    def package(self, tag: str) -> Path:
        """The directory of a package for a target."""
        directory = self.directory / tag
        request = BuildRequest(
            model="net",
            precision=self.precision,
            target_name=tag,
            target=TargetConfig(tag=tag),
            build=BuildOptions(dump=["kernels"]),
        )
        return build_unpacked(*self.stage, request, directory)


def first_device() -> "tvm.runtime.Device":
    """The first OpenCL device."""
    opencl_library()
    device = tvm.device("opencl", 0)
    require(device.exist, hint("PoCL"))
    return device


def run(package: Path, value: np.ndarray, on: "tvm.runtime.Device | None" = None) -> np.ndarray:
    """Run a package like any other."""
    device = on or first_device()
    manifest = Manifest.model_validate_json((package / "mod.json").read_bytes())
    weights = tvm.runtime.load_param_dict_from_file(str(package / "mod.params"))
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(package / "mod.so")), device)
    params = [tvm.runtime.tensor(weights[one.name].numpy(), device) for one in manifest.parameters]
    machine.set_input("main", tvm.runtime.tensor(value, device), *params)
    machine.invoke_stateful("main")
    got = machine.get_outputs("main")
    return (got if isinstance(got, tvm.runtime.Tensor) else got[0]).numpy()


@pytest.fixture(scope="module")
def session():
    return onnxruntime.InferenceSession(DIGITS)


@pytest.fixture(scope="module")
def image(session):
    shape = [extent if isinstance(extent, int) else 1 for extent in session.get_inputs()[0].shape]
    return np.random.default_rng(0).random(shape, np.float32)


def dims(session):
    return {str(extent): 1 for extent in session.get_inputs()[0].shape if not isinstance(extent, int)}


@pytest.mark.parametrize("tag", ["adreno-730-buffer", "adreno-730-texture"])
def test_the_demo_computes_on_opencl_what_onnxruntime_does(tag, session, image, tmp_path):
    network = Network(str(DIGITS), tmp_path, dims(session))
    want = session.run(None, {session.get_inputs()[0].name: image})[0]
    np.testing.assert_allclose(run(network.package(tag), image), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["float16", "float16_acc32"])
@pytest.mark.parametrize("tag", ["adreno-730-buffer", "adreno-730-texture"])
def test_the_demo_has_packages_in_float16(tag, precision, session, tmp_path):
    directory = Network(str(DIGITS), tmp_path, dims(session), precision).package(tag)
    kernels = "".join(file.read_text() for file in (directory / "sources/kernels").iterdir())
    assert "cl_khr_fp16" in kernels
    assert ("write_imageh" in kernels) == (tag.endswith("texture") and "image2d" in kernels)


def test_a_clml_package_comes_with_the_report_of_what_clml_takes_and_runs_without_it(session, image, tmp_path):
    directory = Network(str(DIGITS), tmp_path, dims(session)).package("adreno-730-clml")
    assert (directory / "sources/clml/offload.json").is_file()
    assert list((directory / "sources/clml").glob("clml*.json"))
    want = session.run(None, {session.get_inputs()[0].name: image})[0]
    np.testing.assert_allclose(run(directory, image), want, rtol=1e-4, atol=1e-4)
