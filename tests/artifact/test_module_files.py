"""Modules and parameters on disk that are none."""

from pathlib import Path

import pytest

from tvmake.artifact.module_files import load_module, load_params
from tvmake.errors import InputError

DAMAGED = [
    "",
    "{}",
    "[1]",
    "null",
    "[" * 5000,
    '{"root_index": 0, "nodes": ["a"]}',
    '{"root_index": 7, "nodes": [{}], "metadata": 1}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_no_module_is_refused(tmp_path: Path, text: str):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(InputError, match=r"not a module"):
        load_module(tmp_path / "m.json")


@pytest.mark.parametrize("content", [b"", b"x", bytes(100), b"\xff" * 4096])
def test_what_are_no_parameters_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "m.params").write_bytes(content)
    with pytest.raises(InputError, match="not a parameter file"):
        load_params(tmp_path / "m.params")
