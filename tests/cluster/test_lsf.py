"""The profile for LSF, with Snakemake's plugin and a stand-in for LSF's commands."""

import os
from pathlib import Path

import pytest

from tests.workflow.project import Project, new_project

MODEL = "results/digits/model.json"
COMMANDS = ("bsub", "bjobs", "bkill", "badmin", "lsclusters")
MAKE = ("--profile", "lsf", "--retries", "0", "--latency-wait", "10", MODEL)


@pytest.fixture
def project(plugins: None, tmp_path: Path) -> Project:
    """A project, and an LSF that runs its jobs here."""
    project = new_project(tmp_path / "project")
    for name in ("bin", "lsf/lsbatch/here/configdir"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lsf/lsbatch/here/configdir/lsb.params").write_text("DEFAULT_QUEUE = normal\n")
    for name in COMMANDS:
        (tmp_path / "bin" / name).symlink_to(Path(__file__).with_name("lsf_stand_in.py"))
    project.environment = {
        "LSF_STAND_IN": str(tmp_path / "lsf"),
        "PATH": f"{Path(project.environ()['PATH'].split(os.pathsep)[0])}:{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    return project


@pytest.mark.long
def test_a_job_requests_its_resources_and_one_that_lsf_ends_is_named_with_the_option_to_change(project: Project):
    done = project.make(*MAKE)
    assert done.returncode == 0, done.stderr
    assert (project.directory / MODEL).is_file()
    options = (project.directory.parent / "lsf/1.options").read_text().splitlines()
    assert options[options.index("-W") + 1] == "20"
    assert "rusage[mem=1500.0]" in options
    (project.directory / "limit").write_text("TERM_MEMLIMIT")
    killed = project.make(*MAKE, "--forcerun", "import_model")
    assert killed.returncode == 3, killed.stderr
    assert "import digits: killed by the cluster: it used more memory than its limit" in killed.stderr
    assert "Traceback" not in killed.stderr
