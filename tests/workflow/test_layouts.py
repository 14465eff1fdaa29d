"""A tuned target whose layout is chosen by measuring, beside an untuned one that keeps its own."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.project import Project
from tests.workflow.test_tuning import TRIALS, TUNED, tuned_project

pytestmark = pytest.mark.long

LAYOUTS = ("NCHW", "NHWC")
FILES = ("module.json", "module.params", "signature.json")


@pytest.fixture(scope="module")
def finished_auto(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has chosen once; tests work on copies."""
    project = tuned_project(tmp_path_factory.mktemp("auto") / "project")
    project.edit("benchmark.baseline", False)
    project.edit("transform.layout", "auto")
    project.edit("tuning.layout_trials", 2)
    project.edit("targets.tuned.tuning.layout_trials", 2)
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "choose_layout" in line]
    assert line.startswith("✓ choose_layout digits float32 tuned")
    assert all(layout in line for layout in LAYOUTS)
    assert " ms against " in line
    return project


@pytest.fixture
def auto(finished_auto: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy, with a copy of the records."""
    shutil.copytree(finished_auto.directory.parent, tmp_path / "copy", symlinks=True)
    yield Project(tmp_path / "copy" / "project")


def records(project: Project) -> dict[str, int]:
    """The sizes of the store's files."""
    return {path: len(data) for path, data in project.files("../home/records/**/records.jsonl").items()}


def test_every_layout_is_estimated_and_the_fastest_is_taken_unchanged(finished_auto: Project):
    choice = finished_auto.result(f"{TUNED}/layout.json")
    figures = {estimate["layout"]: estimate["estimate_ms"] for estimate in choice["estimates"]}
    assert set(figures) == set(LAYOUTS)
    assert figures[choice["layout"]] == min(figures.values())
    for name in FILES:
        chosen = finished_auto.directory / f"results/digits/float32/layouts/{choice['layout']}" / name
        assert (finished_auto.directory / TUNED / name).read_bytes() == chosen.read_bytes()


def test_kernels_and_package_are_those_of_the_chosen_layout(finished_auto: Project):
    choice = finished_auto.result(f"{TUNED}/layout.json")
    (own,) = [estimate for estimate in choice["estimates"] if estimate["layout"] == choice["layout"]]
    tasks = {task["workload"] for task in finished_auto.result(f"{TUNED}/tasks.json")["tasks"]}
    assert {kernel["workload"] for kernel in own["kernels"]} <= tasks
    manifest = finished_auto.result(f"{TUNED}/mod.json")
    assert manifest["coverage"]["tuned"] == manifest["coverage"]["tunable"] >= 3


def test_the_trials_of_the_chosen_layout_count_as_tuning(finished_auto: Project):
    choice = finished_auto.result(f"{TUNED}/layout.json")
    (own,) = [estimate for estimate in choice["estimates"] if estimate["layout"] == choice["layout"]]
    for kernel in own["kernels"]:
        receipt = finished_auto.result(f"results/tuning/tuned/round1/{kernel['workload']}.json")
        assert (receipt["trials"], receipt["measured_now"]) == (TRIALS, TRIALS - 2)


def test_the_summary_says_which_layout_each_variant_has(finished_auto: Project):
    rows = {row["target"]: row for row in finished_auto.result("results/summary.json")["rows"]}
    assert rows["tuned"]["layout"] == finished_auto.result(f"{TUNED}/layout.json")["layout"]
    assert rows["cpu"]["layout"] == "keep"
    assert {row["verdict"] for row in rows.values()} == {"pass"}
    assert (
        "<h3>Layout</h3>" in (finished_auto.directory / "results/index.html").read_text()
        or "Layout" in (finished_auto.directory / "results/index.html").read_text()
    )


def test_a_finished_project_has_nothing_to_do(auto: Project):
    assert auto.planned_rules() == {}


def test_without_results_the_choice_is_the_same_and_nothing_is_measured(auto: Project):
    before, measured = auto.result(f"{TUNED}/layout.json"), records(auto)
    shutil.rmtree(auto.directory / "results")
    done = auto.make(f"{TUNED}/layout.json")
    assert done.returncode == 0, done.stderr
    assert auto.result(f"{TUNED}/layout.json") == before
    assert records(auto) == measured


RETUNED = {"budget": 1, "pick_best": 1, "select": 1, "report": 1}
AFTER = {"build": 1, "export": 1, "attest": 1, "deploy": 1, "validate": 1, "benchmark": 1}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("targets.tuned.tuning.layout_trials", 3, {"choose_layout", "extract", *RETUNED, *AFTER}),
        ("targets.tuned.tuning.trials_per_kernel", TRIALS + 2, {*RETUNED, *AFTER}),
        ("transform.fold_batch_norm", False, {"transform", "choose_layout", "extract", *RETUNED, *AFTER}),
        ("benchmark.repeat", 4, {"benchmark", "select", "report"}),
    ],
)
def test_a_config_change_reruns_what_reads_it(auto: Project, key: str, value: object, expected: set[str]):
    auto.edit(key, value)
    assert set(auto.planned_rules()) - {"tune"} == expected


def test_a_fixed_layout_needs_no_choice_and_reuses_its_records(auto: Project):
    chosen = auto.result(f"{TUNED}/layout.json")["layout"]
    measured = records(auto)
    auto.edit("transform.layout", chosen)
    rules = auto.planned_rules()
    assert "choose_layout" not in rules
    assert rules["transform"] == 1
    done = auto.make(f"{TUNED}/best.json")
    assert done.returncode == 0, done.stderr
    assert records(auto) == measured


def test_the_comparison_includes_a_user_pass_of_the_build(auto: Project):
    (auto.directory / "mypass.py").write_text("def nothing():\n    return lambda module: module\n")
    auto.edit("transform.passes", [{"use": "mypass:nothing", "at": "before_legalize"}])
    assert "choose_layout" in auto.planned_rules()
    assert json.loads((auto.directory / TUNED / "layout.json").read_text())["layout"] in LAYOUTS


@pytest.mark.soak
def test_a_locked_run_takes_the_layout_that_the_lock_names_and_measures_nothing(auto: Project):
    done = auto.run("tvmake", "lock")
    assert done.returncode == 0, done.stderr
    chosen = auto.result(f"{TUNED}/layout.json")["layout"]
    before = records(auto)
    shutil.rmtree(auto.directory / "results")
    done = auto.make("--locked", "run.lock")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "files are the same, byte for byte" in done.stdout
    choice = auto.result(f"{TUNED}/layout.json")
    assert (choice["layout"], choice["estimates"], choice["because"]) == (chosen, [], "as the lock says")
    assert records(auto) == before
