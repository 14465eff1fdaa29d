"""Config files and options laid over each other, checked, with every error at once."""

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tvmake.config.reading.former_keys import KeyPath, former_keys, renamed, value_at
from tvmake.config.reading.kinds import kinds_below
from tvmake.config.reading.mistakes import mistakes, names_alone
from tvmake.config.reading.places import NO_FILE, SET, Position, dotted, given_by, where_is
from tvmake.config.reading.yaml_file import read_yaml
from tvmake.config.root import Config
from tvmake.config.text.typographic import INVISIBLE, SPACES
from tvmake.errors import ErrorList, InputError, TvmakeError

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters besides tabs and ends of lines, and halves of characters."""

UNSEEN = re.compile(f"[{SPACES}{INVISIBLE}]")
"""What nobody sees in a key."""


def load(paths: Sequence[Path]) -> Config:
    """Read config files, later ones laid over earlier ones, and check the result.

    Mappings merge key by key; lists and scalars replace; ``key: null`` removes a key of an earlier file, unless null is
    a value that the key takes (``goals: {rtol: null}``, ``limit: null``).

    Raises:
        InputError, ErrorList: a file cannot be read, or the config is wrong; every mistake is named with its file,
            line and key.
    """
    return load_layers(paths, {})


def load_layers(
    paths: Sequence[Path],
    last: Mapping[str, Any],
    note: Callable[[str], None] = lambda _: None,
    *,
    first: Mapping[str, Any] | None = None,
    given_as: str = SET,
) -> Config:
    """As :func:`load`, with one more layer that is in no file (``--set`` options).

    Args:
        note: called with a line for each key that is read under a former name.
        first: what the files are laid over.
        given_as: how ``last`` was given: with this option, each of its values for itself, or as the argument of this name.
    """
    return read_layers(paths, last, first=first, given_as=given_as).config(note)


@dataclass(frozen=True)
class Layers:
    """Config files and options laid over each other, as they were read, and where each key stands."""

    values: Mapping[str, Any]
    positions: Mapping[KeyPath, Position]
    default_file: str
    """Where a key stands that is missing."""

    def config(self, note: Callable[[str], None] = lambda _: None) -> Config:
        """Check them.

        Args:
            note: as of :func:`load_layers`.

        Raises:
            InputError, ErrorList: as in :func:`load`.
        """
        return check(self.values, self.positions, self.default_file, note)


def read_layers(
    paths: Sequence[Path], last: Mapping[str, Any], *, first: Mapping[str, Any] | None = None, given_as: str = SET
) -> Layers:
    """What :func:`load_layers` checks.

    Raises:
        InputError, ErrorList: a file cannot be read, or is no config.
    """
    merged: dict[str, Any] = dict(first or {})
    positions: dict[KeyPath, Position] = {}
    for path in paths:
        values = read_yaml(path, positions)
        if not merged and (alone := list(names_alone(values, positions, str(path)))):
            raise one_or_many(alone)
        merged = merge(merged, values)
    for end, value in _ends(last):
        shown_value = "…" if "env" in end else value  # those of variables may be secret
        positions[end] = Position(f"{SET} {'.'.join(end)}={shown_value}" if given_as == SET else given_as, 0)
    return Layers(merge(merged, last), positions, str(paths[-1]) if paths else NO_FILE)


def _ends(values: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """The keys with a value of their own, and how these are written."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _ends(value, (*above, str(key)))
        else:
            yield (*above, str(key)), "" if value is None else str(value)


def check(
    values: Mapping[str, Any],
    positions: Mapping[KeyPath, Position],
    default_file: str = NO_FILE,
    note: Callable[[str], None] = lambda _: None,
) -> Config:
    """Turn merged values into a Config.

    Raises:
        InputError, ErrorList: as in :func:`load`.
    """
    if unprintable := next(_unprintable(values, ()), None):
        path, character = unprintable
        problem = f"{dotted(path)}: holds the character {character!a}"
        remedy = (
            "it cannot be told from a plain space, or from nothing; type it anew" if UNSEEN.match(character) else None
        )
        raise InputError(where_is(path, positions, default_file), problem, remedy)
    given_twice: list[TvmakeError] = []
    for former, present in former_keys(values).items():
        where = where_is(former, positions, default_file)
        if None not in (value_at(values, former), value_at(values, present)):
            problem = f"{dotted(former)} is the former name of {dotted(present)}, and both are given"
            given_twice.append(InputError(where, problem, f"keep {dotted(present)}"))
        else:
            note(f"{where}: {dotted(former)} is now called {dotted(present)}")
            positions = {**positions, present: positions[former]} if former in positions else positions
        values = renamed(values, former, present[-1])
    try:
        config = Config.model_validate(as_meant(values))
    except ValidationError as error:
        raise one_or_many([*given_twice, *mistakes(error, values, positions, default_file)]) from None
    if given_twice:
        raise one_or_many(given_twice)
    return config


def _unprintable(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Control characters in keys and texts, which would reach terminals, file names and command lines."""
    if isinstance(value, str):
        if found := CONTROL.search(value):
            yield path, found[0]
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            name = str(key)
            if found := CONTROL.search(name) or UNSEEN.search(name):
                yield (*path, name), found[0]
            yield from _unprintable(entry, (*path, name))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unprintable(entry, (*path, str(index)))


def located(error: TvmakeError, files: Iterable[Path]) -> TvmakeError:
    """The same error with file and line of the config key that it begins with; as it is where there is none.

    Args:
        error: its ``where`` may begin with a key, as ``models.digits.source`` or ``targets.cpu: …``.
        files: the config's, later ones laid over earlier ones.
    """
    if isinstance(error, ErrorList):
        return ErrorList([located(each, files) for each in error.errors])
    positions: dict[KeyPath, Position] = {}
    for file in files:
        try:
            read_yaml(file, positions)
        except InputError:
            return error
    key = error.where.partition(": ")[0]
    known = [
        path
        for path in positions
        if dotted(path) == key or (len(path) > 1 and f"{key}.".startswith((f"{dotted(path)}.", f"{dotted(path)}[")))
    ]
    if not known:
        return error
    place = positions[max(known, key=len)]
    return type(error)(f"{place.file}:{place.line}: {error.where}", error.problem, error.remedy)


def naming(files: Sequence[Path], options: Mapping[str, str]) -> Callable[[TvmakeError], TvmakeError]:
    """What names the place of a key that an error begins with: the option that gave it, or file and line.

    Args:
        files: as of :func:`located`.
        options: which option gave a key, by the key as it is written with dots.
    """

    def named(error: TvmakeError) -> TvmakeError:
        key, _, rest = error.where.partition(": ")
        given = given_by(key, options)
        if given is None:
            return located(error, files)
        return type(error)(": ".join(filter(None, (given, rest))), error.problem, error.remedy)

    return named


def one_or_many(errors: Sequence[TvmakeError]) -> TvmakeError:
    """A single error as itself, several as a list."""
    return errors[0] if len(errors) == 1 else ErrorList(errors)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base`` as Snakemake lays one configfile on another.

    Mappings merge, everything else replaces; an empty mapping changes nothing.
    """
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        if not isinstance(value, Mapping):
            result[key] = value
        elif value or key not in result:
            result[key] = merge(current if isinstance(current, Mapping) else {}, value)
    return result


def as_meant(value: Any, kinds: Sequence[Any] = (Config,)) -> Any:
    """Drop keys whose value is null, which is how an overlay removes one, except where null is a value of its own; and let true
    be no number, which it is to Python.

    Args:
        kinds: the types that ``value`` may have.
    """
    if isinstance(value, Mapping):
        kept = {}
        for key, entry in value.items():
            below = kinds_below(kinds, str(key))
            # An unknown key stays, so that it is reported.
            if entry is not None or not below or types.NoneType in below or Any in below:
                kept[key] = as_meant(entry, below)
        return kept
    is_number_wanted = bool not in kinds and (int in kinds or float in kinds)
    return str(value).lower() if isinstance(value, bool) and is_number_wanted else value
