"""A whole run on a phone and a board: tuned, validated and timed there, through what users type."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.codegen.conftest import Transformed, static_net  # noqa: F401  # fixtures
from tests.device.conditioning.test_conditioning import GOVERNORS, Machine
from tests.device.transport.adb_stand_in import AdbServer
from tests.device.transport.ssh_server import Sshd
from tests.native import devices as native
from tests.tune.measure.processes import eventually
from tests.workflow.project import new_project


@pytest.fixture
def phones(tmp_path: Path) -> Iterator[AdbServer]:
    server = AdbServer(tmp_path / "phones")
    yield server
    server.close()


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    server = Sshd(tmp_path / "sshd")
    yield server
    server.stop()


@pytest.mark.long
def test_a_network_is_tuned_on_a_phone_and_runs_on_a_board(
    static_net: Transformed,  # noqa: F811
    phones: AdbServer,
    sshd: Sshd,
    tmp_path: Path,
):
    phone = phones.add("R58M123")
    Machine(phone.root)
    project = new_project(tmp_path / "project")
    project.environment = phones.environment
    shutil.copy(static_net.module.with_name("net.onnx"), project.directory)
    tuning = {"trials_per_kernel": 4, "rounds": 1, "batch": 4, "population": 16, "cost_model": "random"}
    tuning["measure"] = {"repeat": 1, "min_repeat_ms": 0}
    programs = str(native.programs())
    processor = {"kind": "llvm", "mcpu": "native"}
    project.write_config(
        {
            "models": {"net": {"source": "net.onnx"}},
            "precisions": ["float32"],
            "targets": {
                "phone": {**processor, "device": "phone", "tuning": tuning},
                "board": {**processor, "device": "board"},
            },
            "devices": {
                "phone": {
                    "via": "adb",
                    "programs": programs,
                    "threads": 1,
                    "conditioning": {"governor": "performance", "below_c": 60},
                },
                "board": sshd.config(programs=programs, soc="Board"),
            },
            "benchmark": {"repeat": 3, "warmup": 1},
        }
    )
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    coverage = project.result("results/net/float32/phone/mod.json")["coverage"]
    assert coverage["tuned"] == coverage["tunable"] > 0
    for target in ("phone", "board"):
        assert project.result(f"results/net/float32/{target}/numerics.json")["report"]["passed"]
    phone_latency = project.result("results/net/float32/phone/latency.json")
    conditions = phone_latency["report"]["conditions"]
    assert (conditions["governor"], conditions["throttled"]) == ("performance", "no")
    assert conditions["temperature_before"] == "41.5 °C (cpu-thermal)"
    eventually(lambda: phone.path(GOVERNORS[0]).read_text() == "schedutil")
    assert phone_latency["fingerprint"]["soc"] == "QTI SM8550"
    assert phone_latency["fingerprint"]["details"]["gpu_driver"] == "V@0676.42"
    board = project.result("results/net/float32/board/latency.json")
    assert (board["fingerprint"]["soc"], board["report"]["conditions"]["device"]) == ("Board", sshd.host)
    receipts = [
        json.loads(data) for data in project.files("results/tuning/phone/round1/" + "?" * 64 + ".json").values()
    ]
    assert {receipt["place"]["device_class"] for receipt in receipts} == {"QTI SM8550, 1 threads"}
    assert phones.forwards == {} and phones.reverses == {}
    assert project.planned_rules() == {}
