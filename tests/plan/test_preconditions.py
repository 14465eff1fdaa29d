"""Conditions of a run: files that must exist."""

import os
from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.load import check
from tvmake.errors import ErrorList
from tvmake.plan.plan import Plan
from tvmake.plan.preconditions import missing_inputs

TEXT = """
models: {digits: {source: digits.onnx}}
targets: {cpu: {kind: llvm, mcpu: native}}
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    return Plan(check(yaml.safe_load(TEXT), {}))


def test_a_source_that_is_not_there_or_no_file_is_named(plan: Plan):
    assert "no such file: digits.onnx" in str(missing_inputs(plan))
    os.mkfifo("digits.onnx")
    assert "is a pipe, not a file: digits.onnx\n  name a file" in str(missing_inputs(plan))
    Path("digits.onnx").unlink()
    Path("digits.onnx").symlink_to("digits.onnx")
    assert "is a link to a missing file: digits.onnx → digits.onnx\n  correct the link" in str(missing_inputs(plan))
    Path("digits.onnx").unlink()
    Path("digits.onnx").touch()
    assert missing_inputs(plan) is None


def test_a_function_of_a_file_is_named_as_python_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("nets").mkdir()
    Path("nets/vit.py").touch()
    error = missing_inputs(Plan(check({"models": {"vit": {"source": "nets.vit.py:make"}}}, {})))
    assert str(error).endswith("a function of nets/vit.py is named without .py: nets.vit:FUNCTION")


def test_every_file_that_is_not_there_is_named_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    model = {"source": "d.onnx", "files": ["a.bin"], "dataset": {"path": "./x.npz", "label_names": "l.txt"}}
    error = missing_inputs(Plan(check({"models": {"d": model}}, {})))
    assert isinstance(error, ErrorList)
    keys = {each.where for each in error.errors}
    assert keys == {f"models.d.{key}" for key in ("source", "files[0]", "dataset.path", "dataset.label_names")}
