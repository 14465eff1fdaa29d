"""JSON documents that may come from elsewhere, as pydantic models."""

from typing import Any, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, from_json

Model = TypeVar("Model", bound=BaseModel)

CONTAINERS = ("list", "tuple", "set", "frozenset", "dict")
"""Of pydantic's schemas, those whose values are without number."""


class FailsFast:
    """For a model, before ``BaseModel``: a list or mapping is left at its first wrong value.

    Pydantic goes on by default, and a megabyte of wrong values costs it a gigabyte of errors, of which one is told.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """As any model's, with containers that fail fast."""
        schema: CoreSchema = _failing_fast(handler(source))
        return schema


def parse(kind: type[Model], data: bytes) -> Model:
    """The model that a JSON document is.

    Its values are made once and then looked at: where pydantic reads JSON itself, each of its errors holds a copy.

    Raises:
        pydantic.ValidationError: it is not JSON, or no such document.
    """
    try:
        value = from_json(data)
    except ValueError:
        return kind.model_validate_json(data)  # which says where
    return kind.model_validate(value)


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_failing_fast, schema))
    if not isinstance(schema, dict):
        return schema
    copy = {key: _failing_fast(value) for key, value in schema.items()}
    return {**copy, "fail_fast": True} if schema.get("type") in CONTAINERS else copy
