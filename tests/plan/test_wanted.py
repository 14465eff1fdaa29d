"""The words of `tvmake make`: variants, stages and files."""

from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import check
from tvmake.errors import InputError, UsageError
from tvmake.plan.plan import Plan
from tvmake.plan.wanted import requested_files, with_rules

TEXT = """
models: {digits: {source: digits.onnx}}
precisions: [float32, float16]
targets: {cpu: {kind: llvm, mcpu: native}}
"""
VARIANT = "results/digits/float32/cpu"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    return Plan(check(yaml.safe_load(TEXT), {}))


def test_a_variant_means_its_package_and_a_full_path_becomes_relative(plan: Plan):
    package = f"{VARIANT}/package.tar"
    assert requested_files(plan, ["digits/float32/cpu", str(Path(package).absolute()), package]) == [package]
    assert requested_files(plan, ["other/file.txt", "all"]) == ["other/file.txt", "all"]


@pytest.mark.parametrize("word", ["digit", "float16", "digits/float16", "m/float32", "results", ""])
def test_a_part_of_a_variants_name_is_refused_with_the_variants(plan: Plan, word: str):
    with pytest.raises(UsageError, match="is neither a variant, a stage nor a file that a job makes") as refused:
        requested_files(plan, [word])
    assert "digits/float32/cpu" in refused.value.remedy or "digits/float16/cpu" in refused.value.remedy


def test_a_model_means_its_packages_and_the_joined_ones(plan: Plan):
    assert requested_files(plan, ["digits"]) == [
        f"results/digits/{name}/cpu/package.tar" for name in plan.config.precisions
    ]
    functions = {name: {"source": f"{name}.onnx"} for name in ("decode", "encode")}
    values = {**yaml.safe_load(TEXT), "models": {"chat": {"functions": functions}}, "precisions": ["float32"]}
    chat = Plan(check(values, {}))
    single = [f"results/chat.{name}/float32/cpu/package.tar" for name in functions]
    for words in (["chat"], ["chat/float32/cpu"]):
        assert sorted(requested_files(chat, words)) == sorted([*single, "results/chat/float32/cpu/package.tar"])
    assert requested_files(chat, ["chat.decode"]) == single[:1]


def test_a_stage_means_its_outputs_by_its_name_and_by_its_rules_name(plan: Plan):
    imported = ["results/digits/model.json", "results/digits/model.params", "results/digits/signature.json"]
    assert set(imported) <= set(requested_files(plan, ["import"]))
    assert requested_files(plan, ["import_model"]) == requested_files(plan, ["import"])
    libraries = [file for file in requested_files(plan, ["build"]) if file.endswith("mod.so")]
    assert libraries == [f"{VARIANT}/mod.so", "results/digits/float16/cpu/mod.so"]
    assert "results/summary.json" in requested_files(plan, ["report"])


def test_a_stage_that_the_config_does_not_ask_for_is_named_with_those_that_it_does(plan: Plan):
    with pytest.raises(InputError, match=r"tune: the config needs nothing from this stage\n  it has import, .*build"):
        requested_files(plan, ["tune"])


def test_searches_that_no_budget_has_planned_yet_are_made_by_the_stage_that_waits_for_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tuned = Plan(check(yaml.safe_load(TEXT.replace("native}", "native, tuning: {trials: 4}}")), {}))
    with pytest.raises(InputError, match="known only when their budgets are planned\n  `tvmake make pick_best`"):
        requested_files(tuned, ["tune"])
    assert requested_files(tuned, ["pick_best"])


def test_a_word_that_is_not_a_stage_is_refused_with_the_nearest_or_all(plan: Plan):
    with pytest.raises(UsageError, match=r"buildd: is neither .*\n  did you mean .build.\?"):
        requested_files(plan, ["buildd"])
    with pytest.raises(UsageError, match="stages are import, reference, self_test, transform, "):
        requested_files(plan, ["everything-else"])


def test_options_of_snakemakes_take_the_names_of_stages():
    words = ["--forcerun", "import", "build", "--until=import", "--set-threads", "import_model=2", "--cores", "2"]
    assert with_rules(words) == [
        "--forcerun", "import_model", "build", "--until=import_model", "--set-threads", "import_model=2", "--cores", "2"
    ]  # fmt: skip


def test_a_config_among_the_words_is_distinguished_from_unknown_files(plan: Plan):
    with pytest.raises(UsageError, match=r"tvmake.yaml: is a config, not a result\n  name it with -c"):
        requested_files(plan, ["tvmake.yaml"])
