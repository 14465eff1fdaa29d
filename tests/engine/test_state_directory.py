"""What is neither file nor directory among a run's notes is removed, and nothing that it leads to."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tvmake.engine.run_mutex import is_at_work, only_run
from tvmake.engine.state_directory import DIRECTORIES, LOCK, LOCKS, MARK, STATE


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the user's, which links in a project lead to."""
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


@pytest.mark.parametrize("other", [*OTHERS, directory])
@pytest.mark.parametrize("place", [LOCK, MARK, LOCKS / "0.input.lock"])
def test_a_run_waits_for_nothing_and_writes_nowhere_else(place: Path, other: Callable, outside: Path):
    place.parent.mkdir(parents=True)
    other(place)
    assert not is_at_work()
    with only_run():
        assert is_at_work()
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"mine": "mine"}


@pytest.mark.parametrize("other", [*OTHERS, Path.touch])
def test_directories_of_notes_are_not_elsewhere(other: Callable, outside: Path):
    STATE.mkdir()
    for name in DIRECTORIES:
        other(STATE / name)
    with only_run():
        pass
    assert all((STATE / name).is_dir() or not os.path.lexists(STATE / name) for name in DIRECTORIES)
    assert [path.name for path in outside.iterdir()] == ["mine"]


def test_the_notes_of_a_project_may_lie_elsewhere_as_a_whole(outside: Path):
    STATE.symlink_to(outside, target_is_directory=True)
    with only_run():
        assert (outside / MARK.name).is_file()


@pytest.mark.parametrize("text", ["", "no number", "0", "-1", "9" * 50])
def test_a_mark_that_names_no_process_stands_for_no_run(text: str):
    STATE.mkdir()
    MARK.write_text(text)
    assert not is_at_work()
