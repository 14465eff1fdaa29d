"""The check of a tag before its release, and the release's notes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tvmake
from tests.workflow.project import ROOT

FILES = ("CHANGELOG.md", "CITATION.cff", "workflow/tvmake/__init__.py", "envs/release.py")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that a release depends on."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def release(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tree / "envs/release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_current_version_can_be_released_and_its_notes_are_the_changelogs(tree: Path):
    tag = f"v{tvmake.__version__}"
    assert release(tree, "check", tag).returncode == 0
    notes = release(tree, "notes", tag).stdout
    assert notes.strip()
    assert notes.strip() in (ROOT / "CHANGELOG.md").read_text()
    assert "## [" not in notes


@pytest.mark.parametrize("tag", ["0.3.0", "v1", "v0.3.0rc1", "release"])
def test_another_kind_of_tag_is_refused(tree: Path, tag: str):
    done = release(tree, "check", tag)
    assert done.returncode == 1
    assert done.stderr == f"error: {tag}: a release's tag is v and three numbers, such as v0.3.0\n"


def test_a_tag_without_version_changelog_and_citation_names_all_three(tree: Path):
    done = release(tree, "check", "v9.8.7")
    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == [
        "workflow/tvmake/__init__.py",
        "CHANGELOG.md",
        "CITATION.cff",
    ]


@pytest.mark.parametrize("file", sorted(path.relative_to(ROOT) for path in (ROOT / ".github").rglob("*.yml")), ids=str)
def test_the_files_for_github_are_valid_yaml(file: Path):
    assert isinstance(yaml.safe_load((ROOT / file).read_text()), dict)
