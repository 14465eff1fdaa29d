"""The remedy for denied access concerns the directory or file that denies it."""

from pathlib import Path

import pytest

from tvmake.storage.directories import HOME_VARIABLE, cache_directory
from tvmake.storage.permissions import how_to_permit


def test_what_tvmake_keeps_for_itself_goes_elsewhere_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert how_to_permit(cache_directory("packages")).endswith("or set TVMAKE_HOME to a directory of yours")
    assert how_to_permit(tmp_path / "results").endswith("or choose another directory")
