"""tokenizer.json, which the library ``tokenizers`` writes, as far as packages need it: how many tokens it has."""

import json
from pathlib import Path
from typing import Any

from tvmake.errors import InputError

TOKENIZER = "tokenizer.json"

MOST_BYTES = 128 << 20
"""Those of large vocabularies have 20 MB."""

AGAIN = "copy or download the file again"


def check_vocabulary(file: Path, vocabulary: int) -> None:
    """Refuse a tokenizer with tokens that a network lacks. Networks may have more: exporters fill vocabularies up.

    Args:
        vocabulary: the number of the network's tokens.

    Raises:
        InputError: the tokenizer has more, or its file is damaged.
    """
    if (count := count_tokens(file)) > vocabulary:
        problem = f"has {count} tokens, and the network {vocabulary}"
        raise InputError(
            str(file), problem, "give the model's own tokenizer, or leave it out: `export: {tokenizer: false}`"
        )


def count_tokens(file: Path) -> int:
    """One more than the largest token.

    Raises:
        InputError: the file is damaged.
    """
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(str(file), f"has more than {MOST_BYTES >> 20} MB, too much for a tokenizer", AGAIN)
        values = json.loads(file.read_bytes())
        ids = [*_ids(values["model"].get("vocab") or []), *(entry["id"] for entry in values.get("added_tokens") or [])]
        largest = max(ids, default=-1)
        if not isinstance(largest, int):
            raise TypeError
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise InputError(str(file), "is not a tokenizer, or damaged", AGAIN) from None
    return largest + 1


def _ids(vocabulary: Any) -> list[int]:
    """The tokens of a vocabulary: by text, or in a list of them in their order."""
    return list(vocabulary.values()) if isinstance(vocabulary, dict) else list(range(len(vocabulary)))
