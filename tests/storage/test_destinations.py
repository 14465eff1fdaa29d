"""Checks of the files that a command's user names as outputs."""

import os
from pathlib import Path

import pytest

from tvmake.errors import TvmakeError
from tvmake.storage.destinations import check_destination


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (".", "is a directory"),
        ("none/x", "there is no directory"),
        ("other", "exists and is not a list"),
        ("pipe", "exists and is not a list"),
        ("/proc/x", "cannot be written"),
        ("x" * 300, "the name is too long"),
    ],
)
def test_a_place_where_nothing_can_be_written_or_would_be_lost_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
):
    monkeypatch.chdir(tmp_path)
    Path("other").write_text("something else")
    os.mkfifo("pipe")
    with pytest.raises(TvmakeError, match=problem):
        check_destination(Path(name), "list", lambda _: False)


def test_a_place_that_is_free_empty_or_has_a_file_of_the_kind_is_taken(tmp_path: Path):
    (tmp_path / "empty").touch()
    (tmp_path / "list").write_text("1")
    for name in ("new", "empty", "list"):
        check_destination(tmp_path / name, "list", lambda file: file.name == "list")
    assert {file.name for file in tmp_path.iterdir()} == {"empty", "list"}
