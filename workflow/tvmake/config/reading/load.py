"""Read config files: YAML with line numbers, overlays, and every error at once."""

import difflib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from tvmake.config.base import Name, pattern_of
from tvmake.config.precision import OpName
from tvmake.config.reading.former_keys import KeyPath, former_keys, renamed, value_at
from tvmake.config.reading.yaml_text import LARGEST_BYTES, parse
from tvmake.config.root import Config
from tvmake.config.transform import PythonName
from tvmake.errors import ErrorList, InputError, TvmakeError

Position = tuple[str, int]
"""A file and a line, 1-based."""

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters besides tabs and ends of lines, and halves of characters."""

EXPECTED = {
    "dict_type": "a mapping of names",
    "model_type": "a mapping of keys",
    "list_type": "a list",
    "string_type": "a text",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "too_short": "at least one entry",
}
"""The value that is expected, by pydantic's type of error, in a config file's words."""

PATTERNS = {
    pattern_of(kind): description
    for kind, description in (
        (Name, "a name of letters, digits, dot, dash and underscore that starts with a letter or digit"),
        (PythonName, "package.module:function"),
        (OpName, "an operator's name as in Relax, such as nn.conv2d"),
    )
}
"""Descriptions of the values that match a pattern."""


def load(paths: Sequence[Path]) -> Config:
    """Read config files, later ones laid over earlier ones, and check the result.

    Mappings merge key by key; lists and scalars replace; ``key: null`` removes a key of an earlier file, unless null is
    a value that the key takes (``goals: {rtol: null}``, ``limit: null``).

    Raises:
        InputError, ErrorList: a file cannot be read, or the config is wrong; every mistake is named with its file,
            line and key.
    """
    return load_layers(paths, {})


def load_layers(paths: Sequence[Path], last: Mapping[str, Any], note: Callable[[str], None] = lambda _: None) -> Config:
    """As :func:`load`, with one more layer that is in no file (``--set`` options).

    Args:
        note: called with a line for each key that is read under a former name.
    """
    merged: dict[str, Any] = {}
    positions: dict[KeyPath, Position] = {}
    for path in paths:
        merged = merge(merged, read_yaml(path, positions))
    return check(merge(merged, last), positions, str(paths[-1]) if paths else "config", note)


def check(
    values: Mapping[str, Any],
    positions: Mapping[KeyPath, Position],
    default_file: str = "config",
    note: Callable[[str], None] = lambda _: None,
) -> Config:
    """Turn merged values into a Config.

    Raises:
        InputError, ErrorList: as in :func:`load`.
    """
    if unprintable := next(_unprintable(values, ()), None):
        path, character = unprintable
        raise InputError(_where(path, positions, default_file), f"{dotted(path)}: holds the character {character!a}")
    given_twice: list[TvmakeError] = []
    for former, present in former_keys(values).items():
        where = _where(former, positions, default_file)
        if None not in (value_at(values, former), value_at(values, present)):
            problem = f"{dotted(former)} is the former name of {dotted(present)}, and both are given"
            given_twice.append(InputError(where, problem, f"keep {dotted(present)}"))
        else:
            note(f"{where}: {dotted(former)} is now called {dotted(present)}")
            positions = {**positions, present: positions[former]} if former in positions else positions
        values = renamed(values, former, present[-1])
    try:
        config = Config.model_validate(without_nulls(values))
    except ValidationError as error:
        raise one_or_many([*given_twice, *_translate(error, values, positions, default_file)]) from None
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
            if found := CONTROL.search(name):
                yield (*path, CONTROL.sub("?", name)), found[0]
            yield from _unprintable(entry, (*path, name))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            yield from _unprintable(entry, (*path, str(index)))


def one_or_many(errors: Sequence[TvmakeError]) -> TvmakeError:
    """A single error as itself, several as a list."""
    return errors[0] if len(errors) == 1 else ErrorList(errors)


def read_yaml(path: Path, positions: dict[KeyPath, Position]) -> dict[str, Any]:
    """Read one YAML mapping and note where each key stands.

    Raises:
        InputError: missing, unreadable, not YAML, not a mapping, or a key given twice.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        text = "" if len(content) > LARGEST_BYTES else content.decode()
    except FileNotFoundError:
        raise InputError(str(path), "no such config file", "`tvmake init MODEL` writes one from a model file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(str(path), f"cannot be read: {reason}") from None
    if len(content) > LARGEST_BYTES:
        problem = f"is larger than {LARGEST_BYTES // 2**20} MiB, which no config is"
        raise InputError(str(path), problem, "name what it lists by files of their own, or split the run")
    try:
        document = parse(text)
        _note_positions(document.root, (), str(path), positions)
        values = document.values()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}", f"not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(str(path), f"not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(str(path), f"expected a mapping of keys, found a {type(values).__name__}")
    return values


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


def without_nulls(value: Any, kinds: Sequence[Any] = (Config,)) -> Any:
    """Drop keys whose value is null, which is how an overlay removes one, except where null is a value of its own.

    Args:
        kinds: the types that ``value`` may have.
    """
    if isinstance(value, Mapping):
        kept = {}
        for key, entry in value.items():
            below = _kinds_below(kinds, str(key))
            # An unknown key stays, so that it is reported.
            if entry is not None or not below or types.NoneType in below or Any in below:
                kept[key] = without_nulls(entry, below)
        return kept
    return value


def _note_positions(
    node: yaml.Node | None,
    path: KeyPath,
    file: str,
    positions: dict[KeyPath, Position],
    above: tuple[yaml.Node, ...] = (),
) -> None:
    if node in above:
        raise InputError(f"{file}:{node.start_mark.line + 1}", f"'{dotted(path)}' contains itself")
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            line = key.start_mark.line + 1
            if name in seen and name != "<<":
                raise InputError(f"{file}:{line}", f"the key '{dotted((*path, name))}' is given twice")
            seen.add(name)
            positions[(*path, name)] = (file, line)
            _note_positions(value, (*path, name), file, positions, (*above, node))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            positions[(*path, str(index))] = (file, value.start_mark.line + 1)
            _note_positions(value, (*path, str(index)), file, positions, (*above, node))


def _translate(
    error: ValidationError, values: Any, positions: Mapping[KeyPath, Position], default_file: str
) -> Iterable[InputError]:
    seen: set[KeyPath] = set()
    for detail in error.errors(include_url=False):
        path = _written_path(detail, values)
        if detail["type"] == "union_tag_invalid":
            path = (*path, detail["ctx"]["discriminator"].strip("'"))
        if not path and detail["type"] == "value_error":
            # Cross-checks of the whole config name their own key, one a line.
            for line in detail["msg"].removeprefix("Value error, ").splitlines():
                key, _, problem = line.partition(": ")
                problem, _, hint = problem.partition("; ")
                yield InputError(_where(_key_path(key), positions, default_file), f"{key}: {problem}", hint or None)
            continue
        if path not in seen:  # a union reports once per branch
            seen.add(path)
            message, remedy = _message(detail, path)
            yield InputError(_where(path, positions, default_file), f"{dotted(path)}: {message}", remedy)


def _written_path(detail: Mapping[str, Any], values: Any) -> KeyPath:
    """An error's location without the parts that pydantic adds for branches of unions and for wrappers."""
    path: list[str] = []
    current = values
    parts = detail["loc"]
    for index, part in enumerate(parts):
        in_list = isinstance(current, list) and isinstance(part, int) and part < len(current)
        if in_list or (isinstance(current, Mapping) and part in current):
            current = current[part]
        elif isinstance(current, list) and part in current:
            current = None  # an entry of a list that stands for a mapping of names
        elif not (detail["type"] == "missing" and index == len(parts) - 1):
            continue
        path.append(str(part))
    return tuple(path)


def _key_path(key: str) -> KeyPath:
    return tuple(key.replace("[", ".").replace("]", "").split("."))


def dotted(path: KeyPath) -> str:
    """``targets.adreno.tag``, ``variants.exclude[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if part.isdigit() else f".{part}" if text else part
    return text or "config"


def _where(path: KeyPath, positions: Mapping[KeyPath, Position], default_file: str) -> str:
    for length in range(len(path), 0, -1):
        if position := positions.get(path[:length]):
            return f"{position[0]}:{position[1]}"
    return default_file


def _message(detail: Mapping[str, Any], path: KeyPath) -> tuple[str, str | None]:
    kind, given = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(path[:-1])
        close = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        remedy = f"did you mean '{close[0]}'?" if close else f"known keys here: {', '.join(known)}"
        return "unknown key", remedy
    if kind == "missing":
        return "this key is required", None
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]} (got {_shown(given)})", None
    if kind == "string_pattern_mismatch" and detail["ctx"]["pattern"] in PATTERNS:
        return f"expected {PATTERNS[detail['ctx']['pattern']]} (got {_shown(given)})", None
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        problem, _, hint = message.partition("; ")
        return problem, hint or None
    if kind in ("literal_error", "union_tag_invalid"):
        context = detail["ctx"]
        given = context.get("tag", given)
        choices = re.findall("'([^']*)'", context.get("expected") or context["expected_tags"])
        close = difflib.get_close_matches(str(given), choices, n=1)
        return f"expected one of {', '.join(choices)} (got {_shown(given)})", (
            f"did you mean '{close[0]}'?" if close else None
        )
    return f"{message[0].lower()}{message[1:]} (got {_shown(given)})", None


def _shown(given: Any, limit: int = 80) -> str:
    text = repr(given)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _fields_at(path: KeyPath) -> list[str]:
    """The keys the model at ``path`` knows, in their documented order."""
    kinds: Sequence[Any] = (Config,)
    for part in path:
        kinds = _kinds_below(kinds, part)
    return list(dict.fromkeys(name for kind in kinds if _is_model(kind) for name in kind.model_fields))


def _kinds_below(kinds: Sequence[Any], part: str) -> list[Any]:
    """The types that the value at ``part`` of a value of one of ``kinds`` may have."""
    below: list[Any] = []
    for kind in kinds:
        if _is_model(kind):
            if part in kind.model_fields:
                below += _branches(kind.model_fields[part].annotation)
        elif get_origin(kind) in (dict, Mapping):
            below += _branches(get_args(kind)[1])
        elif get_origin(kind) in (list, tuple):
            below += _branches(get_args(kind)[0])
    return below


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _branches(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _branches(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [branch for option in get_args(annotation) for branch in _branches(option)]
    return [annotation]
