"""Pydantic models as stage files."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tvmake.errors import InputError
from tvmake.storage.files import write_text

Model = TypeVar("Model", bound=BaseModel)


def save(value: BaseModel, destination: Path) -> None:
    """Write a model as indented JSON, fields in their declared order, atomically."""
    write_text(destination, value.model_dump_json(indent=1) + "\n")


def load(kind: type[Model], source: Path) -> Model:
    """Read a model written by :func:`save`.

    Raises:
        InputError: the file is missing, not JSON, or of another kind or version.
    """
    try:
        return kind.model_validate_json(source.read_bytes())
    except FileNotFoundError:
        raise InputError(str(source), "no such file") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "content"
        raise InputError(
            str(source),
            f"not a {kind.__name__} of this version ({key}: {first['msg'].lower()})",
            "delete it and run again",
        ) from None
