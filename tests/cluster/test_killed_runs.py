"""Runs on a real Slurm that are killed and lose a node: two nodes, a device on one of them."""

import datetime
import itertools
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.conftest import PACKAGES, three_precisions_and_a_tuned_one
from tests.cluster.slurm import MAKE, Job, Slurm
from tests.patience import HANG_S, wait_until
from tests.workflow.faults import Faults, is_running, started
from tests.workflow.project import TRIALS, Project

pytestmark = pytest.mark.soak

PAUSED = "results/digits/float16/cpu/mod.so"


@dataclass
class Story:
    """What was seen of one project that had a hard time."""

    project: Project
    drained_at: datetime.datetime | None = None
    orphan_rewrote: bool = False
    jobs: list[Job] = field(default_factory=list)
    said: str = ""


@pytest.fixture(scope="module")
def story(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A run is killed while a job of its writes; the next one while a job tunes; the third one loses a node."""
    place = tmp_path_factory.mktemp("story")
    told = Story(three_precisions_and_a_tuned_one(place / "project"))
    project, here = told.project, told.project.directory
    faults = Faults(project, place / "faults")
    faults.before(PAUSED, "pause")

    with started(project, *MAKE) as first:
        faults.wait(PAUSED)
        os.killpg(first.pid, signal.SIGKILL)

    with started(project, *MAKE) as second:
        wait_until((here / PAUSED).exists)
        orphan = faults.process(PAUSED)
        assert is_running(orphan)
        before = (here / PAUSED).stat().st_ino
        faults.release(PAUSED)
        wait_until(lambda: not is_running(orphan))
        told.orphan_rewrote = (here / PAUSED).stat().st_ino != before
        wait_until(lambda: any(job.state != "PENDING" and "rule_tune" in job.comment for job in slurm.jobs(here)))
        os.killpg(second.pid, signal.SIGKILL)

    sent = len(slurm.jobs(here))
    with started(project, *MAKE) as third:
        wait_until(lambda: len(slurm.jobs(here)) > sent or third.poll() is not None)
        slurm.drain("n2")
        told.drained_at = datetime.datetime.now()
        try:
            out, err = third.communicate(timeout=HANG_S)
        finally:
            slurm.resume("n2")
        told.said = out + err
        assert third.returncode == 0, told.said
    told.jobs = slurm.jobs(here)
    return told


def test_jobs_run_on_both_nodes(story: Story):
    assert {job.node for job in story.jobs if job.state == "COMPLETED"} == {"n1", "n2"}


def test_a_device_is_never_used_twice_at_once_not_even_by_the_jobs_of_a_killed_run(story: Story):
    users = [job for job in story.jobs if "phone" in job.gres and job.start]
    assert {job.node for job in users} == {"n1"}
    for rule in ("rule_tune", "rule_pick_best", "group_device", "rule_benchmark"):
        assert any(rule.removeprefix("group_") in job.comment for job in users), rule
    for earlier, later in itertools.pairwise(sorted(users, key=lambda job: (job.start, job.end))):
        assert later.start >= earlier.end


def test_cheap_stages_share_a_job_or_need_none(story: Story):
    comments = {job.comment for job in story.jobs}
    assert any("package" in comment and "export" in comment for comment in comments)
    for rule in ("rule_export", "rule_deploy", "rule_report", "rule_budget"):
        assert not any(comment.startswith(rule) for comment in comments), rule


def test_a_drained_node_gets_no_more_jobs_and_the_run_goes_on_without_it(story: Story):
    late = [job for job in story.jobs if job.start and job.start > story.drained_at + datetime.timedelta(seconds=1)]
    assert late
    assert {job.node for job in late} == {"n1"}


def test_a_job_of_a_killed_run_that_still_writes_leaves_results_right(story: Story, local: Project):
    assert story.orphan_rewrote
    kept = [f"{Path(package).parent}/**/*" for package in PACKAGES] + ["results/digits/*", "results/digits/*/*.*"]
    ours, theirs = story.project.hermetic(*kept), local.hermetic(*kept)
    compared = {file for file in theirs if Path(file).name != "reference.npz"}
    assert {Path(file).name for file in compared} >= {
        "model.json",
        "module.params",
        "mod.so",
        "mod.json",
        "package.tar",
    }
    assert [file for file in sorted(compared) if ours.get(file) != theirs[file]] == []
    rows = story.project.result("results/summary.json")["rows"]
    assert [row["verdict"] for row in rows] == ["pass"] * 4
    assert story.project.leftovers() == []


def test_records_of_a_kernel_that_two_runs_tuned_are_whole(story: Story):
    done = story.project.run("tvmake", "records", "verify")
    assert done.returncode == 0, done.stdout + done.stderr
    receipts = list(story.project.directory.glob("results/tuning/tuned/round1/*.json"))
    kernels = [story.project.result(str(file)) for file in receipts if file.name != "budget.json"]
    assert len(kernels) >= 3
    assert {kernel["trials"] for kernel in kernels} == {TRIALS}


def test_what_a_cluster_made_is_up_to_date_here(story: Story):
    assert story.project.planned_rules() == {}
