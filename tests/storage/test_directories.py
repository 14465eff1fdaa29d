"""tvmake's directories: under TVMAKE_HOME where that is set, else where the system keeps caches and data."""

from pathlib import Path

import platformdirs
import pytest

from tvmake.storage.directories import cache_directory, data_directory, home


def test_tvmake_home_holds_caches_and_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TVMAKE_HOME", str(tmp_path))
    assert home() == tmp_path
    assert cache_directory("packages") == tmp_path / "packages"
    assert data_directory("records") == tmp_path / "records"


@pytest.mark.parametrize("value", [None, ""])
def test_without_it_they_are_the_users(monkeypatch: pytest.MonkeyPatch, value: str | None):
    monkeypatch.delenv("TVMAKE_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("TVMAKE_HOME", value)
    assert home() is None
    assert cache_directory("packages") == platformdirs.user_cache_path("tvmake") / "packages"
    assert data_directory("records") == platformdirs.user_data_path("tvmake") / "records"
