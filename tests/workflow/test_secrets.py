"""Values of ``devices.<name>.env`` reach the process that runs packages, and no file."""

from pathlib import Path
from textwrap import dedent

import pytest

from tests.workflow.project import Project, tuned_project

SECRET = "hunter2-of-the-device"
OTHER = "correct-horse-of-the-device"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A device with a password, and with something in its processes that notes which password they have."""
    (tmp_path / "noting").mkdir()
    (tmp_path / "noting" / "sitecustomize.py").write_text(
        dedent(f"""
        import os, sys
        with open({str(tmp_path / "seen")!r}, "a") as file:
            file.write(os.environ.get("TOKEN", "none") + "\\n")
        """)
    )
    project = tuned_project(tmp_path / "project")
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
        ("show",),
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

    # Another value reruns nothing by itself; what runs next gets it.
    project.edit("devices.local.env.TOKEN", OTHER)
    assert "nothing to do" in project.run("tvmake", "make", "--dry-run").stderr
    seen.unlink()
    again = project.run("tvmake", "make", "--forcerun", "benchmark")
    assert again.returncode == 0, again.stderr
    assert set(seen.read_text().split()) == {OTHER}

    # The config of results has the name alone; the value comes from the environment then.
    (project.directory / "tvmake.yaml").write_text((project.directory / "results/config.resolved.yaml").read_text())
    refused = project.run("tvmake", "make", "--forcerun", "benchmark")
    assert refused.returncode == 3
    assert "has no value" in refused.stderr and "export TOKEN" in refused.stderr


def test_a_setting_on_the_command_line_is_read_by_its_owner_only(project: Project):
    done = project.run("tvmake", "make", "--dry-run", "--set", f"devices.local.env.TOKEN={OTHER}")
    assert done.returncode == 0, done.stderr
    (file,) = files_with(project.directory, OTHER)
    assert (project.directory / file).stat().st_mode & 0o077 == 0
