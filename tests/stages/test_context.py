"""A stage's view of the config: options of one job over the general ones, each computed once."""

from pathlib import Path

import pytest
import yaml

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Budget, KernelBudget
from tvmake.config.reading.load import check
from tvmake.stages.context import JobContext
from tvmake.stages.registry import patterns

TEXT = """
models:
  plain: {source: plain.onnx}
  own: {source: own.onnx, tuning: {trials: 4}, benchmark: {repeat: 7}}
precisions: [float32, int8]
targets:
  cpu: {kind: llvm, mcpu: native, tuning: {trials: 8, store: kept}}
  phone: {tag: qcom/adreno-opencl, host: {mtriple: aarch64-linux-gnu}}
benchmark: {repeat: 5}
"""

ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
def run() -> JobContext:
    return JobContext(check(yaml.safe_load(TEXT), {}), patterns())


def test_a_models_options_are_over_those_of_its_target_and_the_general_ones(run: JobContext):
    trials = {model: run.at({"model": model, "target": "cpu"}).tuning.trials for model in ("plain", "own")}
    assert trials == {"plain": 8, "own": 4}
    assert run.at({"target": "cpu"}).tuning.trials == 8
    assert run.at({"model": "own", "target": "cpu"}).tuning.store == "kept"
    assert [run.at({"model": model}).benchmark.repeat for model in ("plain", "own")] == [5, 7]


def test_computed_values_are_shared_by_all_jobs_of_a_plan(run: JobContext):
    first, second = (run.at({"model": "own", "precision": precision}) for precision in ("float32", "int8"))
    assert first.transform is second.transform and first.budgets is second.budgets
    assert run.at(first) is first


def test_wildcards_are_added_and_removed(run: JobContext):
    variant = run.variants[0]
    kernel = variant.with_wildcards(number="2", workload=ONE)
    assert kernel.wildcards == {**variant.wildcards, "number": "2", "workload": ONE}
    assert kernel.with_only(["target", "number"]).wildcards == {"target": "cpu", "number": "2"}
    assert {job.target for job in run.at({"target": "phone"}).variants} == {"phone"}


def test_receipts_are_those_of_the_kernels_that_a_round_plans(run: JobContext, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = run.at({"model": "own", "precision": "float32", "target": "cpu"})
    assert job.receipts(1) == [] and job.planned_rounds[0] is None
    users = {ONE: ["own/float32", "plain/float32"], TWO: ["plain/float32"]}
    kernels = {workload: KernelBudget(name="conv", trials=3, users=users[workload]) for workload in users}
    budget = Budget(target_name="cpu", number=1, kernels=kernels, trials_shared=0)
    stage_json.save(budget, Path(job.file("budget.json", number=1)))
    assert job.receipts(1) == [f"results/tuning/cpu/round1/{workload}.json" for workload in users]
    assert job.receipts(1, "own/float32") == [f"results/tuning/cpu/round1/{ONE}.json"]
    assert job.receipts(0) == []
    assert job.with_wildcards(number="1", workload=TWO).kernel == kernels[TWO]
