"""The profile for Grid Engine, on a real one: a result, and jobs that it ends for time and for memory."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S, wait_until
from tests.requirements import need, require
from tests.workflow.faults import Faults
from tests.workflow.project import ROOT, Project, new_project
from tvmake.engine.progress.cluster_errors import cluster_error

PROFILE = ROOT / "profiles/grid-engine"
SCRIPT = Path(__file__).with_name("grid_engine.sh")
MODEL = "results/digits/model.json"
MAKE = (
    "--profile",
    "grid-engine",
    "--retries",
    "0",
    "--latency-wait",
    "10",
    "--seconds-between-status-checks",
    "2",
    MODEL,
)


@pytest.fixture(scope="module")
def grid_engine(plugins: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Grid Engine for the tests of this file: the variables with which its commands find it."""
    need("Grid Engine")
    require(os.geteuid() == 0, "root, to start Grid Engine's daemons: run the tests as root")
    directory = tmp_path_factory.mktemp("grid-engine")
    try:
        # Its daemons outlive the command, and would keep the ends of pipes open.
        with (directory / "start.log").open("w+") as log:
            started = subprocess.run([SCRIPT, "start", directory], stdout=log, stderr=log, timeout=HANG_S, check=False)
            log.seek(0)
            assert started.returncode == 0, log.read()
        lines = (directory / "environment").read_text().splitlines()
        yield dict(line.split("=", 1) for line in lines)
    finally:
        subprocess.run([SCRIPT, "stop", directory], check=True, timeout=HANG_S)


@pytest.fixture
def project(grid_engine: dict[str, str], tmp_path: Path) -> Project:
    """A project that has not run yet."""
    project = new_project(tmp_path / "project")
    project.environment |= grid_engine
    return project


@pytest.mark.long
def test_a_job_runs_and_one_that_reaches_its_time_limit_is_named_with_the_option_to_change(
    project: Project, tmp_path: Path
):
    done = project.make(*MAKE)
    assert done.returncode == 0, done.stderr
    assert (project.directory / MODEL).is_file()
    Faults(project, tmp_path / "faults").before(MODEL, "pause")
    project.environment["TVMAKE_SGE_OPTIONS"] = "-l h_rt=20"
    late = project.make(*MAKE, "--forcerun", "import_model")
    assert late.returncode == 3, late.stderr
    assert "import digits: stopped by the cluster at its time limit" in late.stderr
    assert "request more minutes: --set-resources import_model:runtime=" in late.stderr


@pytest.mark.long
def test_a_job_that_is_killed_for_memory_is_named_with_its_limit(
    grid_engine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    allocate = f"{sys.executable} -c 'import time; data = bytearray(b\"1\" * 150_000_000); time.sleep(60)' &\n"
    properties = {"rule": "build", "threads": 1, "resources": {"mem_mb": 400, "runtime": 10}}
    Path("job.sh").write_text(f"#!/bin/sh\n# properties = {json.dumps(properties)}\n{allocate * 4}wait\n")
    environment = {**os.environ, **grid_engine, "TVMAKE_SGE_OPTIONS": "-l h_vmem=400M"}

    def profile(script: str, argument: str) -> str:
        command = [PROFILE / script, argument]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=HANG_S
        ).stdout.strip()

    number = profile("submit.py", "job.sh")
    states: list[str] = []
    wait_until(lambda: states.append(profile("status.py", number)) or states[-1] != "running")
    assert states[-1] == "failed"
    error = cluster_error("build digits", "build", "", [Path(f".snakemake/cluster/{number}.log")])
    assert error is not None
    assert error.problem == "killed by the cluster: it used more memory than its 400 MB"


def options(resources: dict, environment: dict | None = None) -> list[str]:
    submit = runpy.run_path(str(PROFILE / "submit.py"))
    return submit["options"](
        {"threads": 1, "resources": {"mem_mb": 1000, "runtime": 30, **resources}}, environment or {}
    )


def test_a_job_requests_time_memory_cores_and_devices():
    assert options({}) == ["-l", "h_rt=1800", "-l", "h_vmem=5000M"]
    assert options({"_cores": 4}) == ["-l", "h_rt=1800", "-l", "h_vmem=1250M", "-pe", "smp", "4"]
    assert options({"gres": "phone"}, {"TVMAKE_SGE_MEMORY": "none"}) == ["-l", "h_rt=1800", "-l", "phone=1"]
    site = {"TVMAKE_SGE_MEMORY": "mem_free", "TVMAKE_SGE_PE": "threads", "TVMAKE_SGE_OPTIONS": "-q 'all.q' -P mine"}
    chosen = options({"_cores": 2, "gres": "phone:2"}, site)
    assert chosen == [
        "-l",
        "h_rt=1800",
        "-l",
        "mem_free=500M",
        "-pe",
        "threads",
        "2",
        "-l",
        "phone=2",
        "-q",
        "all.q",
        "-P",
        "mine",
    ]


# As qacct of version 8.1.9 prints them.
KILLED = (
    "failed       37  : qmaster enforced h_rt, h_cpu, or h_vmem limit\nexit_status  137                  (Killed)\n"
)


@pytest.mark.parametrize(
    "record, words",
    [
        (KILLED + "ru_wallclock 6s\nmaxvmem      3.254MB\ncategory     -l h_rt=5\n", "killed due to time limit"),
        (
            KILLED + "ru_wallclock 1s\nmaxvmem      531.199MB\ncategory     -l h_rt=600,h_vmem=300M\n",
            r"exceeded memory limit \(557002523 > 314572800\)",
        ),
        (
            KILLED + "ru_wallclock 9s\nmaxvmem      1.100GB\ncategory     -l h_rt=600,h_vmem=250M -pe smp 4\n",
            r"exceeded memory limit \(1181116006 > 1048576000\)",
        ),
        ("failed       26  : opening input/output file\nexit_status  0\n", "ended by Grid Engine: failed 26 .*"),
        ("failed       0    \nexit_status  1                   \n", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_the_reason_of_a_jobs_end_is_read_from_its_record(record: str, words: str):
    status = runpy.run_path(str(PROFILE / "status.py"))
    assert re.fullmatch(words, status["reason"](record))
