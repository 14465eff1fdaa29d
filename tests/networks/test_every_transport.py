"""ResNet-18 and MobileNetV2, from the zoo to their numerics, on every kind of device and over every transport."""

import json
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.device.local.test_local import own_store  # noqa: F401  # fixtures
from tests.native import devices as native
from tests.native.emulated import EMULATOR, arm_programs
from tests.networks import transports
from tests.networks.by_hand import with_adb, with_the_runner
from tests.networks.pipeline import Network
from tvmake.config.requests.running import DeployRequest, ValidateRequest
from tvmake.config.target import TargetConfig
from tvmake.config.validation import goals_for
from tvmake.stages.results.deploy import deploy
from tvmake.stages.results.validate import validate
from tvmake.validate.numerics import NumericsReport

pytestmark = pytest.mark.long

NETWORKS = {network.name: network for network in (Network("resnet18", 64), Network("mobilenet_v2", 64))}

MEASURED_DB = {
    ("resnet18", "float32"): 105.7,
    ("resnet18", "float16"): 29.1,
    ("resnet18", "float16_acc32"): 46.4,
    ("mobilenet_v2", "float32"): 98.3,
    ("mobilenet_v2", "float16"): 24.0,
    ("mobilenet_v2", "float16_acc32"): 30.4,
}
"""Signal to noise, in dB: all transports came within 1 dB of these, 8 dB and more above the default goals."""

SLACK_DB = 6.0
"""For another processor's reference and schedules: an error twice as large, or half."""

HERE = TargetConfig(tag="x86-64-v3")
BOARD = native.CORTEX
BUFFERS = TargetConfig(tag="adreno-730-buffer")
TEXTURES = TargetConfig(tag="adreno-730-texture", attributes={"texture_spatial_limit": 8192})
"""PoCL's images are as large as the machine's memory lets them be: on small ones half as large as Adreno's."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Network, str, TargetConfig], Path]:
    """Makes a package of a network, once each."""
    made: dict[tuple[str, str, str], Path] = {}

    def make(network: Network, precision: str, target: TargetConfig) -> Path:
        key = (network.name, precision, target.model_dump_json())
        if key not in made:
            made[key] = network.package(precision, target, tmp_path_factory.mktemp("package"))
        return made[key]

    return make


EVERYWHERE = "mobilenet_v2"
"""The network that goes all ways; the other one, four times as large, goes one of each kind of target in the soak."""


SOAK = {
    ("Intel-buffers", "float16"),
    ("Intel-textures", "float16_acc32"),
    ("native-server-aarch64", "float32"),
    ("ssh-aarch64", "float32"),
    ("adb-aarch64", "float32"),
}
"""Pairs of a transport and a precision of which each is in another pair too; tests/device/transport has aarch64."""


def marks(name: str, what: str = "", precision: str = "") -> tuple[pytest.MarkDecorator, ...]:
    """Of the test of a network over a transport."""
    return (pytest.mark.soak,) if name != EVERYWHERE or (what, precision) in SOAK else ()


@pytest.mark.parametrize(
    ("name", "transport", "target", "precision"),
    [
        pytest.param(
            name, transport, target, precision, id=f"{what}-{precision}-{name}", marks=marks(name, what, precision)
        )
        for what, transport, target, precision, names in (
            ("PoCL-buffers", transports.pocl, BUFFERS, "float32", NETWORKS),
            ("PoCL-textures", transports.pocl, TEXTURES, "float32", [EVERYWHERE]),
            ("Intel-buffers", transports.intel, BUFFERS, "float16", [EVERYWHERE]),
            ("Intel-buffers", transports.intel, BUFFERS, "float16_acc32", [EVERYWHERE]),
            ("Intel-textures", transports.intel, TEXTURES, "float16", NETWORKS),
            ("Intel-textures", transports.intel, TEXTURES, "float16_acc32", [EVERYWHERE]),
            ("native-server", transports.rpc, HERE, "float32", NETWORKS),
            ("native-server-aarch64", transports.rpc_arm, BOARD, "float32", [EVERYWHERE]),
            ("ssh", transports.ssh, HERE, "float32", [EVERYWHERE]),
            ("ssh-aarch64", transports.ssh_arm, BOARD, "float32", [EVERYWHERE]),
            ("adb", transports.adb, HERE, "float32", [EVERYWHERE]),
            ("adb-aarch64", transports.adb_arm, BOARD, "float32", [EVERYWHERE]),
        )
        for name in names
    ],
)
def test_the_network_computes_there_what_pytorch_does_here(
    name: str, transport: transports.Transport, target: TargetConfig, precision: str, package, tmp_path: Path
):
    network = NETWORKS[name]
    made = package(network, precision, target)
    with transport(tmp_path) as config:
        there = {"device_name": "there", "device": config}
        deploy(made, DeployRequest(**there), tmp_path / "receipt.json")
        asked = ValidateRequest(goals=goals_for(precision), **there)
        report = validate(made, network.imported() / "reference.npz", asked, tmp_path / "numerics.json")
    assert json.loads((tmp_path / "numerics.json").read_bytes())["report"]["passed"]
    agrees(report, name, precision)


def agrees(report: NumericsReport, name: str, precision: str) -> None:
    """The goals are met, and the figures are those that such a network has."""
    assert report.passed, report.missed
    assert report.repeatable
    assert report.overall.sqnr_db == pytest.approx(MEASURED_DB[name, precision], abs=SLACK_DB)


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in NETWORKS])
@pytest.mark.parametrize("machine", [platform.machine(), "aarch64"])
def test_the_native_runner_alone_computes_what_pytorch_does(name: str, machine: str, package, tmp_path: Path):
    network = NETWORKS[name]
    is_here = machine == platform.machine()
    before, programs = ([], native.programs()) if is_here else (EMULATOR, arm_programs())
    made = package(network, "float32", HERE if is_here else BOARD)
    reference = network.imported() / "reference.npz"
    program = [*before, str(programs / "tvmake-run")]
    agrees(with_the_runner(program, made, reference, goals_for("float32"), tmp_path), name, "float32")


@pytest.mark.parametrize("name", [EVERYWHERE])
def test_the_real_adb_client_brings_and_runs_what_computes_as_pytorch_does(name: str, package, tmp_path: Path):
    network = NETWORKS[name]
    made = package(network, "float32", HERE)
    reference = network.imported() / "reference.npz"
    with transports.phones(tmp_path) as server:
        server.add("PHONE")
        report = with_adb(server, native.programs(), made, reference, goals_for("float32"), tmp_path)
    agrees(report, name, "float32")
