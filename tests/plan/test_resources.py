"""Resources of jobs: memory, time, cores, devices."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Budget, KernelBudget
from tvmake.config.reading.load import check, merge
from tvmake.plan.plan import Plan
from tvmake.plan.resources import JobResources
from tvmake.stages.registry import stages

TEXT = """
models:
  small: {source: small.onnx}
  large: {source: large.onnx}
precisions: [float32]
targets:
  cpu: {kind: llvm, mcpu: native}
  board: {kind: llvm, mcpu: generic, device: phone}
devices:
  phone: {via: ssh, host: board.local, gres: "phone:1", timeout_s: 1200, wait_s: 600}
"""

WORKLOAD = "0" * 64


def plan(overlay: str = "") -> Plan:
    return Plan(check(merge(yaml.safe_load(TEXT), yaml.safe_load(overlay) or {}), {}))


def needs(overlay: str = "", on_cluster: bool = False, cores: int | None = 8) -> JobResources:
    return JobResources(plan(overlay), cores, lambda: on_cluster)


def job(model: str = "small", target: str = "cpu") -> SimpleNamespace:
    return SimpleNamespace(model=model, precision="float32", target=target, number="1", workload=WORKLOAD)


def plan_round(trials: int) -> None:
    """Write the budget of the first round, for one kernel."""
    kernels = {WORKLOAD: KernelBudget(name="conv2d", trials=trials, users=["small/float32"])}
    budget = Path(plan().file("budget.json", target="cpu", number=1))
    stage_json.save(Budget(target_name="cpu", number=1, kernels=kernels, trials_shared=0), budget)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a small model, and one of 200 MB that is sparse on disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.onnx").touch()
    with (tmp_path / "large.onnx").open("wb") as file:
        file.truncate(200_000_000)
    return tmp_path


@pytest.mark.parametrize("stage", stages())
def test_every_stage_has_memory_and_time(models: Path, stage: str):
    plan_round(trials=1)
    assert needs().memory_mb(stage)(job(), 1) == stages()[stage].memory_mb
    assert needs().minutes(stage)(job(), 1) >= stages()[stage].minutes


@pytest.mark.parametrize(
    "stage", ["import", "reference", "transform", "extract", "build", "export", "attest", "validate"]
)
def test_a_larger_model_gets_more_memory_and_time(models: Path, stage: str):
    made = needs()
    assert made.memory_mb(stage)(job("large"), 1) == stages()[stage].memory_mb + 8 * 200
    assert made.minutes(stage)(job("large"), 1) == made.minutes(stage)(job(), 1) + 10


def test_a_network_that_code_builds_is_as_large_as_what_was_imported(models: Path):
    made = needs("models: {small: {source: zoo:resnet18}}")
    assert made.memory_mb("build")(job(), 1) == stages()["build"].memory_mb
    params = models / "results/small/model.params"
    params.parent.mkdir(parents=True)
    with params.open("wb") as file:
        file.truncate(50_000_000)
    assert made.memory_mb("build")(job(), 1) == stages()["build"].memory_mb + 8 * 50


def test_each_attempt_gets_more_memory_and_time(models: Path):
    made = needs()
    assert made.memory_mb("build")(job(), 2) == 2 * made.memory_mb("build")(job(), 1)
    assert made.minutes("build")(job(), 3) == 3 * made.minutes("build")(job(), 1)


def test_tuning_gets_time_for_its_trials(models: Path):
    plan_round(trials=6)
    few = needs().minutes("tune")(job(), 1)
    plan_round(trials=606)
    assert needs().minutes("tune")(job(), 1) == few + 100


def test_stages_on_a_device_may_wait_for_it_as_long_as_it_may_take(models: Path):
    made = needs()
    assert made.minutes("validate")(job(target="board"), 1) == stages()["validate"].minutes + 30


def test_a_long_measurement_gets_its_time(models: Path):
    long = "models: {small: {benchmark: {min_duration_s: 3600}}}"
    # The package, and the original framework beside it.
    assert needs(long).minutes("benchmark")(job(), 1) == needs().minutes("benchmark")(job(), 1) + 2 * 60


@pytest.mark.parametrize(
    ("stage", "cores"), [("benchmark", 8), ("choose_precision", 8), ("tune", 1), ("choose_layout", 1)]
)
def test_here_a_benchmark_takes_every_core_and_tuning_one(stage: str, cores: int):
    assert needs().threads(stage)(job()) == cores
    assert needs().threads(stage)(job(target="board")) == 1


@pytest.mark.parametrize("stage", ["benchmark", "tune", "choose_layout"])
def test_on_a_cluster_what_times_a_nodes_cores_takes_them_all(stage: str):
    assert needs(on_cluster=True).threads(stage)(job()) == 8
    assert needs("devices: {local: {threads: 32}}", on_cluster=True).threads(stage)(job()) == 32
    assert needs(on_cluster=True).threads(stage)(job(target="board")) == 1


def test_whether_jobs_are_sent_away_may_be_decided_after_the_rules_are_read():
    on_cluster = [False]
    threads = JobResources(plan(), 8, lambda: on_cluster[0]).threads("tune")
    assert threads(job()) == 1
    on_cluster[0] = True
    assert threads(job()) == 8


def test_what_times_a_nodes_cores_has_the_node_to_itself_and_what_times_a_board_has_not():
    assert needs().slurm_extra(job()) == "--exclusive"
    assert needs().slurm_extra(job(target="board")) == ""


def test_a_devices_token_goes_with_every_job_on_it():
    assert needs().gres(job(target="board")) == "phone:1"
    assert needs().gres(job()) == ""
    assert needs("devices: {local: {gres: bench}}").gres(job()) == "bench"


@pytest.mark.parametrize(
    "stage", ["deploy", "validate", "benchmark", "tune", "pick_best", "choose_layout", "choose_precision"]
)
def test_a_devices_token_changes_no_request(stage: str):
    wildcards = job(target="board")
    assert plan().options(stage, wildcards) == plan('devices: {phone: {gres: "board:2"}}').options(stage, wildcards)


@pytest.mark.parametrize("gres", ["phone", "phone:1", "gpu:a100:2"])
def test_tokens_are_written_as_slurm_has_them(gres: str):
    assert needs(f"devices: {{phone: {{gres: '{gres}'}}}}").gres(job(target="board")) == gres


def test_stages_on_a_device_ask_for_it_and_those_that_time_for_a_node_of_their_own():
    asked = {stage: needs().of(stage).keys() - {"mem_mb", "runtime"} for stage in stages()}
    timing = {"tune", "choose_layout", "choose_precision", "benchmark"}
    assert {stage for stage in asked if "slurm_extra" in asked[stage]} == timing
    assert {stage for stage in asked if "gres" in asked[stage]} == timing | {"pick_best", "deploy", "validate"}
