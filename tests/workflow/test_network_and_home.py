"""A run uses no network, and writes only the documented files into the home directory."""

import subprocess
from pathlib import Path

import pytest

from tests.requirements import need
from tests.workflow.project import Project, tuned_project

WATCH = Path(__file__).with_name("network_watch.c")

ALLOWED = {".cache/tvmake", ".local/share/tvmake", ".cache/snakemake"}
"""Directories in a user's home: tvmake's, and Snakemake's empty one for sources of remote workflows."""


@pytest.fixture
def watched(tmp_path: Path) -> Project:
    """A project whose programs record every look-up and connection, with an empty home."""
    need("cc")
    library = tmp_path / "watch.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(WATCH), "-ldl"], check=True)
    project = tuned_project(tmp_path / "project")
    project.edit("models.torch", {"source": "digits.pt2", "goals": {"rtol": 0.1}})
    project.environment = {
        "LD_PRELOAD": str(library),
        "NETWORK_WATCH": str(tmp_path / "network"),
        "HOME": str(tmp_path / "user"),
        "TVMAKE_HOME": "",
        "XDG_CACHE_HOME": "",
        "XDG_DATA_HOME": "",
    }
    (tmp_path / "user").mkdir()
    return project


def test_a_run_neither_uses_the_network_nor_writes_into_the_home_directory(watched: Project, tmp_path: Path):
    config = ("--config", "tvmake.yaml")
    for command in (
        ("make", *config),
        ("make", *config, "--no-warm", "--forcerun", "report"),
        ("lock", *config),
        ("status", "results"),
        ("bundle", "export", "all.tar"),
        ("check", *config),
        ("clean", *config, "--yes"),
    ):
        done = watched.run_process("tvmake", *command)
        assert done.returncode == 0, done.stderr
    network = tmp_path / "network"
    assert not network.exists(), network.read_text()
    home = tmp_path / "user"
    files = {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir()}
    assert not {file for file in files if not file.startswith(tuple(ALLOWED))}, sorted(files)


def test_the_watch_sees_what_a_program_looks_up(watched: Project, tmp_path: Path):
    watched.run_process("python", "-c", "import socket; socket.getaddrinfo('localhost', 80)")
    assert "getaddrinfo localhost" in (tmp_path / "network").read_text()
