"""Language models: greedy tokens of packages are transformers' own, and narrow weights pass their validation."""

import json
from pathlib import Path

import pytest

import tvmake
from tests.decoders import CONFIGS, greedy, write_language_model
from tests.requirements import need_module
from tests.workflow.project import new_project

PROMPT, STEPS = [1, 15, 27, 3, 44], 128


@pytest.fixture(autouse=True)
def library() -> None:
    need_module("transformers", "pip install 'tvmake[transformers]'")


@pytest.mark.long
@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("kind", CONFIGS)
def test_greedy_tokens_are_those_of_transformers(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_language_model(tmp_path / kind, kind)
    expected = greedy(tmp_path / kind, PROMPT, STEPS)
    assert len(set(expected)) > 3
    package = tvmake.load(f"{kind}/").compile(shows_progress=False)
    assert list(tvmake.generate(package, PROMPT, STEPS)) == expected


@pytest.mark.long
def test_narrow_weights_are_validated_token_by_token(tmp_path: Path):
    project = new_project(tmp_path / "project")
    write_language_model(project.directory / "tiny", "llama")
    model = {"source": "tiny", "shapes": [{"sequence": 1}], "dims": {"past": {"min": 0, "max": 63}}}
    project.edit("models", {"tiny": {**model, "validation": {"samples": 32, "steps": 16}}})
    project.edit("precisions", ["float32", "int8_weights", "int4_weights"])
    done = project.make()
    assert done.returncode == 0, done.stderr
    figures = {}
    for precision in ("float32", "int8_weights", "int4_weights"):
        numerics = project.directory / f"results/tiny/{precision}/cpu/numerics.json"
        figures[precision] = json.loads(numerics.read_text())["report"]["continuation"]
    assert figures["float32"] == {"tokens": 16, "equal": 16}
    assert all(figure["tokens"] == 16 for figure in figures.values())
    assert not project.planned_rules()
    weights = project.directory / "tiny/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x3c")
    assert "import" in project.planned_rules()
