"""From a config to variants, paths and stages' requests."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tvmake.config.reading.load import check, load, merge
from tvmake.config.requests.building import BuildRequest, ExportRequest, JoinRequest
from tvmake.config.requests.calibrating import CalibrateRequest
from tvmake.config.requests.choosing import ChoosePrecisionRequest
from tvmake.config.requests.referencing import ReferenceRequest, SelfTestRequest
from tvmake.config.requests.reporting import ReportRequest
from tvmake.config.requests.running import BenchmarkRequest, DeployRequest, ValidateRequest
from tvmake.config.requests.tuning import (
    BudgetRequest,
    ChooseLayoutRequest,
    ExtractRequest,
    PickBestRequest,
    TuneRequest,
)
from tvmake.config.validation import DEFAULT_GOALS
from tvmake.errors import TvmakeError
from tvmake.frontend.options import ImportOptions
from tvmake.plan.plan import Plan, Variant
from tvmake.stages.registry import patterns, stages
from tvmake.targets.cpu.identity import cpu_identity
from tvmake.transform.options import CANDIDATES, TransformRequest

TEXT = """
models:
  digits: {source: digits.onnx, goals: {top1_drop: 0.005}}
  other: {source: zoo:resnet18, precisions: [float16]}
precisions: [float32, float16]
targets:
  cpu: {kind: llvm, mcpu: native}
  phone: {tag: qcom/adreno-opencl, host: {mtriple: aarch64-linux-gnu}}
"""
VALUES = yaml.safe_load(TEXT)
DIGITS = Variant("digits", "float32", "cpu")
KERNEL = {"number": 1, "workload": "0" * 64, "layout": "NHWC"}
"""Wildcards of tuning files and stages in addition to a target, and of candidates in addition to a precision."""

REQUESTS = {
    "import": ImportOptions,
    "reference": ReferenceRequest,
    "calibrate": CalibrateRequest,
    "transform": TransformRequest,
    "choose_layout": ChooseLayoutRequest,
    "choose_precision": ChoosePrecisionRequest,
    "extract": ExtractRequest,
    "budget": BudgetRequest,
    "tune": TuneRequest,
    "pick_best": PickBestRequest,
    "build": BuildRequest,
    "compare_operators": BuildRequest,
    "export": ExportRequest,
    "join": JoinRequest,
    "self_test": SelfTestRequest,
    "deploy": DeployRequest,
    "validate": ValidateRequest,
    "benchmark": BenchmarkRequest,
    "select": ReportRequest,
    "report": ReportRequest,
}


def plan(overlay: str = "", base: str = TEXT) -> Plan:
    return Plan(check(merge(yaml.safe_load(base), yaml.safe_load(overlay) or {}), {}))


def options(made: Plan, stage: str, variant: Variant) -> str:
    # Only the rule's wildcards; transform's candidates are tested separately.
    wildcards = {**vars(variant), **KERNEL}
    wildcards.pop("layout")
    return made.options(stage, SimpleNamespace(**wildcards))


def inputs(made: Plan, stage: str) -> list[str]:
    """The user's files that a stage's job of `DIGITS` reads."""
    return list(next(job.sources for job in made.jobs(DIGITS) if job.stage == stage))


def names(made: Plan) -> list[str]:
    return [str(variant) for variant in made.variants]


# --- variants ------------------------------------------------------------------------------------------------------


def test_the_variants_are_the_product_of_the_axes_in_config_order():
    assert names(plan()) == [
        "digits/float32/cpu",
        "digits/float32/phone",
        "digits/float16/cpu",
        "digits/float16/phone",
        "other/float16/cpu",
        "other/float16/phone",
    ]


def test_exclude_takes_partial_combinations_away():
    made = plan("variants: {exclude: [{model: digits, precision: float16}, {target: phone, model: other}]}")
    assert names(made) == ["digits/float32/cpu", "digits/float32/phone", "other/float16/cpu"]


def test_include_adds_combinations_back_and_beyond_a_models_own_lists():
    made = plan(
        "variants: {exclude: [{target: phone}], include: ["
        "{model: digits, precision: float16, target: phone}, {model: other, precision: float32, target: cpu}]}"
    )
    assert names(made)[-2:] == ["digits/float16/phone", "other/float32/cpu"]
    assert len(names(made)) == 5


def test_a_combination_included_twice_is_made_once():
    made = plan("variants: {include: [{model: digits, precision: float32, target: cpu}]}")
    assert len(made.variants) == len(set(made.variants)) == 6


def test_excluding_everything_is_a_mistake():
    with pytest.raises(TvmakeError, match="excludes all combinations"):
        plan("variants: {exclude: [{precision: float32}, {precision: float16}]}")


def test_only_targets_with_a_device_run():
    assert {variant.target for variant in plan().runnable} == {"cpu"}
    assert {variant.target for variant in plan("targets: {phone: {device: local}}").runnable} == {"cpu", "phone"}


def test_results_of_a_device_are_goals_only_with_a_device():
    made = plan()
    assert len(made.results_of("package.tar")) == 6
    assert len(made.results_of("numerics.json")) == len(made.results_of("latency.json")) == 3


# --- paths ---------------------------------------------------------------------------------------------------------


def test_files_lie_under_model_precision_and_target():
    made = plan("results: out")
    assert made.file("model.json", DIGITS) == "out/digits/model.json"
    assert made.file("module.json", DIGITS) == "out/digits/float32/module.json"
    assert made.file("package.tar", DIGITS) == "out/digits/float32/cpu/package.tar"
    assert made.file("summary.json") == "out/summary.json"


def test_paths_for_rules_keep_their_wildcards():
    assert plan().path("package.tar") == "results/{model}/{precision}/{target}/package.tar"


def test_no_two_artifacts_share_a_file():
    made = plan()
    owners: dict[str, set[str]] = {}
    for artifact in patterns():
        for variant in made.variants:
            owners.setdefault(made.file(artifact, variant, **KERNEL), set()).add(artifact)
    assert [sorted(artifacts) for artifacts in owners.values() if len(artifacts) > 1] == []


def test_side_files_of_a_model_are_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("digits.onnx").touch()
    Path("digits.onnx.data").touch()
    assert inputs(plan(), "import") == ["digits.onnx", "digits.onnx.data"]


def test_a_dataset_and_its_class_names_are_inputs_of_the_reference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("images/cat/1.png", "images/dog/2.png", "names.txt", "list.csv"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    folder = plan("models: {digits: {dataset: {path: images, label_names: names.txt}}}")
    assert inputs(folder, "reference") == ["digits.onnx", "images/cat/1.png", "images/dog/2.png", "names.txt"]
    Path("list.csv").write_text("file,label\nimages/cat/1.png,0\nmissing.png,1\n")
    listed = plan("models: {digits: {dataset: {path: list.csv}}}")
    assert inputs(listed, "reference") == ["digits.onnx", "list.csv", "images/cat/1.png"]


# --- layout ---------------------------------------------------------------------------------------------------------

AUTO = "transform: {layout: auto}\ntargets: {cpu: {tuning: {trials: 64}}}"


def test_a_tuned_variant_whose_layout_is_auto_is_made_of_what_it_has_chosen():
    made = plan(AUTO)
    job = made.context(DIGITS)
    assert job.chooses_layout
    assert job.network_file("module.json") == "results/digits/float32/cpu/module.json"
    assert job.network_file("signature.json") == "results/digits/float32/cpu/signature.json"
    (choice,) = (job for job in made.jobs(DIGITS) if job.stage == "choose_layout")
    assert {f"results/digits/float32/layouts/{layout}/module.json" for layout in CANDIDATES} <= {*choice.inputs}
    assert [str(variant) for variant in made.variants if made.context(variant).layout_choice == "auto"] == [
        "digits/float32/cpu", "digits/float16/cpu", "other/float16/cpu",
    ]  # fmt: skip
    assert len(made.results_of("layout.json")) == 3


def test_without_tuning_auto_keeps_the_layout():
    made = plan(AUTO)
    phone = Variant("digits", "float32", "phone")
    job = made.context(phone)
    assert job.network_file("module.json") == "results/digits/float32/module.json"
    assert job.network_file("signature.json") == "results/digits/float32/signature.json"
    assert job.layout_choice == "keep"
    assert made.options("transform", phone) == plan().options("transform", phone)
    assert plan("transform: {layout: auto}").results_of("layout.json") == []


def test_a_model_may_choose_its_layout_while_others_keep_theirs():
    made = plan("targets: {cpu: {tuning: {trials: 64}}}\nmodels: {digits: {transform: {layout: auto}}}")
    assert made.results_of("layout.json") == [
        "results/digits/float32/cpu/layout.json",
        "results/digits/float16/cpu/layout.json",
    ]


@pytest.mark.parametrize("layout", CANDIDATES)
def test_a_candidate_is_transformed_to_its_layout_and_otherwise_as_ever(layout):
    candidate = SimpleNamespace(model="digits", precision="float32", layout=layout)
    assert plan(AUTO).options("transform", candidate) == plan(f"transform: {{layout: {layout}}}").options(
        "transform", DIGITS
    )


# --- requests -------------------------------------------------------------------------------------------------------


def asked(made: Plan, stage: str, variant: Variant = DIGITS) -> dict:
    return json.loads(made.options(stage, variant))


def changed_stages(overlay: str, variant: Variant = DIGITS, base: str = TEXT) -> set[str]:
    before, after = plan(base=base), plan(overlay, base)
    return {stage for stage in REQUESTS if options(before, stage, variant) != options(after, stage, variant)}


@pytest.mark.parametrize(
    ("overlay", "stages"),
    [
        ("models: {digits: {opset: 18}}", {"import", "reference", "self_test", "benchmark"}),
        ("models: {digits: {source: other.onnx}}", {"import", "reference", "self_test", "benchmark"}),
        ("models: {digits: {dims: {N: 2}}}", {"choose_precision", "calibrate", "reference", "self_test", "transform"}),
        ("models: {digits: {dataset: {path: x.npz}}}", {"calibrate", "reference"}),
        ("models: {digits: {goals: {top1_drop: 0.1}}}", {"choose_precision", "validate"}),
        ("models: {other: {seed: 5, dims: {N: 2}, goals: {top1: 1}}}", set()),
        ("validation: {samples: 3}", {"calibrate", "reference"}),
        ("validation: {seed: 3}", {"calibrate", "reference"}),
        ("validation: {operators: true}", {"select", "report"}),
        ("validation: {goals: {rtol: 0.1}}", {"choose_precision", "validate"}),
        ("validation: {goals: {sqnr_db: 200}}", {"choose_precision", "validate"}),
        ("validation: {goals: {sqnr_db: 1}}", {"choose_precision", "export", "validate"}),
        ("export: {self_test: false}", {"export"}),
        ("models: {digits: {export: {self_test: {samples: 1}}}}", {"self_test"}),
        ("validation: {goals: {latency_ms: 5}}", {"select", "report"}),
        ("models: {digits: {goals: {speedup: 1, package_mb: 3}}}", {"choose_precision", "select", "report"}),
        ("models: {digits: {goals: {metrics: {f1: {use: 'a:b', at_least: 0.5}}}}}", {"choose_precision", "validate"}),
        ("transform: {layout: NHWC}", {"choose_precision", "transform", "select", "report"}),
        ("transform: {layout: auto}", set()),
        ("models: {digits: {transform: {fold_batch_norm: false}}}", {"choose_precision", "calibrate", "transform"}),
        ("transform: {passes: [{use: 'a:b', at: start}]}", {"choose_precision", "calibrate", "transform"}),
        (
            "transform: {passes: [{use: 'a:b', at: after_fusion}]}",
            {"choose_precision", "build", "choose_layout", "compare_operators", "extract"},
        ),
        ("build: {opt_level: 2}", {"choose_precision", "build", "choose_layout", "compare_operators", "extract"}),
        (
            "build: {pass_config: {tirx.disable_vectorize: true}}",
            {"choose_precision", "build", "choose_layout", "compare_operators", "extract"},
        ),
        (
            "build: {disabled_passes: [tirx.StorageRewrite]}",
            {"choose_precision", "build", "choose_layout", "compare_operators", "extract"},
        ),
        ("models: {digits: {build: {dump: [ll]}}}", {"build"}),
        (
            "targets: {cpu: {attributes: {num-cores: 2}}}",
            {"choose_precision", "build", "choose_layout", "compare_operators", "extract", "tune", "pick_best"},
        ),
        ("tuning: {trials: 8}", {"budget", "select", "report"}),
        ("tuning: {rounds: 3}", {"budget"}),
        ("tuning: {seed: 8}", {"choose_layout", "tune"}),
        ("tuning: {layout_trials: 8}", {"choose_layout"}),
        ("tuning: {measure: {repeat: 8}}", {"choose_layout", "tune"}),
        ("tuning: {store: elsewhere}", {"choose_layout", "tune", "pick_best"}),
        ("tuning: {untuned: [fused_conv2d]}", {"pick_best"}),
        ("tuning: {require_coverage: 0.5}", {"build"}),
        ("models: {digits: {tuning: {trials: 8}}}", {"budget", "select", "report"}),
        ("models: {digits: {tuning: {require_coverage: 0.5}}}", {"build"}),
        ("targets: {cpu: {tuning: {seed: 8}}}", {"choose_layout", "tune"}),
        ("benchmark: {repeat: 3}", {"benchmark"}),
        ("benchmark: {baseline: false}", {"benchmark"}),
        ("benchmark: {profile: mlperf-like}", {"benchmark"}),
        ("models: {digits: {benchmark: {warmup: 9}}}", {"benchmark"}),
        (
            "targets: {cpu: {device: bench}}\ndevices: {bench: {threads: 1}}",
            {
                "deploy",
                "validate",
                "benchmark",
                "select",
                "report",
                "choose_layout",
                "choose_precision",
                "tune",
                "pick_best",
            },
        ),
        (
            "devices: {local: {threads: 1}}",
            {"choose_precision", "deploy", "validate", "benchmark", "choose_layout", "tune", "pick_best"},
        ),
        ("devices: {unused: {threads: 1}}", set()),
        ("targets: {third: {kind: cuda}}", {"select", "report"}),
        (
            "precisions: {float32: {base: float16, never: [nn.softmax]}, float16: {}}",
            {"calibrate", "choose_precision", "transform", "validate", "export"},
        ),
    ],
)
def test_a_change_reaches_the_stages_that_read_it_and_no_others(overlay, stages):
    assert changed_stages(overlay) == stages


def test_a_drawn_sample_count_does_not_matter_to_a_model_with_a_dataset():
    base = TEXT.replace("digits.onnx,", "digits.onnx, dataset: {path: x.npz},")
    assert changed_stages("validation: {samples: 3, seed: 4}", base=base) == set()
    assert changed_stages("export: {self_test: {samples: 3}}", base=base) == {"self_test"}
    assert changed_stages("export: {self_test: {inputs: dataset}}", base=base) == {"self_test"}


def test_a_variant_whose_package_has_no_self_test_waits_for_none():
    made = plan("models: {digits: {dataset: {path: x.npz}}}\nprecisions: [float32, float16, int8]")
    stages_of = {str(one): {job.stage for job in made.jobs(one)} for one in made.variants}
    assert "self_test" in stages_of["digits/float32/cpu"]
    assert "self_test" not in stages_of["digits/int8/cpu"]


@pytest.mark.parametrize("stage", REQUESTS)
def test_options_are_canonical_json_of_the_stages_request(stage):
    made = plan("transform: {passes: ['a:b']}\nmodels: {digits: {dims: {N: 1}, dataset: {path: x.npz}}}")
    for variant in made.variants:
        text = options(made, stage, variant)
        request = REQUESTS[stage].model_validate_json(text)
        assert request.model_dump(mode="json", exclude_defaults=True) == json.loads(text)
        assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_options_do_not_depend_on_the_order_of_keys():
    turned = {key: VALUES[key] for key in reversed(VALUES)}
    turned["models"] = {name: dict(reversed(model.items())) for name, model in VALUES["models"].items()}
    for stage in REQUESTS:
        assert options(Plan(check(VALUES, {})), stage, DIGITS) == options(Plan(check(turned, {})), stage, DIGITS)


def test_code_for_this_machine_knows_the_machine_and_portable_code_does_not():
    made = plan()
    assert asked(made, "build")["cpu"] == cpu_identity()
    assert "cpu" not in asked(made, "build", Variant("digits", "float32", "phone"))


def test_the_kernels_to_tune_are_the_models_own_or_else_everybodys():
    made = plan("tuning: {trials: 8, kernels: [a]}\nmodels: {digits: {tuning: {kernels: [b]}}}")
    request = BudgetRequest.model_validate_json(made.options("budget", SimpleNamespace(target="cpu", number=1)))
    found = {name: budget.kernels for name, budget in request.variants.items()}
    assert found == {"digits/float32": ["b"], "digits/float16": ["b"], "other/float16": ["a"]}


def test_the_device_of_a_target_does_not_reach_its_build():
    assert "device" not in asked(plan("targets: {cpu: {device: local}}"), "build")["target"]


def test_goals_come_from_the_precision_then_the_config_then_the_model():
    made = plan("validation: {goals: {cosine: 0.5, per_precision: {float16: {sqnr_db: 12}}}}")
    goals = ValidateRequest.model_validate_json(made.options("validate", Variant("digits", "float16", "cpu"))).goals
    assert (goals.sqnr_db, goals.cosine, goals.top1_drop) == (12, 0.5, 0.005)
    assert goals.equal == DEFAULT_GOALS["float16"].equal


def test_a_goal_set_to_null_is_dropped():
    made = plan("models: {digits: {goals: {repeatable: null}}}")
    goals = ValidateRequest.model_validate_json(made.options("validate", DIGITS)).goals
    assert DEFAULT_GOALS["float32"].repeatable is True
    assert goals.repeatable is None


def test_a_models_own_options_override_key_by_key():
    made = plan("benchmark: {repeat: 5, number: 2}\nmodels: {digits: {benchmark: {repeat: 9}}}")
    own = BenchmarkRequest.model_validate_json(made.options("benchmark", DIGITS)).measurement
    other = BenchmarkRequest.model_validate_json(
        made.options("benchmark", Variant("other", "float16", "cpu"))
    ).measurement
    assert (own.repeat, own.number, other.repeat) == (9, 2, 5)


def test_every_stage_with_options_is_a_stage_of_the_workflow():
    assert {stage.name: stage.request_model for stage in stages().values() if stage.request_model} == REQUESTS
    assert set(stages()) - set(REQUESTS) == {"attest"}


# --- the resolved config --------------------------------------------------------------------------------------------


def test_the_resolved_config_is_written_with_defaults_and_means_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = plan(
        "models: {digits: {goals: {equal: null}, dataset: {path: x.npz, limit: null}, benchmark: {warmup: 9}}}\n"
        "validation: {goals: {repeatable: null}}\nbenchmark: {repeat: 5}\nbuild: {dump: [ll]}"
    )
    made.write_resolved_config()
    written = Path("results/config.resolved.yaml")
    assert yaml.safe_load(written.read_text())["benchmark"]["profile"] == "quick"
    again = Plan(load([written]))
    assert again.variants == made.variants
    for stage in REQUESTS:
        for variant in made.variants:
            assert options(again, stage, variant) == options(made, stage, variant)


def test_an_exclusion_of_what_a_later_file_removes_is_no_mistake_in_snakemakes_merged_config(tmp_path):
    base, over = tmp_path / "base.yaml", tmp_path / "over.yaml"
    base.write_text(
        "tvmake:\n  models: {digits: {source: digits.onnx}}\n  precisions: [float16, float32]\n"
        "  variants: {exclude: [{precision: float16}]}\n"
    )
    over.write_text("tvmake: {precisions: [float32]}\n")
    merged = merge(yaml.safe_load(base.read_text()), yaml.safe_load(over.read_text()))["tvmake"]
    made = Plan.from_values(merged, [base, over])
    assert made.resolved_config()["variants"]["exclude"] == []
    assert Plan(check(made.resolved_config(), {})).variants == made.variants


def test_a_mistake_in_a_section_of_another_workflows_config_is_named_with_its_line(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "samples: 3\ntvmake:\n  models:\n    digits:\n      sorce: digits.onnx\n      source: digits.onnx\n"
    )
    with pytest.raises(TvmakeError, match=rf"^{re.escape(str(file))}:5: models\.digits\.sorce: unknown key"):
        Plan.from_values(yaml.safe_load(file.read_text())["tvmake"], [str(file)])
