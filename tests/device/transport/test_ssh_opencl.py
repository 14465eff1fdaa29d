"""An OpenCL package over ssh: the OpenCL runtime goes along with the programs."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store  # noqa: F401  # fixtures
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.requirements import need
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, read_manifest
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.benchmark import Measurement
from tvmake.config.target import TargetConfig
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.errors import DeviceError


def test_a_device_without_opencl_and_one_whose_driver_refuses_a_kernel(tmp_path: Path, programs: Path, opencl: Path):
    sshd = Sshd(tmp_path / "sshd")
    try:
        lines = []
        for env in ({"OCL_ICD_VENDORS": str(tmp_path)}, {"POCL_MAX_WORK_GROUP_SIZE": "4"}):
            device = connect("board", device_config(**sshd.config(env=env, programs=str(programs))))
            with pytest.raises(DeviceError) as caught:
                device.execute(
                    device.push(opencl), RunRequest(samples=1), inputs_file(tmp_path / "in.npz", image()), None
                )
            lines.append([line.strip() for line in str(caught.value).splitlines()])
    finally:
        sshd.stop()
    where = f"device 'board' ({sshd.host})"
    assert lines[0] == [
        f"{where}: it has no opencl device",
        "it needs its driver, and a runtime library for it beside this program",
    ]
    assert lines[1][0].startswith(f"{where}: cannot launch kernel '")
    assert lines[1][1] == "have schedules use fewer threads: set targets.t.attributes.max_num_threads to 4 or less"


@pytest.fixture
def programs() -> Path:
    need("PoCL")
    return native.programs(with_opencl=True)


@pytest.fixture
def opencl(static_net: Transformed, tmp_path: Path) -> Path:  # noqa: F811
    built = native.package_for(static_net, tmp_path / "opencl", TargetConfig(kind="opencl"))
    pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, tmp_path / "opencl.tar")
    return tmp_path / "opencl.tar"


@pytest.mark.long
def test_an_opencl_package_agrees_with_the_cpus(static_net: Transformed, tmp_path: Path):  # noqa: F811
    need("PoCL")
    sshd = Sshd(tmp_path / "sshd")
    device = connect("board", device_config(**sshd.config()))
    outputs, kinds = [], []
    try:
        for kind in ("opencl", "llvm"):
            built = native.package_for(static_net, tmp_path / kind, TargetConfig(kind=kind))
            package = tmp_path / f"{kind}.tar"
            pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, package)
            (spec,) = read_manifest((built / MANIFEST).read_bytes(), kind).signature.inputs
            with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
                value = np.random.default_rng(0).random((1, 3, 8, 8)).astype("float32")
                write_array(archive, member("input", spec.name, 0), value)
            request = RunRequest(samples=1, measurement=Measurement(repeat=1, warmup=0))
            result = device.execute(device.push(package), request, tmp_path / "in.npz", tmp_path / "out.npz")
            kinds.append(result.fingerprint.kind)
            with zipfile.ZipFile(tmp_path / "out.npz") as archive:
                outputs.append(read_array(archive, archive.namelist()[0]))
    finally:
        sshd.stop()
    assert kinds == ["opencl", "cpu"]
    assert np.allclose(*outputs, atol=1e-5)
