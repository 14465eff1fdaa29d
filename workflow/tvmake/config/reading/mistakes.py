"""Turn pydantic's errors into errors with file, line and key."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from tvmake.config.reading.messages import EXPECTED, format_value, message, name_remedy
from tvmake.config.reading.positions import KeyPath, Position, format_path, key_path, where_is
from tvmake.errors import InputError

LEAST = {"models": "{source: FILE}", "targets": "{kind: llvm}", "precisions": "{}"}
"""The shortest valid entry of each axis."""


def mistakes(
    error: ValidationError, values: Any, positions: Mapping[KeyPath, Position], default_file: str
) -> Iterable[InputError]:
    """Yield an error for each mistake.

    Args:
        values: the checked values as written.
        positions: the position of each key.
        default_file: the file to report for keys without a position.
    """
    details_by_path: dict[KeyPath, list[Mapping[str, Any]]] = {}  # a union reports once per branch
    for detail in error.errors(include_url=False):
        path = _written_path(detail, values)
        if detail["loc"][-1:] == ("[key]",) and detail["type"] == "string_type":
            above = _written_path({**detail, "loc": detail["loc"][:-2]}, values)
            name = _key_text(detail["input"], above, positions)
            problem = f"{format_path(above)}: YAML reads the name {name} as {format_value(detail['input'])}, which is not a string"
            yield InputError(where_is((*above, name), positions, default_file), problem, name_remedy(name, above))
            continue
        if detail["type"] == "invalid_key":  # YAML does not read it as a string
            above = _written_path({**detail, "loc": detail["loc"][:-1]}, values)
            path = (*above, _key_text(detail["input"], above, positions))
        if detail["type"] == "union_tag_invalid":
            path = (*path, detail["ctx"]["discriminator"].strip("'"))
        if not path and detail["type"] == "value_error":
            # Cross-checks of the whole config name their own key, one per line.
            for line in detail["msg"].removeprefix("Value error, ").splitlines():
                key, _, problem = line.partition(": ")
                problem, _, hint = problem.partition("; ")
                yield InputError(where_is(key_path(key), positions, default_file), f"{key}: {problem}", hint or None)
            continue
        details_by_path.setdefault(path, []).append(detail)
    parents = {path[:length] for path in details_by_path for length in range(len(path))}
    for path, details in details_by_path.items():
        if path in parents and details[0]["type"] in EXPECTED:
            continue  # another branch of the union fits better
        position = positions.get(path)
        problem, remedy = message(details, path, position.written if position else "")
        yield InputError(where_is(path, positions, default_file), f"{format_path(path)}: {problem}", remedy)


def empty_entries(values: Any, positions: Mapping[KeyPath, Position], default_file: str) -> Iterable[InputError]:
    """Yield an error for each entry of a config's first file without a value, if other entries have one.

    Such an entry would be ignored silently. In a later file, or with ``null``, it removes an entry.
    """
    for axis, least in LEAST.items():
        entries = values.get(axis)
        if not isinstance(entries, Mapping):
            continue
        empty = [str(name) for name, entry in entries.items() if entry is None]
        if len(empty) == len(entries):
            continue  # the model's check reports an empty axis
        names = [name for name in empty if (position := positions.get((axis, name))) and not position.written]
        for name in names:
            where = where_is((axis, name), positions, default_file)
            remedy = f"write {axis}: {{{name}: {least}}}, or leave it out"
            yield InputError(where, f"{axis}.{name}: has no value", remedy)


def _key_text(key: Any, above: KeyPath, positions: Mapping[KeyPath, Position]) -> str:
    """Return the text of a key that YAML does not read as a string (``on``, ``18``)."""
    for path in positions:
        if path[:-1] == above and path and yaml.safe_load(path[-1]) == key:
            return path[-1]
    return str(key)


def _written_path(detail: Mapping[str, Any], values: Any) -> KeyPath:
    """Return an error's location without the parts that pydantic adds for branches of unions and for wrappers."""
    path: list[str] = []
    current = values
    parts = detail["loc"]
    for index, part in enumerate(parts):
        in_list = isinstance(current, list) and isinstance(part, int) and part < len(current)
        if in_list or (isinstance(current, Mapping) and part in current):
            current = current[part]
        elif isinstance(current, list) and part in current:
            current = None  # an entry of a list that was expanded to a mapping of names
        elif not (detail["type"] == "missing" and index == len(parts) - 1):
            continue
        path.append(str(part))
    return tuple(path)
