"""Language models of transformers, as networks with memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.decoders import write_language_model
from tests.requirements import need_module
from tvmake.artifact.signature import Signature
from tvmake.errors import InputError
from tvmake.frontend.imported import ImportedModel
from tvmake.frontend.options import ImportOptions

TINY = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16}


@pytest.fixture(autouse=True)
def library() -> None:
    need_module("transformers", "pip install 'tvmake[transformers]'")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_module("transformers", "pip install 'tvmake[transformers]'")
    directory = tmp_path_factory.mktemp("models") / "llama"
    write_language_model(directory, "llama", **TINY)
    return directory


def read(directory: Path, **options: Any) -> ImportedModel:
    from tvmake.frontend.torch import importer, source

    request = ImportOptions(source=str(directory), **options)
    return importer.read(source.load_program(str(directory), request), request)


def refusal(directory: Path) -> InputError:
    from tvmake.frontend.torch.decoders import load

    with pytest.raises(InputError) as raised:
        load.export(str(directory), ImportOptions(source=str(directory)))
    assert "\n" not in raised.value.problem
    return raised.value


def extents(signature: Signature) -> dict[str, tuple[int | str, ...]]:
    return {spec.name: spec.shape for spec in (*signature.inputs, *signature.outputs)}


def test_the_network_takes_tokens_and_a_past_which_may_be_empty(llama: Path):
    imported = read(llama)
    assert extents(imported.signature) == {
        "input_ids": (1, "sequence"),
        "past_key_0": (1, 2, "past", 4),
        "past_value_0": (1, 2, "past", 4),
        "logits": (1, 96),
        "present_key_0": (1, 2, "past + sequence", 4),
        "present_value_0": (1, 2, "past + sequence", 4),
    }
    assert imported.signature.bounds == {"past": (0, 255), "sequence": (1, None)}
    assert imported.signature.inputs[0].indices == (0, 95)
    assert imported.state == {"past_key_%d": "present_key_%d", "past_value_%d": "present_value_%d"}


def test_sizes_of_a_config_replace_the_names(llama: Path):
    imported = read(llama, inputs={"input_ids": {"shape": [1, 1]}})
    assert extents(imported.signature)["present_key_0"] == (1, 2, "past + 1", 4)


def test_weights_of_another_config_are_refused(llama: Path, tmp_path: Path):
    from safetensors.torch import load_file, save_file

    for file in llama.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(llama / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "q_proj" not in name}, tmp_path / "model.safetensors")
    assert refusal(tmp_path).problem == (
        "its files lack the weights model.layers.0.self_attn.q_proj.weight of LlamaForCausalLM"
    )
    (tmp_path / "model.safetensors").write_bytes((llama / "model.safetensors").read_bytes())
    known = json.loads((llama / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**known, "intermediate_size": 24}))
    assert "mlp" in refusal(tmp_path).problem


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"model_type": "unheard_of"}, "does not know it"),
        ({"model_type": "vit"}, "'vit' is not an architecture of language models"),
    ],
)
def test_other_architectures_are_refused(llama: Path, tmp_path: Path, values: dict[str, Any], problem: str):
    known = json.loads((llama / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**known, **values}))
    (tmp_path / "model.safetensors").write_bytes((llama / "model.safetensors").read_bytes())
    assert problem in refusal(tmp_path).problem


def test_a_memory_of_another_kind_is_refused(tmp_path: Path):
    write_language_model(tmp_path, "mamba", num_hidden_layers=1, hidden_size=16, state_size=4)
    assert "the memory of MambaForCausalLM is not one key and one value" in refusal(tmp_path).problem
