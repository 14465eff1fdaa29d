"""`--profile`: users' profiles and those of tvmake, and the error if one cannot be used."""

from pathlib import Path

import pytest

from tests.workflow.project import ROOT, Project, new_project
from tvmake.engine.cluster_check import COMMANDS, check_slurm, missing_command
from tvmake.engine.profiles import packaged_profiles, resolve_profiles
from tvmake.engine.progress.snakemake_errors import usage_error
from tvmake.errors import MachineError, UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for profiles, with a home without any."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def profile(directory: Path) -> str:
    directory.mkdir(parents=True)
    (directory / "config.yaml").touch()
    return str(directory)


def test_a_name_means_a_profile_that_comes_with_tvmake(here: Path):
    ours = str(ROOT / "profiles" / "slurm")
    assert resolve_profiles(["--profile", "slurm", "-k"], here) == ["--profile", ours, "-k"]
    assert resolve_profiles(["--profile=slurm"], here) == [f"--profile={ours}"]


def test_ones_own_profile_of_the_same_name_comes_first(here: Path):
    own = profile(here / "home" / "snakemake" / "slurm")
    assert resolve_profiles(["--profile", "slurm"], here) == ["--profile", own]
    nearer = profile(here / "slurm")
    assert resolve_profiles(["--profile", "slurm"], here) == ["--profile", nearer]


def test_a_path_is_relative_to_where_the_command_was_typed(here: Path):
    own = profile(here / "cluster" / "mine")
    assert resolve_profiles(["x", "--profile", "cluster/mine"], here) == ["x", "--profile", own]


def test_a_profile_that_does_not_exist_names_those_that_do(here: Path):
    (here / "empty").mkdir()
    for name in ("nonesuch", "empty"):
        with pytest.raises(UsageError, match="no such profile") as raised:
            resolve_profiles(["--profile", name], here)
        assert "slurm" in (raised.value.remedy or "")


def test_a_workflow_profile_must_exist_as_well(here: Path):
    assert resolve_profiles(["--workflow-profile=none"], here) == ["--workflow-profile=none"]
    own = profile(here / "mine")
    assert resolve_profiles(["--workflow-profile", "mine"], here) == ["--workflow-profile", own]
    with pytest.raises(UsageError, match=r"^--workflow-profile other: no such profile"):
        resolve_profiles(["--workflow-profile", "other"], here)


def test_the_variable_that_names_a_profile_means_what_the_option_does(here: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    assert resolve_profiles(["--cores=2"], here) == ["--cores=2", *resolve_profiles(["--profile=slurm"], here)]
    assert resolve_profiles(["--profile=generic"], here) == [f"--profile={packaged_profiles()['generic']}"]
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "nonesuch")
    with pytest.raises(UsageError, match="the environment variable SNAKEMAKE_PROFILE: nonesuch: no such profile"):
        resolve_profiles([], here)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "none")
    assert resolve_profiles([], here) == []


def test_every_packaged_profile_is_documented():
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    for name in packaged_profiles():
        assert f"profiles/{name}" in pages, name


def test_retries_are_in_profiles_only():
    assert "retries" in (packaged_profiles()["slurm"] / "config.yaml").read_text()
    for rules in (ROOT / "rules").glob("*.smk"):
        assert "retries" not in rules.read_text()


def test_a_missing_plugin_is_named_with_how_to_install_it():
    error = usage_error("snakemake: error: argument --executor/-e: invalid choice: 'slurm' (choose from 'local')")
    assert isinstance(error, MachineError)
    assert error.remedy == "pip install 'tvmake[slurm]'"
    other = usage_error("x: error: argument --executor/-e: invalid choice: 'flux' (choose from 'local')")
    assert other.remedy == "pip install snakemake-executor-plugin-flux"


def test_a_missing_slurm_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = check_slurm([], {})
    assert isinstance(error, MachineError)
    assert error.problem == "no `sbatch` on the path"


@pytest.mark.parametrize("missing", COMMANDS["lsf"])
def test_a_missing_lsf_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str):
    for name in COMMANDS["lsf"]:
        if name != missing:
            (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    error = missing_command("lsf")
    assert isinstance(error, MachineError)
    assert error.problem == f"no `{missing}` on the path"


def stand_in(directory: Path, script: str) -> None:
    for name in ("sbatch", "squeue", "scancel", "sinfo"):
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)


@pytest.mark.parametrize(
    ("partitions", "gres", "problem"),
    [
        ([], {}, None),
        (["gpu", "long"], {"phone": "sm8550:1", "a": "gpu:a100:2"}, None),
        (["short"], {}, "no partition 'short'"),
        ([], {"phone": "pixel:1"}, "no node has the generic resource 'pixel'"),
    ],
)
def test_partitions_and_generic_resources_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: list[str], gres: dict[str, str], problem: str | None
):
    # As sinfo of several versions prints them.
    stand_in(tmp_path, "echo 'gpu|gpu:a100:4(S:0-1),sm8550:1'; echo 'long|(null)'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    error = check_slurm(partitions, gres)
    assert (error and error.problem) == problem


def test_a_controller_that_is_down_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stand_in(tmp_path, "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    error = check_slurm([], {})
    assert error is not None
    assert "Unable to contact slurm controller" in error.problem


def test_make_refuses_an_unknown_profile_in_two_lines(tmp_path: Path):
    project: Project = new_project(tmp_path / "project")
    done = project.make("--profile", "nonesuch")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --profile nonesuch: no such profile\n")
    assert done.stderr.count("\n") == 2
