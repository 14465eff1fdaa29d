"""The layout that Snakemake's workflow catalogue and snakedeploy expect."""

from pathlib import Path

import pytest
import yaml

from tests.workflow.project import ROOT, Project, new_project

# What `snakedeploy deploy-workflow` 0.17.1 writes, with this checkout instead of `github(...)`.
DEPLOYED = f"""
from snakemake.utils import min_version

min_version("6.10.0")

configfile: "config/config.yaml"

module tvmake:
    snakefile:
        "{ROOT}/workflow/Snakefile"
    config:
        config

use rule * from tvmake
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A directory as snakedeploy leaves it, with a config for the project's model."""
    project = new_project(tmp_path / "project")
    for name in ("config", "workflow"):
        (project.directory / name).mkdir()
    (project.directory / "tvmake.yaml").rename(project.directory / "config/config.yaml")
    (project.directory / "workflow/Snakefile").write_text(DEPLOYED)
    return project


def test_a_deployed_workflow_plans_everything_and_makes_what_is_asked_for(project: Project):
    planned = project.run("snakemake", "-n", "--quiet", "rules")
    assert planned.returncode == 0, planned.stderr
    whole = project.run("snakemake", "-n")
    assert {"everything", "import_model", "report"} <= {
        line.split()[0] for line in whole.stdout.splitlines() if line.strip()
    }
    made = project.run("snakemake", "--cores", "1", "results/digits/model.json")
    assert made.returncode == 0, made.stderr
    assert (project.directory / "results/digits/model.json").is_file()


def test_the_catalogues_file_and_the_configs_readme_exist():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["software-stack-deployment"] == {"conda": True, "apptainer": True}
    assert (ROOT / "config/README.md").is_file()
