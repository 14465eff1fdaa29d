"""What a caller gives, checked as a config's values are."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from tvmake.config.reading.messages import message
from tvmake.errors import InputError


def checked(name: str, kind: Any, value: Any) -> Any:
    """An argument's value, as a config takes it for a key of this type.

    Args:
        name: the argument's, or nothing where the keys of ``value`` are arguments themselves.

    Raises:
        InputError: it is of another type, or out of bounds.
    """
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = tuple(".".join(map(str, (*filter(None, [name]), *first["loc"]))).split("."))
        raise InputError(".".join(path), *message([first], path)) from None
