"""The check of a tag before its release, and the release's notes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tvmake
from tests.workflow.project import ROOT

FILES = ("CHANGELOG.md", "CITATION.cff", "workflow/tvmake/__init__.py", "envs/release.py", "envs/tvmake.yaml")


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


def test_the_next_version_is_prepared_by_one_command_and_its_notes_are_the_changelogs(tree: Path):
    tag = f"v{tvmake.__version__.partition('.dev')[0]}"
    prepared = release(tree, "prepare", tag)
    assert (prepared.returncode, prepared.stderr) == (0, "")
    assert release(tree, "check", tag).returncode == 0
    notes = release(tree, "notes", tag).stdout
    assert notes.strip()
    assert notes.strip() in (ROOT / "CHANGELOG.md").read_text()
    assert "## [" not in notes and "The next version" not in notes


def test_a_development_version_is_not_one_that_the_index_has():
    assert f"- tvmake[all]=={tvmake.__version__}\n" in (ROOT / "envs/tvmake.yaml").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert ("## [Unreleased]" in changelog) == (".dev" in tvmake.__version__)


@pytest.mark.parametrize("tag", ["0.3.0", "v1", "v0.3.0rc1", "release"])
def test_another_kind_of_tag_is_refused(tree: Path, tag: str):
    done = release(tree, "check", tag)
    assert done.returncode == 1
    assert done.stderr == f"error: {tag}: a release's tag is v and three numbers, such as v0.3.0\n"


def test_a_tag_without_version_changelog_and_citation_names_all_files(tree: Path):
    done = release(tree, "check", "v9.8.7")
    assert done.returncode == 1
    assert [line.split(":")[1].strip() for line in done.stderr.splitlines()] == [
        "workflow/tvmake/__init__.py",
        "CHANGELOG.md",
        "CITATION.cff",
        "envs/tvmake.yaml",
    ]


@pytest.mark.parametrize("file", sorted(path.relative_to(ROOT) for path in (ROOT / ".github").rglob("*.yml")), ids=str)
def test_the_files_for_github_are_valid_yaml(file: Path):
    assert isinstance(yaml.safe_load((ROOT / file).read_text()), dict)


@pytest.mark.parametrize("file", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda file: file.name)
def test_workflows_pin_actions_by_digest_and_their_tokens_may_only_read(file: Path):
    text = file.read_text()
    for action in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[\d.]+", action), action
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
