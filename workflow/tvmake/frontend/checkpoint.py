"""Read what the files of a language model's directory declare, and check that they are whole, without its library."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmake.artifact.signature import Signature, TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.checkpoint_files import CONFIG, INDEX, MOST_INDEX_BYTES, WEIGHTS, checkpoint_files, shards
from tvmake.frontend.options import InputSpec
from tvmake.frontend.source_file import COPY, open_source

TOKENS, SEQUENCE, PAST, LOGITS = "input_ids", "sequence", "past", "logits"
"""The input, its dynamic dimension, that of the states, and the output."""

CONTEXTS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length")
"""Keys of a config for the greatest number of positions."""

HEADER_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""The limit of the format."""


@dataclass(frozen=True)
class DecoderConfig:
    """What a config.json says about a language model's inputs and outputs."""

    kind: str
    """Its architecture, as transformers calls it."""
    vocabulary: int
    """The number of tokens."""
    context: int | None
    """The greatest number of positions, if it states one."""


def read_config(directory: Path) -> DecoderConfig:
    """The config of a language model.

    Raises:
        InputError: the file is damaged, is not one of transformers, or needs code of its own or weights in another layout.
    """
    file = directory / CONFIG
    where = str(file)
    values = _read_json(file)
    kind, text = values.get("model_type"), values.get("text_config")
    inner = text if isinstance(text, dict) else values
    if not isinstance(kind, str):
        raise InputError(where, "names no `model_type`", "give a directory that transformers' save_pretrained wrote")
    if values.get("auto_map"):
        remedy = "write a function that builds the module, and name that: `source: module:function`"
        raise InputError(where, "its network is code of its own (`auto_map`), which is not run", remedy)
    if method := values.get("quantization_config"):
        name = method.get("quant_method") if isinstance(method, dict) else None
        problem = f"its weights are quantised{f' by {name}' if isinstance(name, str) else ''}"
        raise InputError(where, problem, "give the model in float16, bfloat16 or float32; `int4_weights` narrows those")
    if values.get("is_encoder_decoder"):
        problem = f"'{kind}' is an encoder with a decoder, and a language model has the decoder alone"
        raise InputError(where, problem, "export both to ONNX, or name functions that return the two modules")
    vocabulary: Any = inner.get("vocab_size")
    if not _is_size(vocabulary):
        problem = f"'{kind}' states no `vocab_size`"
        raise InputError(where, problem, "give a directory of a language model (AutoModelForCausalLM)")
    context = next((inner[key] for key in CONTEXTS if _is_size(inner.get(key))), None)
    return DecoderConfig(kind, vocabulary, context)


def inspect(directory: Path) -> Signature:
    """The input and the output of a language model, with the bounds of its dynamic dimensions; its files are checked.

    Raises:
        InputError: a file is missing, damaged or cut off, or as for :func:`read_config`.
    """
    config = read_config(directory)
    check_weights(directory)
    tokens = TensorSpec(
        name=TOKENS,
        relax_name=TOKENS,
        shape=(1, SEQUENCE),
        dtype="int64",
        range=(0, config.vocabulary - 1),
        indices=(0, config.vocabulary - 1),
    )
    logits = TensorSpec(name=LOGITS, relax_name=LOGITS, shape=(1, config.vocabulary), dtype="float32")
    most = config.context and config.context - 1
    return Signature(inputs=(tokens,), outputs=(logits,), bounds={SEQUENCE: (1, None), PAST: (0, most)})


def name_dimensions(signature: Signature, entries: Mapping[str, InputSpec]) -> dict[str, InputSpec]:
    """The entries of ``inputs:`` of a config, with names for the dynamic dimensions of those that have no shape.

    Args:
        signature: of the exported network, whose only dynamic dimensions are the number of tokens and that of earlier positions.
    """
    named = dict(entries)
    for spec in signature.inputs:
        entry = entries.get(spec.name, InputSpec())
        name = SEQUENCE if spec.name == TOKENS else PAST
        if entry.shape is None:
            shape = [name if isinstance(extent, str) else extent for extent in spec.shape]
            named[spec.name] = entry.model_copy(update={"shape": shape})
    return named


def check_weights(directory: Path) -> None:
    """Check that all files of weights exist and are whole.

    Raises:
        InputError: one is missing, cut off, damaged, or of another format.
    """
    if not (directory / WEIGHTS).exists():
        if not (directory / INDEX).exists():
            others = sorted(path.name for path in directory.glob("*.safetensors"))
            names = ", ".join(others[:3])
            raise InputError(str(directory), f"has {names}, and no {WEIGHTS} or {INDEX}", f"name the weights {WEIGHTS}")
        if not shards(str(directory / INDEX)):
            raise InputError(str(directory / INDEX), "is damaged: it lists no files of weights", COPY)
    for file in map(Path, checkpoint_files(str(directory))):
        if file.suffix == ".safetensors":
            _check_shard(file)


def _check_shard(file: Path) -> None:
    with open_source(file, ".safetensors", COPY) as opened:
        size = file.stat().st_size
        length = int.from_bytes(opened.read(HEADER_BYTES), "little")
        if not 2 <= length <= MOST_HEADER_BYTES or not (head := opened.read(1)).startswith(b"{"):
            raise InputError(str(file), "is not a safetensors file, or a damaged one", COPY)
        if length > size - HEADER_BYTES:
            raise InputError(str(file), "is cut off within its list of tensors", COPY)
        try:
            tensors = json.loads(head + opened.read(length - 1))
            data = max(
                (int(entry["data_offsets"][1]) for name, entry in tensors.items() if name != "__metadata__"), default=0
            )
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise InputError(str(file), "has a damaged list of tensors", COPY) from None
        if (expected := HEADER_BYTES + length + data) != size:
            problem = (
                f"is cut off: {size} bytes of {expected}"
                if size < expected
                else f"has {size - expected} bytes too many"
            )
            raise InputError(str(file), problem, COPY)


def _read_json(file: Path) -> Mapping[str, Any]:
    with open_source(file, ".json", COPY) as opened:
        try:
            values = json.loads(opened.read(MOST_INDEX_BYTES))
        except (ValueError, RecursionError) as error:
            line = str(error).splitlines()[0]
            raise InputError(str(file), f"is not JSON, or damaged: {line}", COPY) from None
    if not isinstance(values, dict):
        raise InputError(str(file), "is not a config: expected an object", COPY)
    return values


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
