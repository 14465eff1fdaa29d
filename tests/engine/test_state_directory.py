"""Entries of the state directory that are neither files nor directories are refused with a command, and kept."""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmake.engine.run_mutex import is_run_active, only_run
from tvmake.engine.state_directory import DIRECTORIES, LOCK, LOCKS, MARK, STATE
from tvmake.errors import MachineError


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's directory that links in a project lead to."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine").write_text("mine")
    return tmp_path / "outside"


def link_to_a_file(path: Path) -> None:
    path.symlink_to("../../outside/mine" if path.parent == STATE else "../../../outside/mine")


def link_to_a_directory(path: Path) -> None:
    path.symlink_to("../../outside" if path.parent == STATE else "../../../outside")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("/nowhere/new")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def directory(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


OTHERS = (os.mkfifo, link_to_a_file, link_to_a_directory, link_to_nothing, link_to_itself)


def assert_refused_until_removed(path: Path, outside: Path) -> None:
    """A run names the entry and keeps it; the command in its remedy is sufficient."""
    with pytest.raises(MachineError) as refusal, only_run():
        pass
    assert refusal.value.where == str(path)
    assert os.path.lexists(path)
    command = str(refusal.value.remedy).partition("`")[2].rstrip("`")
    subprocess.run(shlex.split(command), check=True)
    assert not os.path.lexists(path)
    with only_run():
        assert is_run_active()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"mine": "mine"}


@pytest.mark.parametrize("other", [*OTHERS, directory])
@pytest.mark.parametrize("entry", [LOCK, MARK, LOCKS / "0.input.lock"])
def test_an_entry_that_is_not_a_file_is_refused_as_lock(entry: Path, other: Callable, outside: Path):
    entry.parent.mkdir(parents=True)
    other(entry)
    assert not is_run_active()
    assert_refused_until_removed(entry, outside)


@pytest.mark.parametrize("other", [*OTHERS, Path.touch])
@pytest.mark.parametrize("name", ["metadata", "tvmake-jobs"])
def test_an_entry_that_is_not_a_directory_is_refused(name: str, other: Callable, outside: Path):
    assert name in DIRECTORIES
    STATE.mkdir()
    other(STATE / name)
    assert_refused_until_removed(STATE / name, outside)


def test_the_notes_of_a_project_may_lie_elsewhere_as_a_whole(outside: Path):
    STATE.symlink_to(outside, target_is_directory=True)
    with only_run():
        assert (outside / MARK.name).is_file()


@pytest.mark.parametrize("text", ["", "no number", "0", "-1", "9" * 50])
def test_a_mark_without_a_process_means_no_run(text: str):
    STATE.mkdir()
    MARK.write_text(text)
    assert not is_run_active()
