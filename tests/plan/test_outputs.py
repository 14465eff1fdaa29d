"""The files on disk that tvmake makes, and those that a config still needs."""

from pathlib import Path

import pytest
import yaml

from tvmake.artifact import stage_json
from tvmake.artifact.tasks import Budget, KernelBudget
from tvmake.config.reading.load import check
from tvmake.plan.outputs import PlannedFiles, recognise
from tvmake.plan.plan import Plan, Variant
from tvmake.stages import registry

TEXT = """
models: {digits: {source: digits.onnx}, other: {source: other.onnx}}
precisions: [float32, float16]
targets:
  cpu: {kind: llvm, mcpu: native, tuning: {trials: 8}}
  phone: {tag: qcom/adreno-opencl, host: {mtriple: aarch64-linux-gnu}}
"""
CHOSEN = [output.artifact for output in registry.stages()["choose_layout"].outputs]
FUNCTIONS = {"decode": {"source": "decode.onnx"}, "encode": {"source": "encode.onnx"}}
KERNEL = {"number": 1, "workload": "0" * 64}


def plan(**layers: object) -> Plan:
    return Plan(check({**yaml.safe_load(TEXT), **layers}, {}))


@pytest.mark.parametrize("artifact", registry.artifacts())
def test_every_artifact_is_recognised_as_itself(artifact: str):
    made = plan(models={"digits": {"source": "digits.onnx"}, "chat": {"functions": FUNCTIONS}})
    path = made.file(artifact, Variant("digits", "float32", "cpu"), **KERNEL, layout="NHWC", group="chat")
    found = recognise(path, made.config)
    assert found and found.artifact == artifact


@pytest.mark.parametrize(
    "path",
    [
        "results/notes.txt",
        "results/digits/notes.txt",
        "results/best/float32/cpu/package.tar",
        "results/tuning/model.json",
        "results/digits/float32/cpu/deeper/package.tar",
        "results/digits/float32/cpu/package.tar.bak",
        "results/tuning/cpu/round1/short.json",
        "logs/mine.log",
        "elsewhere/digits/model.json",
    ],
)
def test_what_no_rule_makes_is_not_recognised(path: str):
    assert recognise(path, plan().config) is None


def has(made: Plan, path: str) -> bool:
    found = recognise(path, made.config)
    assert found
    return PlannedFiles(made).has(found)


def test_the_goals_and_every_variants_package_are_made():
    made = plan()
    for path in [*made.goals(), *(made.file("package.tar", variant) for variant in made.variants)]:
        assert has(made, path)


def test_a_joined_package_is_that_of_its_functions():
    made = plan(models={"chat": {"functions": FUNCTIONS}})
    found = recognise("results/chat/float32/cpu/package.tar", made.config)
    assert found and found.wildcards == {"group": "chat", "precision": "float32", "target": "cpu"}
    assert has(made, "results/chat/float32/cpu/package.tar")
    assert has(made, "results/chat.decode/float32/cpu/package.tar")
    assert not has(plan(), "results/chat/float32/cpu/joined.json")
    assert not has(plan(), "results/chat/float32/cpu/package.tar")


def test_a_removed_model_precision_or_target_is_not_made():
    for gone, layer in (
        ("results/other/float32/cpu/package.tar", {"models": {"digits": {"source": "digits.onnx"}}}),
        ("results/other/model.json", {"models": {"digits": {"source": "digits.onnx"}}}),
        ("results/digits/float16/module.json", {"precisions": ["float32"]}),
        ("logs/digits/float16/transform.log", {"precisions": ["float32"]}),
        ("results/digits/float32/phone/mod.so", {"targets": {"cpu": {"kind": "llvm", "mcpu": "native"}}}),
    ):
        assert has(plan(), gone) and not has(plan(**layer), gone)


def test_a_target_without_a_device_has_no_latency_and_one_without_tuning_no_kernels():
    assert not has(plan(), "results/digits/float32/phone/latency.json")
    assert not has(plan(), "results/digits/float32/phone/best.json")
    assert has(plan(), "results/digits/float32/cpu/latency.json")
    assert has(plan(), "results/digits/float32/cpu/best.json")


def test_a_chosen_layout_replaces_the_network_of_the_precision():
    auto = plan(transform={"layout": "auto"})
    variant = Variant("digits", "float32", "cpu")
    assert all(has(auto, auto.file(artifact, variant)) for artifact in CHOSEN)
    assert not any(has(plan(), auto.file(artifact, variant)) for artifact in CHOSEN)
    candidate = "results/digits/float32/layouts/NHWC/module.json"
    assert has(auto, candidate) and not has(plan(), candidate)
    # The phone is not tuned, so its variant is built from the unchanged network.
    assert has(auto, "results/digits/float32/module.json")


def test_kernels_are_made_as_their_budget_says_and_all_of_them_while_there_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    old, used = "results/tuning/cpu/round1/" + "0" * 64 + ".json", "results/tuning/cpu/round1/" + "1" * 64 + ".json"
    assert has(plan(), old)
    budget = Path("results/tuning/cpu/round1/budget.json")
    kernels = {
        workload * 64: KernelBudget(name="k", trials=8, users=[f"{model}/float32"])
        for workload, model in (("1", "digits"), ("2", "removed"))
    }
    stage_json.save(Budget(target_name="cpu", number=1, kernels=kernels, trials_shared=0), budget)
    assert has(plan(), used) and not has(plan(), old)
    # The budget is older than the config: the only model with this kernel was removed.
    assert not has(plan(), f"results/tuning/cpu/round1/{'2' * 64}.json")
    assert not has(plan(tuning={"rounds": 1}), "results/tuning/cpu/round2/budget.json")
    assert not has(plan(), "results/tuning/phone/round1/budget.json")


def test_logs_are_below_the_directory_of_logs():
    made = plan(logs="tuned/logs")
    assert all(job.log.startswith("tuned/logs/") for job in made.jobs(Variant("digits", "float32", "cpu")))
    assert has(made, "tuned/logs/digits/float32/cpu/build.log")
    assert recognise("logs/digits/float32/cpu/build.log", made.config) is None
