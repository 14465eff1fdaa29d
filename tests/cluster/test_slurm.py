"""The workflow on a real Slurm: two nodes, a device on one of them, and what goes wrong on clusters."""

import itertools
from pathlib import Path

import pytest

from tests.cluster.conftest import PACKAGES
from tests.cluster.slurm import MAKE, OPTIONS, Slurm
from tests.patience import HANG_S
from tests.workflow.faults import Faults, started
from tests.workflow.project import Project, new_project

pytestmark = pytest.mark.long


MODEL = "results/digits/model.json"
TUNED = "results/digits/float32/tuned/best.json"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that has not run yet."""
    return new_project(tmp_path / "project")


def test_a_job_runs_on_a_node_and_its_results_are_up_to_date_here(slurm: Slurm, project: Project):
    done = project.make(*OPTIONS, MODEL)
    assert done.returncode == 0, done.stderr
    (job,) = slurm.jobs(project.directory)
    assert job.state == "COMPLETED" and "import_model" in job.comment
    assert project.planned_rules(MODEL) == {}


@pytest.mark.soak
def test_a_device_is_never_used_twice_at_once_and_results_are_up_to_date_here(slurm: Slurm, packaged: Project):
    """Without kills: test_killed_runs.py has what goes wrong."""
    done = packaged.make(*OPTIONS, TUNED)
    assert done.returncode == 0, done.stderr
    users = [job for job in slurm.jobs(packaged.directory) if "phone" in job.gres and job.start]
    assert len(users) >= 3
    assert {job.node for job in users} == {"n1"}
    assert any("rule_tune" in job.comment for job in users)
    for earlier, later in itertools.pairwise(sorted(users, key=lambda job: (job.start, job.end))):
        assert later.start >= earlier.end
    assert packaged.planned_rules(TUNED) == {}


@pytest.mark.soak
def test_jobs_killed_for_memory_and_time_say_so_and_how_to_ask_for_more(
    slurm: Slurm, packaged: Project, tmp_path: Path
):
    (packaged.directory / PACKAGES[2]).unlink()
    reference = "results/digits/reference.npz"
    faults = Faults(packaged, tmp_path / "faults")
    faults.before(reference, "pause")
    command = (*MAKE, reference, PACKAGES[2], "--set-resources", "export:mem_mb=50", "build:mem_mb=50")
    with started(packaged, *command) as run:
        faults.wait(reference)
        for job in slurm.running(packaged.directory, "reference"):
            slurm.end_time_now(job)
        _, said = run.communicate(timeout=HANG_S)
    assert run.returncode == 3, said
    assert "killed by the cluster: it used more memory than its 50 MB" in said
    assert "request more memory: --set-resources" in said
    assert "reference digits: stopped by the cluster at its time limit" in said
    assert "request more minutes: --set-resources reference:runtime=" in said
    assert "Traceback" not in said


def test_a_directory_that_nodes_do_not_share_is_named(slurm: Slurm):
    project = new_project(slurm.elsewhere / "project")
    done = project.make(*OPTIONS, MODEL, "--default-resources", "slurm_partition=far")
    assert done.returncode == 3, done.stderr
    assert f"left no log in {project.directory}: its node cannot see this directory" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_records_store_that_nodes_do_not_share_is_named(slurm: Slurm, packaged: Project):
    packaged.environment["TVMAKE_HOME"] = str(slurm.elsewhere / "home")
    (packaged.directory / MODEL).unlink()
    done = packaged.make(*OPTIONS, MODEL, "--default-resources", "slurm_partition=far")
    assert done.returncode != 0
    assert f"error: {slurm.elsewhere / 'home' / 'records'}: the records store of" in done.stderr
    assert "is not the one on node far" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--default-resources", "slurm_partition=gpus"], "slurm: no partition 'gpus'\n  this cluster has far, main"),
        pytest.param(
            ["--set-resources", "build:slurm_partition=gpus"], "slurm: no partition 'gpus'", marks=pytest.mark.soak
        ),
        (["--set", "devices.phone.gres=board:2"], "devices.phone.gres: no node has the generic resource 'board'\n"),
    ],
)
def test_what_the_cluster_does_not_have_is_named_before_a_job_is_sent(
    slurm: Slurm, project: Project, options: list[str], words: str
):
    project.edit("targets.cpu.device", "phone")
    project.edit("devices", {"phone": {"via": "local", "gres": "phone:1"}})
    done = project.make(*OPTIONS, *options)
    assert done.returncode in (1, 2), done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 2
    assert slurm.jobs(project.directory) == []
