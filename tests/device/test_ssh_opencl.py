"""An OpenCL package over ssh: the OpenCL runtime goes along with the programs."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.device.ssh_server import Sshd
from tests.device.test_local import own_store  # noqa: F401  # fixtures
from tests.native import devices as native
from tests.requirements import require
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack, read_manifest
from tvmake.artifact.tensor_file import member, read_array, write_array
from tvmake.config.benchmark import Measurement
from tvmake.config.device import DeviceConfig
from tvmake.config.target import TargetConfig
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest


@pytest.mark.slow
def test_an_opencl_package_agrees_with_the_cpus(tmp_path: Path):
    require(list(Path("/etc/OpenCL/vendors").glob("*.icd")), "an OpenCL device (apt-get install pocl-opencl-icd)")
    net = native.digits(tmp_path / "net")
    sshd = Sshd(tmp_path / "sshd")
    device = connect("board", DeviceConfig(**sshd.config()))
    outputs, kinds = [], []
    try:
        for kind in ("opencl", "llvm"):
            built = native.package_for(net, tmp_path / kind, TargetConfig(kind=kind))
            package = tmp_path / f"{kind}.tar"
            pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, package)
            (spec,) = read_manifest((built / MANIFEST).read_bytes(), kind).signature.inputs
            with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
                value = np.random.default_rng(0).random((1, 1, 8, 8)).astype("float32")
                write_array(archive, member("input", spec.name, 0), value)
            asked = RunRequest(samples=1, measurement=Measurement(repeat=1, warmup=0))
            result = device.execute(device.push(package), asked, tmp_path / "in.npz", tmp_path / "out.npz")
            kinds.append(result.fingerprint.kind)
            with zipfile.ZipFile(tmp_path / "out.npz") as archive:
                outputs.append(read_array(archive, archive.namelist()[0]))
    finally:
        sshd.stop()
    assert kinds == ["opencl", "cpu"]
    assert np.allclose(*outputs, atol=1e-5)
