"""Projects to test the workflow on."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from tests.workflow.project import Project, new_project, tuned_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has run once; tests work on copies of it."""
    return run_once("finished", new_project, tmp_path_factory)


@pytest.fixture(scope="session")
def finished_single(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The finished project with one variant, whose package is not timed beside its model."""

    def single_project(directory: Path) -> Project:
        shutil.copytree(finished.directory, directory, symlinks=True)
        shutil.rmtree(directory / "results/digits/float16")
        project = Project(directory)
        project.write_config({**project.config, "precisions": ["float32"]})
        project.edit("benchmark.baseline", False)
        return project

    return run_once("single", single_project, tmp_path_factory)


@pytest.fixture
def single(finished_single: Project, tmp_path: Path) -> Project:
    """A copy of the finished project of one variant, times included."""
    shutil.copytree(finished_single.directory, tmp_path / "project", symlinks=True)
    return Project(tmp_path / "project")


@pytest.fixture
def demo(finished: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of the finished project, times included."""
    shutil.copytree(finished.directory, tmp_path / "project", symlinks=True)
    yield Project(tmp_path / "project")


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    """A project that has not run yet."""
    return new_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished_tuned(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has been tuned once; tests work on copies."""
    return run_once("tuned", tuned_project, tmp_path_factory)


def run_once(name: str, new: Callable[[Path], Project], factory: pytest.TempPathFactory) -> Project:
    """A project that one of the test processes runs for all of them."""
    common = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent
    directory, marker = common / name, common / f"{name}.finished"
    with FileLock(common / f"{name}.lock"):
        if not marker.exists():
            shutil.rmtree(directory, ignore_errors=True)
            run = new(directory / "project").make()
            assert run.returncode == 0, run.stdout + run.stderr
            marker.touch()
    return Project(directory / "project")


@pytest.fixture
def tuned(finished_tuned: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy, with a copy of the records."""
    shutil.copytree(finished_tuned.directory.parent, tmp_path / "copy", symlinks=True)
    yield Project(tmp_path / "copy" / "project")
