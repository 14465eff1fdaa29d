"""Entries that must not be in the way of a plan's results and logs."""

from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import check
from tvmake.errors import ErrorList, InputError
from tvmake.plan.directory_checks import check_output_paths
from tvmake.plan.plan import Plan

TEXT = """
models: {digits: {source: digits.onnx}}
targets: {cpu: {kind: llvm, mcpu: native}}
"""
VARIANT = "results/digits/float32/cpu"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    return Plan(check(yaml.safe_load(TEXT), {}))


def test_nothing_is_in_the_way_of_a_new_project_nor_of_a_finished_one(plan: Plan):
    check_output_paths(plan, plan.variants)
    for path, output in plan.outputs_of(plan.variants[0]).items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).mkdir() if output.is_directory else Path(path).touch()
        if output.is_directory:
            (Path(path) / "kernel.cl").touch()
    check_output_paths(plan, plan.variants)


def test_an_empty_directory_is_in_nobodys_way(plan: Plan):
    Path(VARIANT, "mod.so").mkdir(parents=True)
    check_output_paths(plan, plan.variants)


@pytest.mark.parametrize("name", [f"{VARIANT}/mod.so", "results/summary.json", "logs/digits/import.log"])
def test_a_directory_with_something_in_it_is_named(plan: Plan, name: str):
    Path(name, "mine").mkdir(parents=True)
    with pytest.raises(InputError, match=f"^{name}: is a directory, but must be a file\n  move it elsewhere$"):
        check_output_paths(plan, plan.variants)


def test_a_file_instead_of_the_results_directory_is_reported_with_the_key(plan: Plan):
    Path("results").touch()
    with pytest.raises(InputError, match=r"^results: results: is a file"):
        check_output_paths(plan, plan.variants)


@pytest.mark.parametrize("name", ["results/digits", "logs"])
def test_a_file_instead_of_a_directory_is_reported_once(plan: Plan, name: str):
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).touch()
    with pytest.raises(InputError, match=f"^{name}: is not a directory"):
        check_output_paths(plan, plan.variants)


def test_links_to_directories_are_directories_and_those_that_lead_nowhere_are_named(plan: Plan):
    Path("elsewhere").mkdir()
    Path("results").symlink_to("elsewhere")
    check_output_paths(plan, plan.variants)
    Path("logs").symlink_to("logs")
    with pytest.raises(InputError, match=r"^logs: is a broken link"):
        check_output_paths(plan, plan.variants)


def test_all_that_is_in_the_way_is_named_at_once(plan: Plan):
    Path("logs").touch()
    Path("results/summary.json/mine").mkdir(parents=True)
    with pytest.raises(ErrorList) as caught:
        check_output_paths(plan, plan.variants)
    assert len(caught.value.errors) == 2
