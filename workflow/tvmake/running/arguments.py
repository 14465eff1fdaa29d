"""Check the arguments of callers like the values of a config."""

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
    """A path argument.

    Args:
        name: the name of the function with the argument.
        what: the kind of file, for messages (``a package.tar``).

    Raises:
        InputError: it is not a path, or empty.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path:
        actual = "an empty text" if path == "" else f"a {type(value).__name__}"
        raise InputError(name, f"expected the path of {what} (got {actual})", f"name {what}")
    return Path(path)


def check_is_package(file: Path) -> None:
    """Refuse a model or a config in place of a package.

    Raises:
        InputError: the file's name is that of a model or a config.
    """
    if file.suffix in FORMATS and file.is_file():
        raise InputError(
            str(file), "is a model, not a package", f"`tvmake compile {argument(file)}` makes a package of it"
        )
    if file.suffix in (".yaml", ".yml") and file.is_file():
        remedy = f"`tvmake make -c {argument(file)}` makes the packages that it asks for"
        raise InputError(str(file), "is a config, not a package", remedy)


def validate_argument(name: str, kind: Any, value: Any) -> Any:
    """An argument's value, validated as a config key of this type.

    Args:
        name: the argument's name, or empty if the keys of ``value`` are arguments.

    Raises:
        InputError: it has another type, or is out of bounds.
    """
    try:
        return TypeAdapter(kind).validate_python(_without_booleans(kind, value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(".".join(map(str, (*filter(None, [name]), *first["loc"]))).split("."))
        raise InputError(".".join(path), *message([first], path)) from None


def _without_booleans(kind: Any, value: Any) -> Any:
    """Refuse True as a number, as configs do; Python accepts it."""
    if isinstance(value, bool):
        with suppress(ValidationError):
            if not isinstance(TypeAdapter(kind).validate_python(value), bool):
                return str(value)
    fields = getattr(kind, "model_fields", {})
    if isinstance(value, dict) and fields:
        return {
            name: _without_booleans(fields[name].annotation, field_value) if name in fields else field_value
            for name, field_value in value.items()
        }
    return value
