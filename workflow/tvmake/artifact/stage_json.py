"""Pydantic models as stage files."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tvmake.errors import InputError
from tvmake.storage.documents import parse
from tvmake.storage.files import write_text
from tvmake.storage.plain_files import read_plain

Model = TypeVar("Model", bound=BaseModel)

MOST_BYTES = 256 << 20

GONE = "`tvmake make` rebuilds it; if it existed before, another program deletes or moves files"
"""The remedy for a missing file of an earlier stage."""

LONGEST_KEY = 80
"""Characters of a key that a message names."""


def save(value: BaseModel, destination: Path) -> None:
    """Write a model as indented JSON, fields in their declared order, atomically."""
    write_text(destination, value.model_dump_json(indent=1) + "\n")


def load(kind: type[Model], source: Path, most_bytes: int = MOST_BYTES) -> Model:
    """Read a model written by :func:`save`.

    Raises:
        InputError: the file is missing, no plain file, larger than ``most_bytes``, not JSON, or of another kind or version.
    """
    try:
        return parse(kind, read_plain(source, most_bytes, f"{kind.__name__} of tvmake's"))
    except FileNotFoundError:
        raise InputError(str(source), "no such file", GONE) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part)[:LONGEST_KEY] for part in first["loc"]) or "content"
        raise InputError(
            str(source),
            f"not a {kind.__name__} of this version ({key}: {first['msg'].lower()})",
            "delete it and run again",
        ) from None
