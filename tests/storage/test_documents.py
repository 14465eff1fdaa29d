"""Documents from elsewhere: read as pydantic reads them, and at no great cost where they are made of mistakes."""

import json
import tracemalloc

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from tvmake.storage.documents import FailsFast, parse


class Part(FailsFast, BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    size: int
    share: float
    shape: tuple[int, ...] = ()


class Whole(Part):
    parts: list[Part]
    by_name: dict[str, Part]


def document(**more: object) -> dict[str, object]:
    part = {"name": "a", "size": 1, "share": 0.5, "shape": [1, 2]}
    return {**part, "parts": [part], "by_name": {"a": part}, **more}


def test_a_document_is_what_pydantic_takes_it_for():
    data = json.dumps(document()).encode()
    assert parse(Whole, data) == Whole.model_validate_json(data)


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 10_000, b"\xff", b"null", b"{}", b'{"name": NaN}'])
def test_what_is_none_is_refused_as_pydantic_refuses_it(data: bytes):
    with pytest.raises(ValidationError) as found:
        parse(Whole, data)
    with pytest.raises(ValidationError) as wanted:
        Whole.model_validate_json(data)
    assert [error["loc"] for error in found.value.errors()] == [error["loc"] for error in wanted.value.errors()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": [{}] * 50_000},
        {"by_name": {str(number): {} for number in range(50_000)}},
        {"shape": ["x"] * 50_000},
    ],
)
def test_the_first_of_many_mistakes_is_reported_and_the_others_cost_nothing(wrong: dict[str, object]):
    data = json.dumps(document(**wrong)).encode()
    tracemalloc.start()
    try:
        with pytest.raises(ValidationError) as found:
            parse(Whole, data)
        assert found.value.error_count() <= 4
        assert tracemalloc.get_traced_memory()[1] < 100 * len(data)
    finally:
        tracemalloc.stop()
