"""Compare the JSON Schema for editors with the loader."""

import json
import re
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tvmake.config.documents.schema import as_text, config_schema
from tvmake.config.reading.load import load
from tvmake.config.root import Config
from tvmake.plan.plan import Plan

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "config/examples").glob("*.yaml"))
CONFIGS = [*EXAMPLES, ROOT / "config/config.yaml"]
OVERLAYS = {"overlay-quick.yaml": "matrix.yaml"}
"""Overlay examples and their base files."""

PAIRS = sorted(
    {
        tuple(Path(name) for name in re.findall(r"-c (\S+\.yaml)", command))
        for page in (ROOT / "docs").rglob("*.md")
        for command in re.findall(r"tvmake make -c config/\S+ -c config/\S+", page.read_text(encoding="utf-8"))
    }
)
"""Configs that the documentation merges."""


def schema_errors(text: str) -> list[str]:
    return [error.json_path for error in Draft202012Validator(config_schema()).iter_errors(yaml.safe_load(text))]


def test_the_schema_is_a_valid_schema_of_its_dialect():
    Draft202012Validator.check_schema(config_schema())


def test_the_schema_file_is_up_to_date():
    text = (ROOT / "config/schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == config_schema(), "run: python -m tvmake.config.documents.schema > config/schema.json"
    assert text == as_text()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_fits_the_schema(path):
    assert schema_errors(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_loads_and_makes_something(path):
    below = [path.with_name(OVERLAYS[path.name])] if path.name in OVERLAYS else []
    assert Plan(load([*below, path])).variants


def test_the_documentation_merges_configs():
    assert len(PAIRS) >= 2


@pytest.mark.parametrize("paths", PAIRS, ids=lambda paths: "+".join(path.name for path in paths))
def test_every_pair_of_configs_in_the_documentation_plans_jobs(paths, monkeypatch):
    monkeypatch.chdir(ROOT)
    plan = Plan(load(list(paths)))
    assert all(plan.jobs(variant) for variant in plan.variants)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_names_the_schema_for_editors(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    _, _, schema = first.partition("yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == ROOT / "config/schema.json"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_files_that_shipped_configs_name_exist(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    below = [path.with_name(OVERLAYS[path.name])] if path.name in OVERLAYS else []
    plan = Plan(load([*below, path]))
    for model in plan.config.models:
        for file in plan.source_files(model):
            assert Path(file).exists(), file


@pytest.mark.parametrize(
    "text",
    [
        "precisions: [float32, float16]",
        "precisions: {mine: {base: float16, never: [nn.softmax]}}",
        "targets: [llvm, cuda]",
        "targets: {a: {tag: qcom/adreno-opencl, host: {mtriple: aarch64-linux-gnu}}}",
        "transform: {passes: ['a.b:c', {use: 'a:b', at: start}]}",
        "models: {a: null}",
        "models: {a: {dataset: {limit: null}}}",
        "models: {a: {inputs: {x: {shape: [N, 3], range: [0, 1]}}}}",
        "models: {a: {dataset: {preprocess: {resize: 256, crop: [224, 192], mean: [0.4, 0.5, 0.6]}}}}",
    ],
)
def test_the_schema_accepts_every_form_that_the_loader_accepts(text):
    assert schema_errors(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "model: {}",
        "models: {a: {sourec: x.onnx}}",
        "models: {'a/b': {source: x.onnx}}",
        "models: {a: {dims: {N: -1}}}",
        "precisions: [float8]",
        "precisions: [{base: float16}]",
        "targets: {a: {tag: qcom/adreno-opencl-textures}}",
        "targets: {a: {kind: opencll}}",
        "benchmark: {profile: mlperf}",
        "transform: {passes: [nopass]}",
        "transform: {passes: [{at: start}]}",
        "models: {a: {goals: {per_precision: {float8: {}}}}}",
        "models: {a: {inputs: {x: {range: [0, 1, 2]}}}}",
    ],
)
def test_the_schema_refuses_values_that_the_loader_refuses(text):
    assert schema_errors(text)


def test_every_key_is_described():
    schema = config_schema()
    models = {"Config": schema, **schema["$defs"]}
    keys = {f"{name}.{key}": entry for name, model in models.items() for key, entry in model["properties"].items()}
    assert [key for key, entry in keys.items() if not entry.get("description")] == []
    assert set(schema["properties"]) == set(Config.model_fields)
