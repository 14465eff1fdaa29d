"""Output of commands on a terminal."""

import os
import pty
import sys
from pathlib import Path

import pytest

from tvmake.cli.terminal import explain_wait


def test_a_long_wait_is_explained_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(ours, "rb", buffering=0) as shown:
        monkeypatch.setattr(sys, "stderr", terminal)
        with explain_wait("the driver compiles kernels", after_s=0):
            assert shown.read(200) == b"note: the driver compiles kernels\r\n"


def test_a_short_wait_and_a_file_get_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (tmp_path / "errors").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with explain_wait("the driver compiles kernels", after_s=0):
            pass
    assert (tmp_path / "errors").read_text() == ""
