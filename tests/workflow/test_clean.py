"""``tvmake clean`` on results of the real workflow."""

import json

import pytest

from tests.workflow.project import Project
from tvmake.storage.notes.job_records import record_job


def test_all_results_of_a_finished_run_are_recognised_and_planned(tuned: Project):
    done = tuned.run("tvmake", "clean", "--stale")
    assert done.returncode == 0, done.stderr
    assert "nothing is stale" in done.stdout and "left alone" not in done.stdout


def test_a_target_that_was_removed_leaves_nothing_behind(tuned: Project):
    tuned.edit("targets.tuned", None)
    records = tuned.directory.parent / "home" / "records"
    before, kept = tuned.files("**/*"), len(list(records.rglob("*")))
    done = tuned.run("tvmake", "clean", "--stale", "--yes")
    assert done.returncode == 0, done.stderr
    left = {path: data for path, data in before.items() if "tuned" not in path and "/tuning/" not in path}
    own = {path for path in tuned.files("**/*") if ".snakemake" not in path}
    assert own == {path for path in left if ".snakemake" not in path}
    assert kept and len(list(records.rglob("*"))) == kept
    assert set(tuned.planned_rules()) == {"select", "report"}


def test_kernels_of_a_changed_network_are_stale_once_their_round_is_planned_again(
    tuned: Project, monkeypatch: pytest.MonkeyPatch
):
    tuning = tuned.directory / "results" / "tuning" / "tuned" / "round1"
    old = tuning / f"{'0' * 64}.json"
    monkeypatch.chdir(tuned.directory)
    with record_job([], [old.relative_to(tuned.directory)]):
        old.write_text("{}")
    (tuned.directory / "logs" / "tuning" / "tuned" / "round1" / f"{'0' * 64}.log").write_text("")
    done = tuned.run("tvmake", "clean", "--stale")
    assert str(old.relative_to(tuned.directory)) in done.stdout and "2 stale" in done.stdout
    for workload in json.loads((tuning / "budget.json").read_text())["kernels"]:
        assert workload not in done.stdout
