"""The jobs of a plan are those of the workflow's rules: same inputs, outputs, options and fingerprints."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Budget, KernelBudget
from tvmake.config.reading.load import check
from tvmake.plan.plan import Job, Plan
from tvmake.stages.registry import artifacts, stages
from tvmake.storage.resources import snakefile

TEXT = """
models:
  chosen: {source: "zoo:mobilenet_v2", transform: {layout: auto, passes: [{use: "mine:early", at: start}]}}
  kept: {source: net.onnx, dataset: {path: images.npz}, transform: {passes: [{use: "mine:late", at: after_fusion}]},
    validation: {operators: true}}
  chat: {precisions: [float32], targets: [plain], functions: {decode: {source: net.onnx}, encode: {source: net.onnx}}}
precisions: [float32, float16, int8, auto]
targets:
  cpu: {kind: llvm, mcpu: native, tuning: {trials: 8, rounds: 2}}
  plain: {kind: llvm, mcpu: native}
  board: {kind: llvm, mtriple: aarch64-linux-gnu}
variants:
  exclude: [{precision: int8, target: cpu}, {precision: int8, target: board}, {precision: auto, target: board}]
"""

SHARED, ALONE, OTHER, NEW = (hashlib.sha256(name.encode()).hexdigest() for name in ("shared", "alone", "other", "new"))
WORKLOADS = {SHARED: ["chosen/float32", "kept/float32"], ALONE: ["kept/float16"], OTHER: ["chosen/float16"]}

DAG = """
import json, sys
from pathlib import Path
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings
from snakemake.settings.enums import RerunTrigger

with SnakemakeApi(OutputSettings(dryrun=True, quiet={Quietness.ALL})) as api:
    workflow = api.workflow(
        resource_settings=ResourceSettings(cores=1),
        config_settings=ConfigSettings(configfiles=[Path("tvmake.yaml")]),
        snakefile=Path(sys.argv[1]),
    )
    triggers = frozenset([RerunTrigger.MTIME])
    workflow.dag(DAGSettings(targets=set(sys.argv[2:]), rerun_triggers=triggers)).execute_workflow(executor="dryrun")
    jobs = [
        {
            "rule": job.rule.name,
            "wildcards": dict(job.wildcards_dict),
            "inputs": [str(file) for file in job.input],
            "outputs": [str(file) for file in job.output],
            "params": {name: str(value) for name, value in job.params.items()},
            "log": [str(file) for file in job.log][:1],
        }
        for job in workflow._workflow.dag.jobs
    ]
print("JOBS", json.dumps(jobs))
"""
"""Prints the jobs of a workflow whose results all exist."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with empty files for all results."""
    directory = tmp_path_factory.mktemp("jobs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        Path("tvmake.yaml").write_text(TEXT)
        Path("mine.py").write_text("def early(): ...\ndef late(): ...\n")
        for name in ("net.onnx", "images.npz"):
            Path(name).touch()
        made = plan()
        for number in (1, 2):
            kernels = {
                workload: KernelBudget(name=f"kernel{workload[0]}", trials=4 * number, users=users)
                for workload, users in WORKLOADS.items()
            }
            budget = Path(made.file("budget.json", target="cpu", number=number))
            stage_json.save(Budget(target_name="cpu", number=number, kernels=kernels, trials_shared=0), budget)
        directories = {name for name, output in artifacts().items() if output.is_directory}
        for stage in stages().values():
            for path, output in made.outputs_of_stage(stage).items():
                create(Path(path), is_directory=output.artifact in directories)
                if output.artifact == "round/workloads":
                    for workload in WORKLOADS:
                        create(Path(path) / f"{workload}.json", is_directory=False)
        for path in (file for job in made.run_jobs() for file in job.outputs):
            create(Path(path), is_directory=path.endswith("/best"))
        for path in directory.rglob("*"):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        yield directory


def create(path: Path, is_directory: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_directory:
        path.mkdir(exist_ok=True)
    else:
        path.touch()


def plan() -> Plan:
    return Plan(check(yaml.safe_load(TEXT), {}))


def of_plan(made: Plan) -> list[Job]:
    found = {job.outputs: job for variant in made.variants for job in made.jobs(variant)}
    return [*found.values(), *made.run_jobs()]


@pytest.fixture(scope="module")
def rules(project: Path) -> dict[tuple[str, ...], dict]:
    """The jobs of the workflow, by their outputs."""
    # Nothing else reads budgets a second time.
    budgets = [plan().file("budget.json", target="cpu", number=number) for number in (1, 2)]
    command = [sys.executable, "-c", DAG, str(snakefile()), "all", *budgets]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("JOBS ")), None)
    assert line, done.stderr[-3000:]
    return {tuple(job["outputs"]): job for job in json.loads(line.removeprefix("JOBS ")) if job["rule"] != "all"}


def test_there_are_the_same_jobs(rules):
    assert sorted((job.rule, *job.outputs) for job in of_plan(plan())) == sorted(
        (job["rule"], *outputs) for outputs, job in rules.items()
    )
    assert {job.stage for job in of_plan(plan())} == set(stages())


def test_they_read_the_same_results(rules):
    """The user's files are not inputs of rules, which would compare their times."""
    for job in of_plan(plan()):
        assert sorted(set(job.inputs).difference(job.sources)) == sorted(rules[job.outputs]["inputs"]), job.rule


def test_they_have_the_same_options_and_fingerprints(rules):
    for job in of_plan(plan()):
        params = rules[job.outputs]["params"]
        assert (job.options, job.fingerprint) == (params.get("options", ""), params["code"]), job.rule
        assert {name: str(value) for name, value in job.parameters.items()}.items() <= params.items()
        assert dict(job.wildcards) == rules[job.outputs]["wildcards"]
        assert [job.log] == rules[job.outputs]["log"]


def test_sources_are_what_no_stage_makes(project):
    jobs = of_plan(plan())
    made = {path for job in jobs for path in job.outputs}
    for job in jobs:
        inside = [path for path in job.inputs if str(Path(path).parent) in made]
        assert set(job.sources) == set(job.inputs) - made - set(inside)
    assert {Path(path).name for job in jobs for path in job.sources} == {"net.onnx", "images.npz", "mine.py"}


def test_jobs_follow_budgets_that_change(project):
    made = plan()
    variant = next(variant for variant in made.variants if str(variant) == "kept/float16/cpu")
    assert [job.wildcards["workload"] for job in made.jobs(variant) if job.rule == "tune"] == [ALONE, ALONE]
    budget = Path(made.file("budget.json", target="cpu", number=2))
    before = budget.read_bytes()
    try:
        kernels = {NEW: KernelBudget(name="new", trials=9, users=["kept/float16"])}
        stage_json.save(Budget(target_name="cpu", number=2, kernels=kernels, trials_shared=0), budget)
        jobs = {job.outputs[0]: job for job in made.jobs(variant)}
        assert jobs[f"results/tuning/cpu/round2/{NEW}.json"].parameters == {"name": "new", "trials": 9, "points": "[]"}
        (best,) = (job for job in jobs.values() if job.rule == "pick_best")
        assert f"results/tuning/cpu/round2/{NEW}.json" in best.inputs
    finally:
        budget.write_bytes(before)
