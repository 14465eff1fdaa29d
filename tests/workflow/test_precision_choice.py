"""A variant with measured precisions beside one without: its goals, and its reruns."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from onnx import helper

from tests.frontend.onnx import models as onnx_models
from tests.workflow.project import Project

pytestmark = pytest.mark.long

CHOSEN = "results/net/mixed/cpu"

CONFIG = {
    "models": {"net": {"source": "net.onnx", "dataset": {"path": "rows.npz"}, "goals": {"sqnr_db": 20.0}}},
    "precisions": {"float32": {}, "mixed": {"base": "auto", "among": ["float32", "int8"]}},
    "targets": {"cpu": {"kind": "llvm", "mcpu": "native"}},
    "benchmark": {"repeat": 3, "warmup": 1, "baseline": False},
}

FROM_PACKAGE = {"export", "attest", "deploy", "validate", "benchmark"}
GATHERED = {"select", "report"}


def write_data(directory: Path, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(4, 32)).astype(np.float32)
    np.savez(directory / "rows.npz", images=rows)


@pytest.fixture(scope="module")
def finished_auto(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has chosen once; tests work on copies."""
    directory = tmp_path_factory.mktemp("auto") / "project"
    directory.mkdir()
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["y"]),
    ]
    weights = {f"w{number}": onnx_models.random(32, 32, seed=number) / 6 for number in (1, 2)}
    network = onnx_models.model(nodes, {"x": (onnx_models.FLOAT, [1, 32])}, ["y"], weights)
    onnx_models.save(directory / "net.onnx", network)
    write_data(directory, 1)
    (directory / "tvmake.yaml").write_text(yaml.safe_dump(CONFIG))
    project = Project(directory)
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "net/mixed/cpu: " in done.stdout
    return project


@pytest.fixture
def auto(finished_auto: Project, tmp_path: Path) -> Iterator[Project]:
    shutil.copytree(finished_auto.directory.parent, tmp_path / "copy", symlinks=True)
    yield Project(tmp_path / "copy" / "project")


def test_a_finished_project_has_nothing_to_do(auto: Project):
    assert auto.planned_rules() == {}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("models.net.goals.sqnr_db", 30.0, {"choose_precision", "build", "validate"} | FROM_PACKAGE | GATHERED),
        ("precisions.mixed.among", ["float32", "float16"], {"calibrate"}),
        ("devices", {"local": {"threads": 1}}, {"choose_precision", "build"} | FROM_PACKAGE | GATHERED),
        ("benchmark.repeat", 4, {"benchmark"} | GATHERED),
    ],
)
def test_a_config_change_reruns_what_reads_it(auto: Project, key: str, value: object, expected: set[str]):
    auto.edit(key, value)
    rules = auto.planned_rules()
    if expected == {"calibrate"}:
        assert "calibrate" not in rules  # without int8 no ranges are needed
        assert "choose_precision" in rules
    else:
        assert set(rules) - {"self_test"} == expected
    assert rules.get("transform", 0) == 0  # float32's network is unchanged


def test_another_dataset_is_measured_again_and_other_precisions_are_not_rebuilt(auto: Project):
    write_data(auto.directory, 2)
    rules = auto.planned_rules()
    assert {"reference", "calibrate", "choose_precision"} <= set(rules)
    assert "transform" not in rules


@pytest.mark.soak
def test_goals_that_nothing_meets_make_the_nearest_and_end_with_exit_code_4(auto: Project):
    auto.edit("models.net.goals.package_mb", 1e-6)
    done = auto.make()
    assert done.returncode == 4, done.stderr
    choice = auto.result(f"{CHOSEN}/precision.json")
    assert choice["because"].startswith("none meets the goals, and this one misses them least: package_mb")
    assert "missed package_mb" in done.stdout


def test_explain_names_the_stage_of_the_choice(auto: Project):
    done = auto.run("tvmake", "explain", f"{CHOSEN}/precision.json")
    assert "choose_precision model=net precision=mixed target=cpu" in done.stdout
