"""The types of config keys."""

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from tvmake.config.reading.positions import KeyPath
from tvmake.config.root import Config


def fields_at(path: KeyPath) -> list[str]:
    """Return the keys of the model at ``path`` in their documented order."""
    return list(dict.fromkeys(name for kind in kinds_at(path) if is_model(kind) for name in kind.model_fields))


def kinds_at(path: KeyPath) -> Sequence[Any]:
    """Return the types of the value at ``path``."""
    kinds: Sequence[Any] = (Config,)
    for part in path:
        kinds = kinds_below(kinds, part)
    return kinds


def kinds_below(kinds: Sequence[Any], part: str) -> list[Any]:
    """Return the types of the value at ``part`` in a value of one of ``kinds``."""
    below: list[Any] = []
    for kind in kinds:
        if is_model(kind):
            if part in kind.model_fields:
                below += branches(kind.model_fields[part].annotation)
        elif get_origin(kind) in (dict, Mapping):
            below += branches(get_args(kind)[1])
        elif get_origin(kind) in (list, tuple):
            below += branches(get_args(kind)[0])
    return below


def is_model(kind: Any) -> bool:
    """Whether a type is a model with keys."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def branches(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows."""
    if get_origin(annotation) is Annotated:
        return branches(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [branch for option in get_args(annotation) for branch in branches(option)]
    return [annotation]
