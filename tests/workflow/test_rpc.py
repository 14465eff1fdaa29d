"""Whole runs on devices behind a tracker: tuned, validated and timed there, while devices come and go."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.tune.measure.farm import HOST, Farm
from tests.tune.measure.processes import eventually
from tests.workflow.faults import started
from tests.workflow.project import Project, new_project

pytest_plugins = "tests.tune.measure.farm_fixtures"
pytestmark = pytest.mark.long  # two minutes; the transport only: tests/device/rpc, tests/tune/measure

SERVERS = 2
TRIALS = 4
MORE = 10


def remote_project(directory: Path, farm: Farm) -> Project:
    """Digits for this machine's CPU, and on the farm untuned and slightly tuned."""
    project = new_project(directory)
    tuning = {"trials_per_kernel": TRIALS, "rounds": 1, "batch": 4, "population": 16, "cost_model": "random"}
    tuning["measure"] = {"repeat": 1, "min_repeat_ms": 0}
    native = {"kind": "llvm", "mcpu": "native"}
    there = {**native, "device": "phone"}
    phone = {
        "via": "rpc",
        "tracker": f"{HOST}:{farm.port}",
        "key": farm.key,
        "wait_s": HANG_S,
        "session_timeout_s": HANG_S,
    }
    project.write_config(
        {
            **project.config,
            "precisions": ["float32"],
            "targets": {"here": native, "there": there, "tuned": {**there, "tuning": tuning}},
            "devices": {"phone": phone},
            "benchmark": {"repeat": 3, "warmup": 1, "profile_ops": True, "baseline": False},
        }
    )
    return project


@pytest.fixture(scope="module")
def finished_remote(tmp_path_factory: pytest.TempPathFactory, shared_farm: Farm) -> Project:
    """A project that has run once; tests work on copies."""
    project = remote_project(tmp_path_factory.mktemp("rpc") / "project", shared_farm)
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def project(finished_remote: Project, tmp_path: Path) -> Project:
    """A copy, with a copy of the records."""
    shutil.copytree(finished_remote.directory.parent, tmp_path / "copy", symlinks=True)
    return Project(tmp_path / "copy" / "project")


def test_the_same_package_gives_the_same_numerics_there_as_here(finished_remote: Project):
    here, there = (
        finished_remote.result(f"results/digits/float32/{target}/numerics.json") for target in ("here", "there")
    )
    assert there["report"] == here["report"] and there["report"]["passed"]
    assert (there["fingerprint"]["soc"], here["fingerprint"]["soc"] != "phone") == ("phone", True)
    assert finished_remote.result("results/digits/float32/tuned/numerics.json")["report"]["passed"]


def test_every_kernel_is_measured_and_checked_on_the_device(finished_remote: Project):
    receipts = [
        json.loads(data) for data in finished_remote.files("results/tuning/tuned/round1/" + "?" * 64 + ".json").values()
    ]
    assert receipts and {receipt["trials"] for receipt in receipts} == {TRIALS}
    assert {receipt["place"]["device_class"] for receipt in receipts} == {"phone, 1 threads"}
    coverage = finished_remote.result("results/digits/float32/tuned/mod.json")["coverage"]
    assert coverage["tuned"] == coverage["tunable"] == len(receipts)


def test_latency_is_measured_on_the_device_and_names_missing_figures(finished_remote: Project):
    latency = finished_remote.result("results/digits/float32/tuned/latency.json")
    assert len(latency["report"]["samples_ms"]) == 3 and latency["report"]["ops"] == []
    assert latency["report"]["conditions"] == {
        "load_and_first_run": "with the connection: libraries and weights are sent first, unless the server has them",
        "operator_times": "not available over RPC",
    }


def test_a_finished_project_has_nothing_to_do(project: Project):
    assert project.planned_rules() == {}


def receipt_of_one(project: Project, trials: int) -> str:
    """Request more trials of one kernel, each of more than a second; returns its receipt."""
    project.edit("targets.tuned.tuning.trials_per_kernel", trials)
    project.edit("targets.tuned.tuning.measure", {"repeat": 3, "min_repeat_ms": 300})
    (receipt, *_) = project.files("results/tuning/tuned/round1/" + "?" * 64 + ".json")
    return receipt


def is_serving(log: str) -> bool:
    return log.count("start serving") > log.count("finish serving")


def test_a_server_killed_during_a_search_costs_no_trial_and_the_others_continue(farm: Farm, project: Project):
    receipt = receipt_of_one(project, trials=MORE)
    with started(project, "tvmake", "make", receipt) as run:
        eventually(lambda: len(statuses(project, receipt)) > TRIALS)
        server = eventually(lambda: next((server for server in farm.servers if is_serving(farm.log(server))), None))
        farm.lose(server)
        _, err = run.communicate(timeout=HANG_S)
    assert run.returncode == 0, err
    result = project.result(receipt)
    assert (result["trials"], result["measured_now"]) == (MORE, MORE - TRIALS)
    assert result["by_status"].get("device_lost", 0) == 0


@pytest.mark.soak
def test_a_tracker_killed_in_the_middle_is_one_clear_error_and_the_rerun_continues(farm: Farm, project: Project):
    receipt = receipt_of_one(project, trials=MORE)
    project.edit("devices.phone.wait_s", 20)  # time that the run waits for the tracker
    with started(project, "tvmake", "make", receipt) as run:
        eventually(lambda: len(statuses(project, receipt)) > TRIALS)
        farm.lose_tracker()
        _, said = run.communicate(timeout=HANG_S)
    try:
        assert run.returncode != 0
        assert f"device 'phone': no tracker at {HOST}:{farm.port} (connection refused)" in said
        assert "Traceback" not in said
    finally:
        farm.start_tracker()
        eventually(lambda: {*farm.tracker.servers()} == {*farm.servers})
    measured = sum(status != "device_lost" for status in statuses(project, receipt))
    done = project.make(receipt)
    assert done.returncode == 0, done.stderr
    again = project.result(receipt)
    assert (again["trials"], again["measured_now"]) == (MORE, MORE - measured)


def statuses(project: Project, receipt: str) -> list[str]:
    """Of the stored trials of one kernel."""
    (file,) = (project.directory.parent / "home/records").rglob(f"{Path(receipt).stem}/records.jsonl")
    return re.findall(r'"status":"(\w+)"', file.read_text())
