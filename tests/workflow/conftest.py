"""Projects to test the workflow on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workflow.project import Project, new_project, tuned_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has run once; tests work on copies of it."""
    project = new_project(tmp_path_factory.mktemp("finished") / "project")
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


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
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that has been tuned once; tests work on copies."""
    project = tuned_project(tmp_path_factory.mktemp("tuned") / "project")
    done = project.make()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def tuned(made: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy, with a copy of the records."""
    shutil.copytree(made.directory.parent, tmp_path / "copy", symlinks=True)
    yield Project(tmp_path / "copy" / "project")
