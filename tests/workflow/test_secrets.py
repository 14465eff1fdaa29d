"""Values of ``devices.<name>.env`` reach the process that runs packages, but no file."""

import os
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from tests.patience import wait_until
from tests.workflow.faults import Faults, is_running, started
from tests.workflow.project import Project, tuned_project
from tvmake.cli.make import without_secrets

SECRET = "hunter2-of-the-device"
OTHER = "correct-horse-of-the-device"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A device with a password, and processes that record which password they have."""
    (tmp_path / "noting").mkdir()
    (tmp_path / "noting" / "sitecustomize.py").write_text(
        dedent(f"""
        import os, sys
        with open({str(tmp_path / "seen")!r}, "a") as file:
            file.write(os.environ.get("TOKEN", "none") + "\\n")
        """)
    )
    project = tuned_project(tmp_path / "project")
    project.edit("targets.tuned.tuning.trials_per_kernel", 1)
    project.edit("devices.local", {"env": {"TOKEN": SECRET, "PYTHONPATH": str(tmp_path / "noting")}})
    return project


def files_with(directory: Path, text: str) -> list[str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(directory)) for path in files if text.encode() in path.read_bytes())


def test_a_value_reaches_the_device_and_no_file(project: Project, tmp_path: Path):
    seen = tmp_path / "seen"
    made = project.run("tvmake", "make", "--config", "tvmake.yaml", "--printshellcmds")
    assert made.returncode == 0, made.stderr
    assert set(seen.read_text().split()) == {SECRET}
    said = made.stdout + made.stderr
    for command in (
        ("lock",),
        ("bundle", "export", "all.tar", "--inputs"),
        ("status", "results"),
        ("check",),
        ("make", "--dry-run"),
    ):
        done = project.run("tvmake", *command)
        assert done.returncode == 0, (command, done.stderr)
        said += done.stdout + done.stderr
    assert files_with(project.directory, SECRET) == ["tvmake.yaml"]
    assert files_with(tmp_path / "home", SECRET) == []
    assert SECRET not in said
    assert "TOKEN: null" in (project.directory / "results" / "config.resolved.yaml").read_text()

    # Another value reruns nothing by itself; the next job gets it.
    project.edit("devices.local.env.TOKEN", OTHER)
    assert "nothing to do" in project.run("tvmake", "make", "--dry-run").stderr
    seen.unlink()
    again = project.run("tvmake", "make", "--forcerun", "benchmark")
    assert again.returncode == 0, again.stderr
    assert set(seen.read_text().split()) == {OTHER}

    # The resolved config has only the name; the value comes from the environment.
    (project.directory / "tvmake.yaml").write_text((project.directory / "results/config.resolved.yaml").read_text())
    refused = project.run("tvmake", "make", "--forcerun", "benchmark")
    assert refused.returncode == 3
    assert "has no value" in refused.stderr and "export TOKEN" in refused.stderr


def test_a_setting_on_the_command_line_is_in_no_file_behind_the_run(single: Project):
    done = single.run("tvmake", "make", "--dry-run", "--set", f"devices.local.env.TOKEN={OTHER}")
    assert done.returncode == 0, done.stderr
    assert files_with(single.directory, OTHER) == []


def test_the_config_of_a_killed_run_goes_before_the_next_one_and_that_of_a_run_at_work_stays(
    single: Project, tmp_path: Path
):
    single.edit("devices.local", {"env": {"TOKEN": SECRET}})
    (single.directory / "results/summary.json").unlink()
    faults = Faults(single, tmp_path / "faults")
    faults.before("results/summary.csv", "pause")
    with started(single, "tvmake", "make", "--set", f"devices.local.env.TOKEN={OTHER}") as run:
        faults.wait("results/summary.csv")
        found = files_with(single.directory, OTHER)
        assert len(found) == 1, found
        (copy,) = found
        assert (single.directory / copy).parents[1].stat().st_mode & 0o077 == 0
        assert single.run("tvmake", "make", "--dry-run").returncode == 0
        assert files_with(single.directory, OTHER) == [copy]
        assert any("TOKEN=…" in log.read_text() for log in (single.directory / ".snakemake/log").glob("*.log"))
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    wait_until(lambda: not is_running(faults.process("results/summary.csv")))
    faults.end()
    assert single.run("tvmake", "make").returncode == 0
    assert files_with(single.directory, OTHER) == []


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("devices.phone.env.TOKEN=a=b", "devices.phone.env.TOKEN=…"),
        ("--set=devices.phone.env.TOKEN=a\nb", "--set=devices.phone.env.TOKEN=…"),
        ("devices.phone={via: local, env: {TOKEN: a}}", "devices.phone=…"),
        ("devices.phone.env={TOKEN: a}", "devices.phone.env=…"),
        ("devices.environment.threads=2", "devices.environment.threads=2"),
        ("benchmark.repeat=3", "benchmark.repeat=3"),
    ],
)
def test_the_environment_of_devices_is_left_out_of_a_command_line(word: str, shown: str):
    assert without_secrets(["make", "--set", word]) == ["make", "--set", shown]
