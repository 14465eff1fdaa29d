"""What a caller gives, checked as a config's values are."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tvmake.config.reading.messages import message
from tvmake.errors import InputError
from tvmake.frontend.options import FORMATS
from tvmake.process.output import argument


def path_of(name: str, what: str, value: Any) -> Path:
    """A path that a caller gives.

    Args:
        name: of the function that takes it.
        what: is to be at the path, for messages (``a package.tar``).

    Raises:
        InputError: it is no path, or an empty one.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path:
        given = "an empty text" if path == "" else f"a {type(value).__name__}"
        raise InputError(name, f"expected the path of {what} (got {given})", f"name {what}")
    return Path(path)


def check_is_no_other(file: Path) -> None:
    """Refuse a model or a config in the place of a package.

    Raises:
        InputError: it is one, by its name.
    """
    if file.suffix in FORMATS and file.is_file():
        raise InputError(str(file), "is a model, not a package", f"`tvmake compile {argument(file)}` makes one of it")
    if file.suffix in (".yaml", ".yml") and file.is_file():
        remedy = f"`tvmake make -c {argument(file)}` makes the packages that it asks for"
        raise InputError(str(file), "is a config, not a package", remedy)


def checked(name: str, kind: Any, value: Any) -> Any:
    """An argument's value, as a config takes it for a key of this type.

    Args:
        name: the argument's, or nothing where the keys of ``value`` are arguments themselves.

    Raises:
        InputError: it is of another type, or out of bounds.
    """
    try:
        return TypeAdapter(kind).validate_python(_as_meant(kind, value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(".".join(map(str, (*filter(None, [name]), *first["loc"]))).split("."))
        raise InputError(".".join(path), *message([first], path)) from None


def _as_meant(kind: Any, value: Any) -> Any:
    """Let True be no number, which it is to Python, as configs do."""
    if isinstance(value, bool):
        with suppress(ValidationError):
            if not isinstance(TypeAdapter(kind).validate_python(value), bool):
                return str(value)
    fields = getattr(kind, "model_fields", {})
    if isinstance(value, dict) and fields:
        return {
            name: _as_meant(fields[name].annotation, each) if name in fields else each for name, each in value.items()
        }
    return value
