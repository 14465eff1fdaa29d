"""tokenizer.json: how many tokens it has, whatever its kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from tvmake.artifact.tokenizer_file import check_vocabulary, count_tokens
from tvmake.errors import InputError


def write(directory: Path, values: Any) -> Path:
    file = directory / "tokenizer.json"
    file.write_text(json.dumps(values))
    return file


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"model": {"vocab": {"a": 0, "b": 1}}}, 2),
        ({"model": {"vocab": [["a", -1.5], ["b", -2.0], ["c", -2.0]]}}, 3),
        ({"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 5, "content": "<end>"}]}, 6),
        ({"model": {"vocab": {}}, "added_tokens": []}, 0),
    ],
    ids=["by text", "in order", "added", "none"],
)
def test_the_number_of_tokens_is_one_more_than_the_largest(tmp_path: Path, values: Any, count: int):
    assert count_tokens(write(tmp_path, values)) == count


@pytest.mark.parametrize(
    "values", [[], {}, {"model": 3}, {"model": {"vocab": {"a": "b"}}}, {"model": {}, "added_tokens": [{}]}]
)
def test_a_damaged_file_is_refused(tmp_path: Path, values: Any):
    with pytest.raises(InputError, match="is not a tokenizer, or damaged"):
        count_tokens(write(tmp_path, values))


def test_a_network_may_have_more_tokens_and_not_fewer(tmp_path: Path):
    file = write(tmp_path, {"model": {"vocab": {"a": 0, "b": 1}}})
    check_vocabulary(file, 2)
    check_vocabulary(file, 64)
    with pytest.raises(InputError, match="has 2 tokens, and the network 1"):
        check_vocabulary(file, 1)
