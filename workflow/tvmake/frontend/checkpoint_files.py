"""The files of a language model's directory, as transformers writes them, without reading any weights."""

import json
import os
from collections.abc import Mapping

from tvmake.artifact.tokenizer_file import TOKENIZER

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Which shard has which tensor."""

DECODER_STATE: Mapping[str, str] = {"past_key_%d": "present_key_%d", "past_value_%d": "present_value_%d"}
"""The keys and values of all earlier positions, by layer."""

MOST_INDEX_BYTES = 64 << 20


def is_checkpoint(source: str) -> bool:
    """Whether a path is a directory with a config and weights."""
    with_config = os.path.isfile(os.path.join(source, CONFIG))  # noqa: PTH113, PTH118  # False for a name that is too long
    return with_config and any(name.endswith((".safetensors", INDEX)) for name in os.listdir(source))  # noqa: PTH208


def tokenizer_of(source: str) -> str | None:
    """The tokenizer.json in a language model's directory, if there is one."""
    file = os.path.join(source, TOKENIZER)  # noqa: PTH118
    return file if os.path.isfile(file) and is_checkpoint(source) else None  # noqa: PTH113


def checkpoint_files(source: str) -> list[str]:
    """The files that the import reads, those that do not exist too: the config, and the weights in one file or in shards."""
    directory = source.rstrip("/") or source
    weights = [WEIGHTS]
    if not os.path.exists(f"{directory}/{WEIGHTS}") and os.path.exists(f"{directory}/{INDEX}"):  # noqa: PTH110
        weights = [INDEX, *shards(f"{directory}/{INDEX}")]
    return [f"{directory}/{name}" for name in (CONFIG, *weights)]


def shards(index: str) -> list[str]:
    """The names of the files that an index lists, in order; none if it is damaged, or a name is not that of a file beside it."""
    try:
        if os.path.getsize(index) > MOST_INDEX_BYTES:  # noqa: PTH202
            return []
        with open(index, encoding="utf-8") as file:  # noqa: PTH123
            names = sorted(set(json.load(file)["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []
    is_plain = all(isinstance(name, str) and name == os.path.basename(name) and name for name in names)  # noqa: PTH119
    return names if is_plain else []
