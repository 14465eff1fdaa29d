"""64-bit Arm programs and packages, emulated, through a real sshd and through adb's protocol."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.configs import device_config
from tests.device.local.test_local import image, inputs_file, own_store  # noqa: F401  # fixtures
from tests.device.rpc.test_rpc import outputs_of
from tests.device.transport.adb_stand_in import AdbServer
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.native.emulated import SAYS_AARCH64, emulated_programs
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tvmake.artifact.package import LIBRARY, MANIFEST, WEIGHTS, pack
from tvmake.config.benchmark import Measurement
from tvmake.device.connect import connect
from tvmake.device.interface import RunRequest
from tvmake.errors import DeviceError

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("shared_servers")]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs for aarch64, each behind a script that emulates it."""
    return emulated_programs(tmp_path_factory.mktemp("arm") / "programs")


@pytest.fixture(scope="module")
def arm_package(static_net: Transformed, tmp_path_factory: pytest.TempPathFactory, programs: Path) -> Path:  # noqa: F811
    directory = tmp_path_factory.mktemp("arm-package")
    built = native.package_for(static_net, directory / "built", native.CORTEX)
    pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, directory / "package.tar")
    return directory / "package.tar"


@pytest.fixture(params=["ssh", "adb"])
def config(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, object]]:
    """A device that says it is aarch64."""
    directory = tmp_path_factory.mktemp("there")
    if request.param == "ssh":
        sshd = Sshd(directory)
        sshd.says("uname", SAYS_AARCH64)
        yield sshd.config()
        sshd.stop()
        return
    server = AdbServer(directory)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    server.add("ARM").says("uname", SAYS_AARCH64)
    yield {"via": "adb", "serial": "ARM"}
    server.close()


def test_an_arm_package_runs_there_and_agrees_with_this_machine(
    config: dict[str, object],
    programs: Path,
    arm_package: Path,
    static_net: Transformed,  # noqa: F811
    tmp_path: Path,
):
    given = inputs_file(tmp_path / "in.npz", image(0))
    there = connect("board", device_config(**config, programs=str(programs), threads=1))
    asked = RunRequest(samples=1, measurement=Measurement(warmup=0, repeat=2))
    result = there.execute(there.push(arm_package), asked, given, tmp_path / "there.npz")
    assert len(result.timing.samples_ms) == 2 and result.fingerprint.details["machine"] == "aarch64"

    here = connect("local", device_config())
    built = native.package_for(static_net, tmp_path / "built")
    pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, tmp_path / "here.tar")
    here.execute(here.push(tmp_path / "here.tar"), RunRequest(samples=1), given, tmp_path / "here.npz")
    ours, theirs = (outputs_of(tmp_path / f"{name}.npz", 1)[0] for name in ("here", "there"))
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_package_for_this_machine_is_refused_by_an_arm_device(
    config: dict[str, object],
    static_net: Transformed,  # noqa: F811
    tmp_path: Path,
):
    built = native.package_for(static_net, tmp_path / "built")
    pack({name: built / name for name in (LIBRARY, MANIFEST, WEIGHTS)}, tmp_path / "here.tar")
    with pytest.raises(DeviceError, match=r"mod.so is code for x86-64, and the device is aarch64"):
        connect("board", device_config(**config)).push(tmp_path / "here.tar")
