"""What is found beside the interpreter."""

import os
import sys
from pathlib import Path

import pytest

from tvmake.storage.resources import put_tvmake_on_path

SCRIPTS = str(Path(sys.executable).parent)


@pytest.mark.parametrize("path", [None, "/usr/bin"])
def test_rules_find_tvmake_whatever_the_path_is_and_if_there_is_none(path: str | None, monkeypatch: pytest.MonkeyPatch):
    """`env -i` has none, and services may have none."""
    monkeypatch.setenv("PATH", path or "")
    if path is None:
        monkeypatch.delenv("PATH")
    for _ in range(2):
        put_tvmake_on_path()
        assert os.environ["PATH"] == f"{SCRIPTS}:{path or os.defpath}"
