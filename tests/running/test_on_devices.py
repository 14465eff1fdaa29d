"""`tvmake run` on a device that no config names: its address is enough, and the package is brought there."""

from pathlib import Path

import numpy as np
import pytest

from tests.codegen.conftest import dynamic_net, static_net  # noqa: F401  # fixtures
from tests.device.local.test_local import package  # noqa: F401  # fixtures
from tests.native.devices import share_builds
from tests.process.fixtures import shared_servers  # noqa: F401  # a fixture
from tests.tune.measure.farm import HOST, Farm
from tvmake.cli import run as command

pytest_plugins = "tests.tune.measure.farm_fixtures"
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("patience", "shared_servers")]

SERVERS = 1


def test_a_server_gives_what_this_machine_gives(
    farm: Farm,
    package: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    share_builds(tmp_path / "home")
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    address = f"rpc:{HOST}:{farm.port}/{farm.key}"
    assert command(["run", str(package), "--fill", "ones", "-o", "there.npz", "-D", address, "--profile"]) == 0
    assert "note: kernels cannot be timed on this device" in capfd.readouterr().err
    assert command(["run", str(package), "--fill", "ones", "-o", "here.npz"]) == 0
    with np.load("there.npz") as there, np.load("here.npz") as here:
        assert there.files == here.files
        assert all(np.allclose(there[name], here[name], rtol=1e-5, atol=1e-6) for name in here.files)
