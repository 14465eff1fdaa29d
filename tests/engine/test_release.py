"""A Snakemake outside the supported range, and a checkout of another version, are reported before they are used."""

import shutil
from pathlib import Path

import pytest

from tests.workflow.project import Project, new_project
from tvmake.engine.release import check_checkout, check_release
from tvmake.errors import MachineError


def test_the_installed_one_is_supported():
    check_release()


@pytest.mark.parametrize(("version", "command"), [("9.26.1", "tvmake"), ("10.0.0", "tvmake"), ("10.0.0", "snakemake")])
def test_another_one_is_named_with_the_command_that_mends_it(tmp_path: Path, version: str, command: str):
    project: Project = new_project(tmp_path / "project")
    site = tmp_path / "site" / f"snakemake-{version}.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text(f"Metadata-Version: 2.1\nName: snakemake\nVersion: {version}\n")
    project.environment["PYTHONPATH"] = str(site.parent)
    snakefile = str(Path(__file__).parents[2] / "Snakefile")
    arguments = (
        ["make", "-n"] if command == "tvmake" else ["-n", "--snakefile", snakefile, "--configfile", "tvmake.yaml"]
    )
    done = project.run(command, *arguments)
    said = done.stdout + done.stderr
    assert done.returncode == (3 if command == "tvmake" else 1), said
    assert f"snakemake {version}: tvmake works with snakemake" in said
    assert "pip install 'snakemake" in said
    assert "Traceback" not in said


def test_the_workflow_of_a_checkout_of_another_version_is_refused(tmp_path: Path):
    root = Path(__file__).parents[2]
    check_checkout(root / "Snakefile")
    package = tmp_path / "checkout" / "workflow" / "tvmake"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    snakefile = shutil.copy(root / "Snakefile", tmp_path / "checkout")
    with pytest.raises(MachineError, match=r"is of tvmake 0\.1\.0, and tvmake .* is installed"):
        check_checkout(Path(snakefile))
    project: Project = new_project(tmp_path / "project")
    done = project.run("snakemake", "-n", "--snakefile", str(snakefile), "--configfile", "tvmake.yaml")
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Traceback" not in said
    assert f"pip install -e {tmp_path / 'checkout'}" in said
