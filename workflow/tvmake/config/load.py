"""Read config files: YAML with line numbers, overlays, and every error at once."""

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from tvmake.config.root import Config
from tvmake.errors import ErrorList, InputError, TvmakeError

KeyPath = tuple[str, ...]
Position = tuple[str, int]
"""A file and a line, 1-based."""


def load(paths: Sequence[Path]) -> Config:
    """Read config files, later ones laid over earlier ones, and check the result.

    Mappings merge key by key; lists and scalars replace; ``key: null`` removes a key of an earlier file.

    Raises:
        InputError, ErrorList: a file cannot be read, or the config is wrong; every mistake is named with its file,
            line and key.
    """
    return load_layers(paths, {})


def load_layers(paths: Sequence[Path], last: Mapping[str, Any]) -> Config:
    """As :func:`load`, with one more layer that is in no file (``--set`` options)."""
    merged: dict[str, Any] = {}
    positions: dict[KeyPath, Position] = {}
    for path in paths:
        merged = merge(merged, read_yaml(path, positions))
    return check(merge(merged, last), positions, default_file=str(paths[-1]) if paths else "config")


def check(values: Mapping[str, Any], positions: Mapping[KeyPath, Position], default_file: str = "config") -> Config:
    """Turn merged values into a Config.

    Raises:
        InputError, ErrorList: as in :func:`load`.
    """
    try:
        return Config.model_validate(without_nulls(values))
    except ValidationError as error:
        raise one_or_many(list(_translate(error, positions, default_file))) from None


def one_or_many(errors: Sequence[TvmakeError]) -> TvmakeError:
    """A single error as itself, several as a list."""
    return errors[0] if len(errors) == 1 else ErrorList(errors)


def read_yaml(path: Path, positions: dict[KeyPath, Position]) -> dict[str, Any]:
    """Read one YAML mapping and note where each key stands.

    Raises:
        InputError: missing, unreadable, not YAML, not a mapping, or a key given twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(str(path), "no such config file", "`tvmake init MODEL` writes one from a model file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(str(path), f"cannot be read: {reason}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _note_positions(root, (), str(path), positions)
        values = yaml.safe_load(text)
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
    """``over`` laid on ``base``: mappings merge, everything else replaces."""
    result = dict(base)
    for key, value in over.items():
        current = result.get(key)
        result[key] = merge(current, value) if isinstance(current, Mapping) and isinstance(value, Mapping) else value
    return result


def without_nulls(value: Any) -> Any:
    """Drop keys whose value is null: that is how an overlay removes one."""
    if isinstance(value, Mapping):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return value


def _note_positions(node: yaml.Node | None, path: KeyPath, file: str, positions: dict[KeyPath, Position]) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise InputError(f"{file}:{key.start_mark.line + 1}", f"the key '{'.'.join((*path, name))}' is given twice")
            seen.add(name)
            positions[(*path, name)] = (file, key.start_mark.line + 1)
            _note_positions(value, (*path, name), file, positions)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            positions[(*path, str(index))] = (file, value.start_mark.line + 1)
            _note_positions(value, (*path, str(index)), file, positions)


def _translate(error: ValidationError, positions: Mapping[KeyPath, Position], default_file: str) -> Iterable[InputError]:
    seen: set[KeyPath] = set()
    for detail in error.errors(include_url=False):
        path = tuple(str(part) for part in detail["loc"] if not _is_branch(str(part)))
        message, remedy = _message(detail, path)
        if not path and detail["type"] == "value_error":
            # Cross-checks of the whole config name their own key, one a line.
            for line in message.splitlines():
                key, _, problem = line.partition(": ")
                problem, _, hint = problem.partition("; ")
                yield InputError(_where(_key_path(key), positions, default_file), f"{key}: {problem}", hint or None)
            continue
        if path not in seen:  # a union reports once per branch
            seen.add(path)
            yield InputError(_where(path, positions, default_file), f"{dotted(path)}: {message}", remedy)


def _is_branch(part: str) -> bool:
    """Pydantic names the branch of a union or the wrapper in its location; users did not write those."""
    return any(mark in part for mark in "[(") or part in ("int", "str", "float", "bool", "constrained-str", "constrained-int")


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
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        problem, _, hint = message.partition("; ")
        return problem, hint or None
    if kind == "literal_error":
        choices = str(detail["ctx"]["expected"]).replace("' or '", "', '").strip("'").split("', '")
        close = difflib.get_close_matches(str(given), choices, n=1)
        return f"expected one of {', '.join(choices)} (got {given!r})", f"did you mean '{close[0]}'?" if close else None
    return f"{message[0].lower()}{message[1:]} (got {given!r})", None


def _fields_at(path: KeyPath) -> list[str]:
    """The keys the model at ``path`` knows, in their documented order."""
    candidates: list[Any] = [Config]
    for part in path:
        step: list[Any] = []
        for candidate in candidates:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                if part in candidate.model_fields:
                    step += _branches(candidate.model_fields[part].annotation)
            elif get_origin(candidate) in (dict, Mapping):
                step += _branches(get_args(candidate)[1])
            elif get_origin(candidate) in (list, tuple):
                step += _branches(get_args(candidate)[0])
        candidates = step
    return [
        name
        for candidate in candidates
        if isinstance(candidate, type) and issubclass(candidate, BaseModel)
        for name in candidate.model_fields
    ]


def _branches(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _branches(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [branch for option in get_args(annotation) for branch in _branches(option)]
    return [annotation]
