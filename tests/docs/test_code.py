"""The code that the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import shared
from tests.requirements import need_module
from tests.workflow.project import ROOT, Project, model_project
from tvmake.process.forkserver.client import DIRECTORY


def blocks(language: str) -> list[str]:
    """The blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def shown(language: str) -> str:
    """The first block of the README in a language."""
    return blocks(language)[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A directory with the model that the README names."""
    project = model_project(tmp_path / "project", "model.onnx")
    project.environment[DIRECTORY] = shared.directory()
    return project


def test_the_python_of_the_readme_runs(project: Project):
    done = project.run(sys.executable, "-c", shown("python"))
    assert done.returncode == 0, done.stderr
    assert re.search(r"[0-9.]+ ms\n[0-9.]+ dB", done.stdout)


def test_the_cpp_of_the_readme_compiles_and_runs(project: Project):
    assert project.run("tvmake", "compile", "model.onnx", "-o", "digits.tar").returncode == 0
    (project.directory / "main.cc").write_text(shown("cpp"))
    (commands,) = [block for block in blocks("sh") if "g++" in block]
    done = project.run("bash", "-euc", commands)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([project.directory / "main"], cwd=project.directory, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr


def test_the_python_of_the_readme_is_typed(tmp_path: Path):
    need_module("mypy", "make lint")
    (tmp_path / "program.py").write_text(shown("python"))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache/strict"), "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
