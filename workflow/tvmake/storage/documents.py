"""JSON documents from outside, as pydantic models."""

from typing import Any, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, from_json

Model = TypeVar("Model", bound=BaseModel)

CONTAINERS = ("list", "tuple", "set", "frozenset", "dict")
"""Pydantic's schema types with any number of values."""


class FailsFast:
    """A mixin, before ``BaseModel``: validation of a list or mapping stops at its first error.

    Pydantic continues by default: a megabyte of invalid values costs a gigabyte of errors, of which one is reported.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """The model's schema, with containers that fail fast."""
        schema: CoreSchema = _failing_fast(handler(source))
        return schema


def parse(kind: type[Model], data: bytes) -> Model:
    """Parse a JSON document as a model.

    The JSON is parsed before validation: if pydantic parses it, each of its errors has a copy of the document.

    Raises:
        pydantic.ValidationError: it is not JSON, or does not match the model.
    """
    try:
        value = from_json(data)
    except ValueError:
        return kind.model_validate_json(data)  # its error has the position
    return kind.model_validate(value)


def _failing_fast(schema: Any) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(map(_failing_fast, schema))
    if not isinstance(schema, dict):
        return schema
    copy = {key: _failing_fast(value) for key, value in schema.items()}
    return {**copy, "fail_fast": True} if schema.get("type") in CONTAINERS else copy
