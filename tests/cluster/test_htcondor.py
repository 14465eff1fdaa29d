"""The profile for HTCondor: what it submits, and what it reads from event logs. Debian 12 has no HTCondor to run."""

import runpy
from pathlib import Path

import pytest

from tests.workflow.project import ROOT, new_project
from tvmake.engine.progress.cluster_errors import cluster_error

PROFILE = ROOT / "profiles/htcondor"
MODEL = "results/digits/model.json"

# As HTCondor 23 writes them.
SUBMITTED = "000 (012.000.000) 2026-11-30 07:00:00 Job submitted from host: <10.0.0.1:9618?addrs=10.0.0.1-9618>\n...\n"
STARTED = "001 (012.000.000) 2026-11-30 07:00:09 Job executing on host: <10.0.0.2:9618?addrs=10.0.0.2-9618>\n...\n"
ENDED = (
    "005 (012.000.000) 2026-11-30 07:01:00 Job terminated.\n"
    "\t(1) Normal termination (return value {})\n"
    "\t\tUsr 0 00:00:07, Sys 0 00:00:01  -  Run Remote Usage\n...\n"
)
SIGNALLED = "005 (012.000.000) 2026-11-30 07:01:00 Job terminated.\n\t(0) Abnormal termination (signal 9)\n...\n"
HELD = "012 (012.000.000) 2026-11-30 07:01:00 Job was held.\n\t{}\n\tCode 34 Subcode 102\n...\n"
REMOVED = "009 (012.000.000) 2026-11-30 07:01:00 Job was aborted.\n\tvia condor_rm (by user me)\n...\n"
MEMORY = "Error from slot1_1@node: Job has gone over memory limit of 128 megabytes. Peak usage: 512 megabytes."
DURATION = "The job exceeded allowed execute duration of 00:20:00"


@pytest.mark.parametrize(
    "events, state",
    [
        ("", "running"),
        (SUBMITTED + STARTED, "running"),
        (SUBMITTED + STARTED + ENDED.format(0), "success"),
        (SUBMITTED + STARTED + ENDED.format(1), "failed"),
        (SUBMITTED + STARTED + SIGNALLED, "failed"),
    ],
)
def test_a_jobs_state_is_its_last_event(events: str, state: str):
    assert runpy.run_path(str(PROFILE / "status.py"))["read"](events) == (state, "")


@pytest.mark.parametrize(
    "event, problem",
    [
        (HELD.format(MEMORY), "killed by the cluster: it used more memory than its limit"),
        (HELD.format(DURATION), "stopped by the cluster at its time limit"),
    ],
)
def test_a_job_that_is_held_for_a_limit_names_it(event: str, problem: str, tmp_path: Path):
    state, reason = runpy.run_path(str(PROFILE / "status.py"))["read"](SUBMITTED + STARTED + event)
    assert state == "failed"
    (tmp_path / "12.log").write_text(reason)
    error = cluster_error("build digits", "build", "", [tmp_path / "12.log"])
    assert error is not None
    assert error.problem == problem


def test_a_job_that_somebody_removes_says_so():
    assert runpy.run_path(str(PROFILE / "status.py"))["read"](SUBMITTED + REMOVED) == (
        "failed",
        "ended by HTCondor: via condor_rm (by user me)",
    )


def test_a_job_requests_time_memory_cores_and_devices():
    submit = runpy.run_path(str(PROFILE / "submit.py"))
    properties = {
        "rule": "tune",
        "threads": 1,
        "resources": {"mem_mb": 1500, "runtime": 20, "_cores": 4, "gres": "phone:2"},
    }
    environment = {"TVMAKE_HTCONDOR_OPTIONS": '+Project = "mine"; requirements = HasPhone'}
    text = submit["description"](properties, "/shared/p/job.sh", "/shared/p", environment)
    lines = text.splitlines()
    wanted = {
        "request_memory = 1500MB",
        "request_cpus = 4",
        "allowed_execute_duration = 1200",
        "request_phone = 2",
        "initialdir = /shared/p",
        '+Project = "mine"',
        "requirements = HasPhone",
    }
    assert wanted <= set(lines)
    assert lines[-1] == "queue"


@pytest.mark.long
def test_the_profile_plans_a_run_and_names_the_missing_command(plugins: None, tmp_path: Path):
    project = new_project(tmp_path / "project")
    planned = project.make("--profile", "htcondor", "-n", MODEL)
    assert planned.returncode == 0, planned.stderr
    assert "import digits" in planned.stderr
    refused = project.make("--profile", "htcondor", "--retries", "0", MODEL)
    assert refused.returncode == 3, refused.stderr
    assert "error: htcondor: no `condor_submit` on the path" in refused.stderr
