"""The records of jobs determine what is up to date; other state may be deleted, and the plan is the same."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.project import Project
from tvmake.config.reading.load import load_layers
from tvmake.engine.up_to_date.noop import ANSWER
from tvmake.engine.up_to_date.scope import jobs_of
from tvmake.plan.plan import Plan
from tvmake.storage.directories import SNAKEMAKE_STATE
from tvmake.storage.notes.job_records import RECORDS, record_of
from tvmake.storage.notes.known_digests import DIGESTS

CACHES = {
    "answer": [str(ANSWER)],
    "digests": [str(DIGESTS)],
    "records of Snakemake": [str(SNAKEMAKE_STATE / "metadata")],
    "listings of code": [str(RECORDS / "code-*.json")],
    "everything but the records of jobs": [str(SNAKEMAKE_STATE / "[!t]*"), str(ANSWER), str(DIGESTS)],
}
"""A project's state other than the records of its jobs."""


def delete(project: Project, cache: str) -> None:
    for pattern in CACHES[cache]:
        for path in project.directory.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def unchanged(project: Project) -> None:
    """Nothing differs."""


def other_option(project: Project) -> None:
    project.edit("build.opt_level", 2)


def other_source(project: Project) -> None:
    with (project.directory / "digits-test.npz").open("ab") as file:
        file.write(b"\x00")


def altered_result(project: Project) -> None:
    (project.directory / "results/digits/float32/cpu/packing.json").write_bytes(b"altered")


def removed_result(project: Project) -> None:
    (project.directory / "results/digits/float32/cpu/package.tar").unlink()


@pytest.mark.parametrize(
    "change",
    [
        other_option,
        *(
            pytest.param(change, marks=pytest.mark.soak)
            for change in (unchanged, other_source, altered_result, removed_result)
        ),
    ],
)
def test_without_one_cache_after_the_other_the_plan_is_the_same(demo: Project, change: Callable[[Project], None]):
    change(demo)
    expected = demo.planned_rules()
    assert bool(expected) == (change is not unchanged)
    for cache in CACHES:
        delete(demo, cache)
        assert demo.planned_rules() == expected, cache


@pytest.mark.parametrize("change", [unchanged, other_source, altered_result, removed_result])
def test_without_any_cache_the_plan_is_the_same(single: Project, change: Callable[[Project], None]):
    change(single)
    expected = single.unmade_jobs()
    assert bool(expected) == (change is not unchanged)
    delete(single, "everything but the records of jobs")
    assert single.planned_rules() == expected


@pytest.mark.parametrize("cache", ["answer", "everything but the records of jobs"])
def test_other_times_of_all_files_as_after_a_checkout_or_a_copy_change_no_plan(single: Project, cache: str):
    chance = random.Random(1)
    for path in sorted(single.directory.rglob("*")):
        if not path.is_symlink():
            os.utime(path, (chance.uniform(1e9, 1.7e9),) * 2)
    delete(single, cache)
    assert single.planned_rules() == {}
    single.edit("benchmark.repeat", 4)
    assert single.planned_rules() == {"benchmark": 1, "select": 1, "report": 1}


def test_after_every_cache_is_deleted_a_run_makes_what_changed_and_nothing_else(
    single: Project, finished_single: Project
):
    delete(single, "everything but the records of jobs")
    single.edit("benchmark.repeat", 4)
    done = single.make()
    assert done.returncode == 0, done.stderr
    assert "build" not in done.stderr
    assert len(single.result("results/digits/float32/cpu/latency.json")["report"]["samples_ms"]) == 4
    assert single.hermetic("results/digits/**/*") == finished_single.hermetic("results/digits/**/*")
    assert single.planned_rules() == {}


@pytest.mark.parametrize("project", ["finished", "finished_tuned"])
def test_a_record_holds_all_that_the_plan_says_of_a_job(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, project: str
):
    monkeypatch.chdir(request.getfixturevalue(project).directory)
    plan = Plan(load_layers([Path("tvmake.yaml")], {}))
    for job in jobs_of(plan, plan.variants):
        record = record_of(job.outputs)
        assert record is not None, job.outputs
        assert set(record.inputs) == set(job.inputs) - set(job.untimed), job.outputs
        assert set(record.outputs) == set(job.outputs)
        assert (record.options, record.code) == (job.options, job.fingerprint), job.outputs
        assert record.parameters == {name: str(value) for name, value in job.parameters.items()}
