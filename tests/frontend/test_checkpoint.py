"""The files of a language model's directory, as they are read without its library."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tvmake.errors import InputError
from tvmake.frontend.checkpoint import inspect, read_config
from tvmake.frontend.checkpoint_files import INDEX, WEIGHTS, checkpoint_files
from tvmake.frontend.inspect import inspect_source
from tvmake.frontend.model_files import model_files
from tvmake.frontend.options import ImportOptions

KNOWN = {"model_type": "llama", "vocab_size": 24, "max_position_embeddings": 64}


def write_config(directory: Path, **values: Any) -> None:
    (directory / "config.json").write_text(json.dumps({**KNOWN, **values}))


def shard(count: int = 4) -> bytes:
    """A safetensors file with one tensor."""
    head = json.dumps({"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    return struct.pack("<Q", len(head)) + head + bytes(4 * count)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_config(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(shard())
    return tmp_path


def write_shards(directory: Path, *names: str) -> None:
    (directory / WEIGHTS).unlink()
    (directory / INDEX).write_text(
        json.dumps({"weight_map": {f"w{number}": name for number, name in enumerate(names)}})
    )
    for name in names:
        (directory / name).write_bytes(shard())


def test_a_directory_with_a_config_and_weights_is_a_source(directory: Path):
    declared = inspect_source(ImportOptions(source=f"{directory}/"))
    assert declared.format == "transformers"
    assert [(spec.name, spec.shape, spec.range) for spec in declared.inputs] == [
        ("input_ids", (1, "sequence"), (0, 23))
    ]
    assert [(spec.name, spec.shape) for spec in declared.outputs] == [("logits", (1, 24))]
    assert declared.bounds == {"sequence": (1, None), "past": (0, 63)}


def test_every_file_that_is_read_counts(directory: Path):
    options = ImportOptions(source=str(directory))
    assert model_files(options) == [f"{directory}/config.json", f"{directory}/{WEIGHTS}"]
    write_shards(directory, "b.safetensors", "a.safetensors")
    (directory / "b.safetensors").unlink()  # is listed, so that it is reported
    names = ["config.json", INDEX, "a.safetensors", "b.safetensors"]
    assert model_files(options) == [f"{directory}/{name}" for name in names]


def test_an_index_names_no_files_elsewhere(directory: Path):
    write_shards(directory, "a.safetensors")
    (directory / INDEX).write_text(json.dumps({"weight_map": {"w": "../a.safetensors"}}))
    assert checkpoint_files(str(directory)) == [f"{directory}/config.json", f"{directory}/{INDEX}"]
    with pytest.raises(InputError, match="lists no files of weights"):
        inspect(directory)


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off in the weights": (lambda path: (path / WEIGHTS).write_bytes(shard()[:-3]), r"is cut off: \d+ bytes of \d+"),
    "cut off in the header": (lambda path: (path / WEIGHTS).write_bytes(shard()[:30]), "is cut off within its list"),
    "too long": (lambda path: (path / WEIGHTS).write_bytes(shard() + b"more"), "has 4 bytes too many"),
    "another format": (lambda path: (path / WEIGHTS).write_bytes(b"\x80\x02" * 40), "is not a safetensors file"),
    "a damaged header": (lambda path: (path / WEIGHTS).write_bytes(struct.pack("<Q", 9) + b'{"w": []}'), "damaged list"),
    "empty": (lambda path: (path / WEIGHTS).write_bytes(b""), "is empty"),
    "no weights of that name": (lambda path: (path / WEIGHTS).rename(path / "w.safetensors"), "has w.safetensors, and no"),
    "a shard is missing": (lambda path: (write_shards(path, "a.safetensors"), (path / "a.safetensors").unlink()), "no such"),
    "no JSON": (lambda path: (path / "config.json").write_text("{"), "is not JSON"),
    "no object": (lambda path: (path / "config.json").write_text("[]"), "is not a config"),
    "no architecture": (lambda path: write_config(path, model_type=None), "names no `model_type`"),
    "no vocabulary": (lambda path: write_config(path, vocab_size=None), "'llama' states no `vocab_size`"),
    "code of its own": (lambda path: write_config(path, auto_map={"AutoModel": "a.B"}), "which is not run"),
    "quantised": (lambda path: write_config(path, quantization_config={"quant_method": "gptq"}), "quantised by gptq"),
    "an encoder": (lambda path: write_config(path, model_type="t5", is_encoder_decoder=True), "an encoder with a decoder"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_files_that_no_package_can_be_made_of_are_refused_in_one_line(directory: Path, case: str):
    change, problem = CASES[case]
    change(directory)
    with pytest.raises(InputError, match=problem) as raised:
        inspect_source(ImportOptions(source=str(directory)))
    assert raised.value.remedy and "\n" not in raised.value.problem


def test_sizes_of_a_text_decoder_within_another_model_are_read(directory: Path):
    write_config(directory, vocab_size=None, text_config={"vocab_size": 7, "n_positions": 9})
    config = read_config(directory)
    assert (config.vocabulary, config.context) == (7, 9)
