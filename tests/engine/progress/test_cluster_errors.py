"""Outcomes of cluster jobs, from clusters' messages. The texts are from Slurm 20 to 24."""

from pathlib import Path

import pytest

from tvmake.engine.progress import cluster_errors
from tvmake.engine.progress.cluster_errors import cluster_error
from tvmake.engine.progress.failures import failures

JOB = "build digits float32 cpu"
STATUS = "SLURM-job '7' failed, SLURM status is: '{}'. Detailed failure reason unavailable"
SBATCH = "SLURM sbatch failed. The error message was 'sbatch: error: {}'.\n    sbatch call:\n        sbatch -p x"


@pytest.mark.parametrize(
    ("said", "problem", "remedy"),
    [
        (STATUS.format("OUT_OF_MEMORY"), "more memory than its limit", "--set-resources build:mem_mb="),
        (STATUS.format("TIMEOUT"), "time limit", "--set-resources build:runtime="),
        (STATUS.format("NODE_FAIL"), "its node failed", "run the same command again"),
        (STATUS.format("PREEMPTED"), "preempted", "run the same command again"),
        (STATUS.format("CANCELLED"), "cancelled", "run the same command again"),
        (SBATCH.format("invalid partition specified: gpus"), "no such partition", "slurm_partition=NAME"),
        (SBATCH.format("Invalid generic resource (gres) specification"), "generic resource", "devices.<name>.gres"),
        (SBATCH.format("Invalid account or account/partition combination"), "account", "slurm_account=NAME"),
        (SBATCH.format("Requested time limit is invalid (missing or exceeds some limit)"), "more time", "runtime=60"),
        (SBATCH.format("Requested node configuration is not available"), "no node has", "build:mem_mb=…"),
        (SBATCH.format("Memory specification can not be satisfied"), "no node has", "--set-threads build=…"),
        (SBATCH.format("Unable to contact slurm controller (connect failure)"), "does not answer", "scontrol ping"),
        ("/bin/sh: 1: sbatch: not found", "no `sbatch`", "login node"),
    ],
)
def test_what_slurm_says_of_a_job_becomes_one_cause_and_one_remedy(said: str, problem: str, remedy: str):
    error = cluster_error(JOB, "build", said, [])
    assert error is not None
    assert problem in error.problem
    assert remedy in (error.remedy or "")
    assert error.exit_code == 3
    assert "\n" not in error.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "slurmstepd-n1: error: StepId=24.batch exceeded memory limit (123387904 > 104857600), being killed\n"
            "slurmstepd-n1: error: *** JOB 24 ON n1 CANCELLED AT 2026-11-21T19:00:35 ***\n",
            "used more memory than its 100 MB",
        ),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=3.batch.", "used more memory than its limit"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in step 3.0 cgroup.", "used more memory than its limit"),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time limit"),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***", "preempted"),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***", "cancelled"),
    ],
)
def test_the_jobs_log_gives_the_cause_if_the_executor_does_not(tmp_path: Path, text: str, problem: str):
    log = tmp_path / "7.log"
    log.write_text("Building DAG of jobs...\n" * 2000 + text)
    error = cluster_error(JOB, "build", "", [log])
    assert error is not None
    assert problem in error.problem


def test_a_job_without_a_log_points_to_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cluster_errors, "LOG_WAIT_S", 0.1)
    error = cluster_error(JOB, "build", "", [tmp_path / "missing" / "7.log"])
    assert error is not None
    assert "cannot see this directory" in error.problem


def test_a_failure_of_the_job_itself_is_shown_unchanged(tmp_path: Path):
    own, cluster = tmp_path / "build.log", tmp_path / "7.log"
    own.write_text("noise\nerror: module.json: damaged\n  run again\n")
    cluster.write_text("Building DAG of jobs...\n")
    (told,) = failures(JOB, "build", STATUS.format("FAILED"), [str(own)], [str(cluster)])
    assert told.text == "  error: module.json: damaged\n    run again"
    assert told.logs == (str(own),)


def test_the_log_of_an_earlier_run_says_nothing_of_a_job_that_never_started(tmp_path: Path):
    own, cluster = tmp_path / "build.log", tmp_path / "7.log"
    own.write_text('{"stage": "build", "exit": 0}\n')
    cluster.write_text("Building DAG of jobs...\nsrun: error: Unable to create step for job 7\n")
    (told,) = failures(JOB, "build", "", [str(own)], [str(cluster)])
    assert "Unable to create step" in told.text
    assert told.logs == (str(cluster),)


def test_what_the_snakefile_refuses_on_a_node_is_an_error_with_its_remedy(tmp_path: Path):
    cluster = tmp_path / "7.log"
    cluster.write_text(
        'WorkflowError in file "/x/Snakefile", line 28:\n/records: this records store is another one\n'
        '  keep it elsewhere\n  File "/x/Snakefile", line 28, in <module>\n'
    )
    (told,) = failures(JOB, "build", "", [], [str(cluster)])
    assert told.text == "  error: /records: this records store is another one\n    keep it elsewhere"


def test_without_a_cluster_logs_are_shown_as_ever(tmp_path: Path):
    own = tmp_path / "build.log"
    own.write_text("a\nb\n")
    (told,) = failures(JOB, "build", "", [str(own)], [])
    assert told.text == "  a\n  b"


@pytest.mark.parametrize("there", [False, True], ids=["no log", "an empty log"])
def test_a_job_that_the_cluster_did_not_take_is_the_clusters_failure(tmp_path: Path, there: bool):
    own = tmp_path / "import.log"
    if there:
        own.touch()
    (told,) = failures(JOB, "import_model", "", [str(own)] if there else [], [], was_sent=True)
    assert told.code == 3 and "the cluster did not accept it" in told.text
