"""Language models: greedy tokens of packages are transformers' own, and narrow weights pass their validation."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

import tvmake
from tests.decoders import CONFIGS, greedy, write_language_model, write_tokenizer
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


@pytest.mark.long
def test_a_package_has_the_tokenizer_of_its_directory(tmp_path: Path):
    need_module("tokenizers", "pip install 'tvmake[tokenizers]'")
    project = new_project(tmp_path / "project")
    write_language_model(project.directory / "tiny", "llama")
    write_tokenizer(project.directory / "tiny", 96)
    model = {"source": "tiny", "dims": {"past": {"min": 0, "max": 63}}, "validation": {"samples": 4}}
    project.edit("models", {"tiny": model})
    project.edit("precisions", ["float32"])
    done = project.make()
    assert done.returncode == 0, done.stderr
    package = project.directory / "results/tiny/float32/cpu/package.tar"
    with tarfile.open(package) as archive:
        assert archive.extractfile("tokenizer.json").read() == (project.directory / "tiny/tokenizer.json").read_bytes()
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(package, alone / "tiny.tar")
    done = project.run("tvmake", "run", str(alone / "tiny.tar"), "--prompt", "w1 w15 w27", "--steps", "3", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["prompt"] == [1, 15, 27]
    assert result["tokens"] == greedy(project.directory / "tiny", [1, 15, 27], 3)
    done = project.run("tvmake", "pack", f"chat={package}", "-o", "chat.tar")
    assert done.returncode == 0, done.stderr
    assert tvmake.open(project.directory / "chat.tar")["chat"].tokenizer.name == "tokenizer.json"
    write_tokenizer(project.directory / "tiny", 97)
    done = project.run("tvmake", "check")
    assert "tiny/tokenizer.json: has 97 tokens, and the network 96" in done.stderr
    assert done.returncode == 1
    project.edit("export", {"tokenizer": False})
    assert project.run("tvmake", "check").returncode == 0
    assert project.planned_rules()["export"] == 1
