"""Keys in messages become options of ``tvmake compile``, or arguments in Python."""

import re
from pathlib import Path

import pytest
import yaml

from tvmake.config.reading.notation import Notation
from tvmake.config.root import Config, ModelConfig

OPTIONS = Notation("options", "net", "/here/net.onnx", "net.onnx", {"models.net.dims.n": "--dim n=1"})
ARGUMENTS = Notation("arguments", "net")


@pytest.mark.parametrize(
    ("key", "option", "arguments"),
    [
        ("dims: {NAME: SIZE}", "--dim NAME=SIZE", "dims={\"NAME\": SIZE}"),
        ("dims: {a: 1, b: {min: 1, max: 8}}", "--dim a=1 --dim b=1..8", 'dims={"a": 1, "b": (1, 8)}'),
        ("dims: {b: {max: 8}}", "--dim b=..8", 'dims={"b": (None, 8)}'),
        ("shapes: [{a: 1}, {a: 8, b: 2}]", "--shape a=1 --shape a=8,b=2", 'shapes=[{"a": 1}, {"a": 8, "b": 2}]'),
        ("inputs: {x: {shape: [1, 3]}}", "--input-shape x=1,3", 'inputs={"x": (1, 3)}'),
        ("inputs: {x: {shape: […]}}", "--input-shape 'x=…'", 'inputs={"x": (…,)}'),
        ("inputs: {x: {value: [0.5, 2]}}", "--input-value 'x=[0.5,2]'", 'values={"x": [0.5, 2]}'),
        ("inputs: {x: {range: [0, 1]}}", "--set 'models.net.inputs.x.range=[0, 1]'", 'options={"models.net.inputs.x.range": [0, 1]}'),
        ("trusted: true", "--trusted", "trusted=True"),
        ("files: [a.bin]", "--set 'models.net.files=[a.bin]'", 'options={"models.net.files": ["a.bin"]}'),
        ("precisions: [float16]", "--precision float16", 'precision="float16"'),
        ("tuning: {trials: TRIALS}", "--tune TRIALS", "tune=TRIALS"),
        ("transform.layout: keep", "--layout keep", 'options={"transform.layout": "keep"}'),
        ("build: {opt_level: 2}", "--set build.opt_level=2", 'options={"build.opt_level": 2}'),
    ],
)  # fmt: skip
def test_a_key_is_written_as_the_user_types_it(key: str, option: str, arguments: str):
    assert OPTIONS.translate(f"fix it: `{key}`, or not") == f"fix it: `{option}`, or not"
    assert ARGUMENTS.translate(f"fix it: `{key}`") == f"fix it: `{arguments}`"


@pytest.mark.parametrize("text", ["`If`", "`host: port`", "`pip install x`", "no: keys", "`dims: {`"])
def test_other_texts_are_unchanged(text: str):
    assert OPTIONS.translate(text) == ARGUMENTS.translate(text) == text


def test_a_source_is_named_as_it_was_typed_and_a_key_by_its_option():
    assert OPTIONS.translate("error: /here/net.onnx: no") == "error: net.onnx: no"
    assert OPTIONS.option_of("dims.n") == "--dim n=1"
    assert OPTIONS.option_of("dims.m") is None


def test_a_notation_survives_a_process():
    assert Notation.load(OPTIONS.dump()) == OPTIONS
    assert Notation.load("") is None


ROOMS = ("frontend", "transform", "quantize", "targets", "codegen", "validate", "report")

ALLOWED = {"opset", "targets", "format", "export", "arguments", "dataset", "seed"}
"""Keys that only a config can have, or only a user who knows them has set; and words that are also names in PyTorch."""

KEYS = {*ModelConfig.model_fields, *Config.model_fields} - ALLOWED


def test_messages_name_keys_with_values_so_that_they_can_be_translated():
    """A key without a value, such as `dims`, can be typed in a config only."""
    package = Path(__file__).parents[3] / "workflow" / "tvmake"
    bare = []
    for file in (file for room in ROOMS for file in (package / room).rglob("*.py")):
        code = re.sub(r'"""[\s\S]*?"""|(?<!`)``[^`]*``', "", file.read_text())
        bare += [
            f"{file.name}: {word}"
            for word in re.findall(r"(?<!`)`([a-z_.]+)`(?!`)", code)
            if word.partition(".")[0] in KEYS
        ]
    assert not bare


def test_translations_load_again():
    assert yaml.safe_load(OPTIONS.translate("`inputs: {x: {value: [1, [2]]}}`").split("=")[1].strip("'`")) == [1, [2]]
