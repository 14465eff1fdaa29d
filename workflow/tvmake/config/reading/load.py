"""Merge config files and options, check the result, and report all errors together."""

import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tvmake.config.reading.kinds import kinds_below
from tvmake.config.reading.mistakes import empty_entries, mistakes
from tvmake.config.reading.notation import Notation
from tvmake.config.reading.positions import NO_FILE, SET, KeyPath, Position, format_path, where_is
from tvmake.config.reading.yaml_file import read_yaml
from tvmake.config.root import AXES, FORMER_NAMES, Config
from tvmake.errors import ErrorList, InputError, TvmakeError

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters except tabs and line feeds, and lone surrogates."""


def load(paths: Sequence[Path]) -> Config:
    """Read config files, merge later ones into earlier ones, and check the result.

    Mappings merge key by key; lists and scalars replace; ``key: null`` removes a key of an earlier file, unless the key
    accepts null (``goals: {rtol: null}``, ``limit: null``).

    Raises:
        InputError, ErrorList: a file cannot be read, or the config is invalid; every mistake has its file, line and key.
    """
    return load_layers(paths, {})


def load_layers(
    paths: Sequence[Path],
    last: Mapping[str, Any],
    *,
    first: Mapping[str, Any] | None = None,
    given_as: str = SET,
) -> Config:
    """Like :func:`load`, with one more layer from outside the files (``--set`` options).

    Args:
        first: the layer below the files.
        given_as: the source of ``last``: the option that sets each value, or the name of the argument.
    """
    return read_layers(paths, last, first=first, given_as=given_as).config()


@dataclass(frozen=True)
class Layers:
    """Merged config files and options before the check, and the position of each key."""

    values: Mapping[str, Any]
    positions: Mapping[KeyPath, Position]
    default_file: str
    """File to report for a missing key."""
    former: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names of each axis in all layers."""

    def config(self) -> Config:
        """Check the merged values.

        Raises:
            InputError, ErrorList: as in :func:`load`.
        """
        return check(self.values, self.positions, self.default_file, self.former)


def read_layers(
    paths: Sequence[Path], last: Mapping[str, Any], *, first: Mapping[str, Any] | None = None, given_as: str = SET
) -> Layers:
    """Read and merge the layers that :func:`load_layers` checks.

    Raises:
        InputError, ErrorList: a file cannot be read, or is not a config.
    """
    merged: dict[str, Any] = dict(first or {})
    positions: dict[KeyPath, Position] = {}
    layers = [merged]
    for path in paths:
        values = read_yaml(path, positions)
        layers.append(values)
        if not merged and (errors := list(empty_entries(values, positions, str(path)))):
            raise one_or_many(errors)
        merged = merge(merged, values)
    for key, value in _leaves(last):
        shown_value = "…" if "env" in key else value  # values of variables may be secret
        positions[key] = Position(f"{SET} {'.'.join(key)}={shown_value}" if given_as == SET else given_as, 0)
    return Layers(merge(merged, last), positions, str(paths[-1]) if paths else NO_FILE, names_of_axes(layers))


def names_of_axes(layers: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the names of models, precisions and targets that any layer gives."""
    entries = {axis: [values.get(axis) for values in layers] for axis in AXES}
    return {
        axis: {name for part in parts if isinstance(part, Mapping | list) for name in part if isinstance(name, str)}
        for axis, parts in entries.items()
    }


def _leaves(values: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield each leaf key and its value as text."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, str(key)))
        else:
            yield (*above, str(key)), "" if value is None else str(value)


def check(
    values: Mapping[str, Any],
    positions: Mapping[KeyPath, Position],
    default_file: str = NO_FILE,
    former: Mapping[str, Collection[str]] | None = None,
) -> Config:
    """Turn merged values into a Config.

    Args:
        former: the names of each axis in all layers (:func:`names_of_axes`).

    Raises:
        InputError, ErrorList: as in :func:`load`.
    """
    if unprintable := next(_unprintable(values, ()), None):
        path, character = unprintable
        problem = f"{format_path(path)}: contains the character {character!a}"
        raise InputError(where_is(path, positions, default_file), problem)
    try:
        return Config.model_validate(drop_nulls(values), context={FORMER_NAMES: former or {}})
    except ValidationError as error:
        raise one_or_many(list(mistakes(error, values, positions, default_file))) from None


def _unprintable(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield control characters in keys and strings, which would reach terminals, file names and command lines."""
    if isinstance(value, str):
        if match := CONTROL.search(value):
            yield path, match[0]
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            name = str(key)
            if match := CONTROL.search(name):
                yield (*path, name), match[0]
            yield from _unprintable(entry, (*path, name))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unprintable(entry, (*path, str(index)))


def locate(error: TvmakeError, files: Iterable[Path]) -> TvmakeError:
    """Add file and line of the config key that an error begins with; other errors are returned unchanged.

    Args:
        error: its ``where`` may begin with a key, as ``models.digits.source`` or ``targets.cpu: …``.
        files: the config's files; later ones override earlier ones.
    """
    positions: dict[KeyPath, Position] = {}
    for file in files:
        try:
            read_yaml(file, positions)
        except InputError:
            return error
    return _locate_among(positions, error)


def _locate_among(positions: Mapping[KeyPath, Position], error: TvmakeError) -> TvmakeError:
    if isinstance(error, ErrorList):
        return ErrorList([_locate_among(positions, part) for part in error.errors])
    key = error.where.partition(": ")[0]
    prefixes = [
        path
        for path in positions
        if format_path(path) == key
        or (len(path) > 1 and f"{key}.".startswith((f"{format_path(path)}.", f"{format_path(path)}[")))
    ]
    if not prefixes:
        return error
    position = positions[max(prefixes, key=len)]
    return type(error)(f"{position.file}:{position.line}: {error.where}", error.problem, error.remedy)


def naming(files: Sequence[Path], notation: Notation | None) -> Callable[[TvmakeError], TvmakeError]:
    """Return a function that replaces an error's leading key by the option that set it, and keys in its text, or adds file and line.

    Args:
        files: see :func:`locate`.
        notation: how the user writes keys; None for a config.
    """

    def add_position(error: TvmakeError) -> TvmakeError:
        if isinstance(error, ErrorList):
            return ErrorList([add_position(part) for part in error.errors])
        key, _, rest = error.where.partition(": ")
        option = notation.option_of(key) if notation else None
        if option is None and notation and key.startswith(models := f"models.{notation.model}."):
            option = key.removeprefix(models)
        if option is None:
            return locate(error, files)
        where = ": ".join(filter(None, (option, rest)))
        translate = notation.translate if notation else str
        return type(error)(where, translate(error.problem), error.remedy and translate(error.remedy))

    return add_position


def one_or_many(errors: Sequence[TvmakeError]) -> TvmakeError:
    """Return a single error unchanged, several as an ErrorList."""
    return errors[0] if len(errors) == 1 else ErrorList(errors)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``over`` into ``base`` as Snakemake merges config files.

    Mappings merge, other values replace; an empty mapping changes nothing.
    """
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        if not isinstance(value, Mapping):
            result[key] = value
        elif value or key not in result:
            result[key] = merge(current if isinstance(current, Mapping) else {}, value)
    return result


def drop_nulls(value: Any, kinds: Sequence[Any] = (Config,)) -> Any:
    """Drop keys that an overlay removes with null, and turn booleans into text for keys that take numbers.

    A key that accepts null keeps it. Python counts booleans as integers, so pydantic would accept ``true`` as 1.

    Args:
        kinds: the types of ``value``.
    """
    if isinstance(value, Mapping):
        entries = {}
        for key, entry in value.items():
            below = kinds_below(kinds, str(key))
            # Keep an unknown key, so that it is reported.
            if entry is not None or not below or types.NoneType in below or Any in below:
                entries[key] = drop_nulls(entry, below)
        return entries
    is_number_wanted = bool not in kinds and (int in kinds or float in kinds)
    return str(value).lower() if isinstance(value, bool) and is_number_wanted else value
