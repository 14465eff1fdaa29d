"""OpenCL packages on a device that is not there, cannot run them, or refuses their kernels: PoCL, made smaller than it is."""

from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.codegen.test_build import built, request
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, local, own_store  # noqa: F401  # fixtures
from tests.native.opencl_device import POCL, library
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, read_manifest
from tvmake.config.requests.running import DeployRequest
from tvmake.config.target import TargetConfig
from tvmake.device.interface import RunRequest
from tvmake.device.local.device import LocalDevice
from tvmake.errors import DeviceError
from tvmake.stages.results.deploy import deploy

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def opencl() -> dict[str, str]:
    """What a process needs to see PoCL, and nothing else, through the runtime library where it was built."""
    return {"TVMAKE_HOME": str(library().parents[2]), "TVMAKE_OPENCL_PLATFORM": POCL}


@pytest.fixture(scope="module")
def files(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    directory = tmp_path_factory.mktemp("opencl")
    return built(static_net, directory / "built", request(TargetConfig(kind="opencl")))


def packed(files: Path, directory: Path) -> Path:
    pack({name: files / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, directory / "package.tar")
    return directory / "package.tar"


def lines_of(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines()]


def pocl(env: dict[str, str], **more: str) -> LocalDevice:
    return local(env={**env, **more})


def test_a_package_is_not_deployed_to_a_machine_without_opencl(opencl: dict[str, str], files: Path, tmp_path: Path):
    config = device_config(env={**opencl, "OCL_ICD_VENDORS": str(tmp_path)})
    receipt = tmp_path / "receipt.json"
    with pytest.raises(DeviceError) as caught:
        deploy(packed(files, tmp_path), DeployRequest(device_name="local", device=config), receipt)
    assert lines_of(caught.value) == [
        "this machine: there is no opencl device",
        "`tvmake doctor` lists this machine's; or give the target another device",
    ]
    assert not receipt.exists()


def test_a_float16_package_is_not_deployed_to_a_device_that_says_it_has_none(
    opencl: dict[str, str], files: Path, tmp_path: Path
):
    manifest = read_manifest((files / MANIFEST).read_bytes(), "test")
    half = [parameter.model_copy(update={"dtype": "float16"}) for parameter in manifest.parameters]
    there = tmp_path / "half"
    there.mkdir()
    for name in (LIBRARY, WEIGHTS):
        (there / name).symlink_to(files / name)
    (there / MANIFEST).write_text(manifest.model_copy(update={"parameters": half}).sealed().model_dump_json())
    asked = DeployRequest(device_name="local", device=device_config(env=opencl))
    with pytest.raises(DeviceError, match=r"targets\.t: the device '.*' does not compute in float16"):
        deploy(packed(there, tmp_path), asked, tmp_path / "receipt.json")
    deploy(packed(files, tmp_path), asked, tmp_path / "receipt.json")


def test_a_kernel_that_the_driver_refuses_is_named_with_another_way(
    opencl: dict[str, str],
    files: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
):
    small = pocl(opencl, POCL_MAX_WORK_GROUP_SIZE="4")
    deployment = small.push(packed(files, tmp_path))
    given = inputs_file(tmp_path / "in.npz", image())
    with pytest.raises(DeviceError) as caught:
        small.execute(deployment, RunRequest(samples=1), given, None)
    problem, remedy = lines_of(caught.value)
    assert problem.startswith("device 'local': cannot launch kernel '")
    assert problem.endswith("CL_INVALID_WORK_GROUP_SIZE (-54)")
    assert remedy == "have schedules use fewer threads: set targets.t.attributes.max_num_threads to 4 or less"
    assert "native/opencl" in capfd.readouterr().err, "the log has all of it"
    pocl(opencl).execute(deployment, RunRequest(samples=1), given, None)
