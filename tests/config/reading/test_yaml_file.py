"""Refuse files that are not configs, with file and line."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.reading.mistakes import MINIMAL, mistakes
from tvmake.config.reading.load import load, read_yaml
from tvmake.errors import InputError


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("models: {}\nmodels: {}\n", 2, "models"),
        ("models:\n  net: {source: a.onnx}\n  net: {source: b.onnx}\n", 3, "models.net"),
        ("models: {net: {source: a.onnx, source: b.onnx}}\n", 1, "models.net.source"),
    ],
)
def test_a_duplicate_key_is_refused(write, text, line, key):
    (mistake,) = mistakes(write(text))
    assert mistake.where.endswith(f"tvmake.yaml:{line}")
    assert mistake.problem == f"the key '{key}' is set twice"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("models: [", "not valid YAML"),
        ("models: 'a\n", "not valid YAML"),
        ("\tmodels: 1", "not valid YAML"),
        ("- models", "expected a mapping of keys, found a list"),
        ("models: &m {net: *m}", "contains itself"),
        ("models: !!python/object:os.system {}", "not valid YAML"),
    ],
)
def test_an_invalid_config_is_refused_in_one_line(write, text, problem):
    (mistake,) = mistakes(write(text))
    assert problem in mistake.problem
    assert "\n" not in mistake.problem


@pytest.mark.parametrize(
    "before", ["precisions: [float32]\n", "precisions: [float32]  # the first\n\n# more\n", "x:\n- [a,\n  float32]\n"]
)
def test_an_entry_with_a_dash_after_a_list_in_brackets_is_named(write, before):
    (mistake,) = mistakes(write(f"models: {{}}\n{before}  - float16\n"))
    ended = 1 + max(number for number, line in enumerate(before.splitlines(), 1) if "]" in line)
    assert mistake.problem == f"not valid YAML: '- float16' continues a list that ended in line {ended}"
    assert mistake.remedy == "write all entries within the brackets, or each on a line of its own"


def test_an_existing_file_with_a_similar_name_is_suggested(write):
    path = write(MINIMAL)
    (mistake,) = mistakes(path.with_suffix(".yml"))
    assert mistake.remedy == f"did you mean '{path}'?"


def test_configs_of_other_programs_are_recognised_by_their_suffix(write):
    (mistake,) = mistakes(write("[models.net]\n", "config.toml"))
    assert mistake.problem == "is TOML, not YAML"
    load([write('{"models": {"net": {"source": "net.onnx"}}}', "config.json")])


def test_a_missing_file_points_to_init(tmp_path):
    (mistake,) = mistakes(tmp_path / "none.yaml")
    assert mistake.problem == "no such config file"
    assert "tvmake init" in mistake.remedy


def test_a_binary_file_is_refused(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x08\x07\xff\xfe")
    assert mistakes(path)[0].problem == "cannot be read: it is not UTF-8 text"


def test_a_model_is_not_a_config(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    (mistake,) = mistakes(tmp_path / "model.onnx")
    assert mistake.problem == "is a model, not a config"
    assert f"`tvmake compile {tmp_path / 'model.onnx'}`" in mistake.remedy


def test_a_package_is_not_a_config(tmp_path):
    (tmp_path / "package.tar").write_bytes(b"mod.json\0\xff")
    (mistake,) = mistakes(tmp_path / "package.tar")
    assert mistake.problem == "is an archive, not a config"


@given(st.text(max_size=60))
def test_any_text_is_read_as_a_mapping_or_refused_with_an_input_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        assert isinstance(read_yaml(path, {}), dict)
    except InputError as error:
        assert error.where.startswith(str(path))


def test_a_pipe_is_refused_without_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "tvmake.yaml")
    with pytest.raises(InputError, match="cannot be read: it is a pipe, not a file"):
        read_yaml(tmp_path / "tvmake.yaml", {})
