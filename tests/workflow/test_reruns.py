"""What reruns when X changes: golden lists."""

import os
import shutil
from pathlib import Path

import pytest

from tests.workflow.project import ROOT, Project

ONE_PRECISION = dict.fromkeys(
    ("transform", "build", "export", "attest", "deploy", "validate", "benchmark", "select", "report"), 1
)
GATHERED = {"select": 1, "report": 1}
NEW_MEASUREMENT = {"benchmark": 2, **GATHERED}
NEW_NUMERICS = {"validate": 2, **GATHERED}
NEW_DEVICE = {"deploy": 2, "validate": 2, **NEW_MEASUREMENT}
NEW_DATASET = {"reference": 1, "validate": 2, **NEW_MEASUREMENT}
NEW_PACKAGE = {"export": 2, "attest": 2, **NEW_DEVICE}
AFTER_TRANSFORM = {"build": 2, **NEW_PACKAGE}
EVERYTHING = {"import": 1, "reference": 1, "self_test": 1, "transform": 2, **AFTER_TRANSFORM}


def test_a_second_run_executes_nothing(demo: Project):
    assert demo.planned_rules() == {}


def test_a_touched_model_with_the_same_content_executes_nothing(demo: Project):
    os.utime(demo.directory / "digits.onnx")
    assert demo.planned_rules() == {}


CONFIG_CHANGES: list[tuple[str, object, dict[str, int]]] = [
    ("models.digits.inputs", {"image": {"range": [0, 1]}}, EVERYTHING),
    ("models.digits.dataset.limit", 8, NEW_DATASET),
    ("models.digits.goals", {"top1_drop": 0.2}, NEW_NUMERICS),
    (
        "models.digits.goals",
        {"per_precision": {"float16": {"top1_drop": 0.2}}, "top1_drop": 0.1},
        {"validate": 1, **GATHERED},
    ),
    (
        "models.digits.goals",
        {"top1_drop": 0.1, "latency_ms": {"p99": 1000}, "speedup": 0.001},
        GATHERED,
    ),
    ("validation.goals", {"cosine": 0.9}, NEW_NUMERICS),
    ("models.digits.export", {"self_test": {"max_mb": 2}}, {"self_test": 1, **NEW_PACKAGE}),
    ("export.self_test", False, NEW_PACKAGE),
    ("transform.layout", "NHWC", {"transform": 2, **AFTER_TRANSFORM}),
    ("transform.layout", "auto", {}),
    ("transform.fold_batch_norm", False, {"transform": 2, **AFTER_TRANSFORM}),
    ("models.digits.transform", {"layout": "NHWC"}, {"transform": 2, **AFTER_TRANSFORM}),
    ("build.dump", ["ll"], AFTER_TRANSFORM),
    ("build.opt_level", 2, AFTER_TRANSFORM),
    ("targets.cpu.mcpu", "x86-64", AFTER_TRANSFORM),
    ("devices", {"local": {"threads": 1}}, NEW_DEVICE),
    ("benchmark.repeat", 4, NEW_MEASUREMENT),
    ("benchmark.profile", "quick", {}),
    ("benchmark.baseline", False, NEW_MEASUREMENT),
    ("benchmark.baseline", True, {}),
    ("models.digits.benchmark", {"baseline": False}, NEW_MEASUREMENT),
    ("models.digits.benchmark", {"warmup": 2}, NEW_MEASUREMENT),
    (
        "precisions",
        ["float32", "float16", "float16_acc32"],
        ONE_PRECISION,
    ),
    ("precisions", ["float32"], GATHERED),
    ("variants.exclude", [{"precision": "float16"}], GATHERED),
    (
        "precisions",
        {"float32": {}, "float16": {"never": ["nn.relu"]}},
        ONE_PRECISION,
    ),
    (
        "targets.generic",
        {"kind": "llvm"},
        AFTER_TRANSFORM,
    ),
    (
        "targets.cuda",
        {"kind": "cuda", "arch": "sm_80"},
        {"build": 2, "export": 2, "attest": 2, **GATHERED},
    ),
    ("models.other", {"source": "digits.pt2"}, EVERYTHING),
]
"""A key, its new value, and the jobs that this reruns."""

PLANNED_EACH_TIME = ("models.digits.inputs", "transform.layout", "benchmark.repeat", "precisions", "targets.cuda")
"""The keys of the changes that are planned with Snakemake too in each run of the tests: each kind of change."""


@pytest.mark.parametrize(("key", "value", "expected"), CONFIG_CHANGES, ids=lambda value: str(value)[:40])
def test_a_config_change_reruns_exactly_what_reads_it(demo: Project, key: str, value: object, expected: dict[str, int]):
    demo.edit(key, value)
    assert demo.unmade_jobs() == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        pytest.param(*change, marks=() if change[0] in PLANNED_EACH_TIME else pytest.mark.soak)
        for change in CONFIG_CHANGES
    ],
    ids=lambda value: str(value)[:40],
)
def test_snakemake_runs_the_jobs_that_the_plan_lists(demo: Project, key: str, value: object, expected: dict[str, int]):
    demo.edit(key, value)
    assert demo.planned_rules() == expected


def test_a_comment_or_another_order_of_keys_reruns_nothing(demo: Project):
    config = demo.config
    text = "# a comment\n" + (demo.directory / "tvmake.yaml").read_text()
    demo.write_config(dict(reversed(config.items())))
    assert demo.unmade_jobs() == {}
    (demo.directory / "tvmake.yaml").write_text(text)
    assert demo.planned_rules() == {}


def test_a_changed_model_file_reruns_everything(demo: Project):
    with (demo.directory / "digits.onnx").open("ab") as file:
        file.write(b"\x1a\x00")
    assert demo.planned_rules() == EVERYTHING


def test_a_changed_dataset_reruns_reference_validation_and_benchmark(demo: Project):
    with (demo.directory / "digits-test.npz").open("ab") as file:
        file.write(b"\x00")
    assert demo.planned_rules() == NEW_DATASET


def test_a_changed_user_pass_reruns_the_stage_it_is_in(demo: Project):
    library = "results/digits/float32/cpu/mod.so"
    (demo.directory / "mypass.py").write_text("def nothing():\n    return lambda module: module\n")
    demo.edit("transform.passes", [{"use": "mypass:nothing", "at": "before_legalize"}])
    assert demo.unmade_jobs() == AFTER_TRANSFORM
    assert demo.make(library).returncode == 0
    assert demo.planned_rules(library) == {}
    (demo.directory / "mypass.py").write_text("def nothing():\n    return lambda module: module  # new\n")
    assert demo.planned_rules(library) == {"build": 1}
    assert demo.unmade_jobs() == AFTER_TRANSFORM


def copy_package(copy_root: Path) -> Path:
    """Copy tvmake with its workflow; returns the package's directory."""
    shutil.copytree(ROOT / "workflow", copy_root / "workflow")
    for name in ("rules", "profiles", "envs"):
        shutil.copytree(ROOT / name, copy_root / name)
    shutil.copy(ROOT / "Snakefile", copy_root / "Snakefile")
    return copy_root / "workflow" / "tvmake"


@pytest.fixture(scope="module")
def package_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a copy of the package, for all tests of this file: its modules are compiled once."""
    return copy_package(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def package(package_copy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copy, as the package that commands use."""
    monkeypatch.setenv("PYTHONPATH", str(package_copy.parent))
    return package_copy


def test_the_same_package_elsewhere_reruns_nothing(demo: Project, package: Path):
    assert demo.planned_rules() == {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("frontend/onnx/importer.py", EVERYTHING),
        ("frontend/torch/importer.py", {}),
        ("transform/precision.py", {"transform": 2, **AFTER_TRANSFORM}),
        ("codegen/link.py", AFTER_TRANSFORM),
        ("artifact/package.py", AFTER_TRANSFORM),
        ("validate/numerics.py", NEW_NUMERICS),
        ("benchmark/statistics.py", NEW_MEASUREMENT),
        ("benchmark/baseline/onnx_model.py", NEW_MEASUREMENT),
        ("benchmark/baseline/torch_model.py", {}),
        ("device/local/worker.py", NEW_DEVICE),
        ("provenance/components.py", {"attest": 2}),
        ("report/page/results_page.py", {"report": 1}),
        ("cli/make.py", {}),
    ],
)
def test_a_change_in_the_package_reruns_the_stages_that_use_it(
    demo: Project, package: Path, module: str, expected: dict[str, int]
):
    source = (package / module).read_text()
    (package / module).write_text(f"{source}\n# changed\n")
    try:
        assert demo.unmade_jobs() == expected
    finally:
        (package / module).write_text(source)


@pytest.mark.long
@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("apache-tvm", {**EVERYTHING, "reference": 1}),
        ("apache-tvm-ffi", {**EVERYTHING, "reference": 1}),
        ("onnxruntime", {"self_test": 1, **NEW_DATASET, **NEW_PACKAGE}),
        ("cyclonedx-python-lib", {"attest": 2}),
        ("torch", {}),
    ],
)
def test_another_library_version_reruns_the_stages_that_use_it(
    demo: Project, tmp_path: Path, distribution: str, expected: dict[str, int]
):
    metadata = tmp_path / "site" / f"{distribution.replace('-', '_')}-99.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 99.0\n")
    demo.environment["PYTHONPATH"] = str(tmp_path / "site")
    assert demo.unmade_jobs() == expected
