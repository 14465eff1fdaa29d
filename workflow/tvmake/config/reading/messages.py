"""Messages and remedies for mistakes in a config."""

import datetime
import difflib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from tvmake.artifact.functions import FunctionName
from tvmake.config.base import Name, pattern_of
from tvmake.config.device import Gres
from tvmake.config.device_variables import VariableName
from tvmake.config.reading.kinds import branches, fields_at, is_model, kinds_at
from tvmake.config.reading.other_words import ABSENT, OTHER_KEYS, OTHER_NAMES
from tvmake.config.reading.positions import KeyPath
from tvmake.config.reading.yaml_file import add_space
from tvmake.config.root import Config, ModelConfig
from tvmake.config.text.target import OTHER_OPTIONS
from tvmake.config.validation import PercentileName
from tvmake.quantize.precision import OpName
from tvmake.transform.options import PythonName

EXPECTED = {
    "dict_type": "a mapping of names",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "list_type": "a list",
    "tuple_type": "a list",
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "too_short": "at least one entry",
}
"""The expected value, by pydantic's error type."""

MOST_PATHS = 3
"""Maximum number of paths of a key that an error lists."""

PATTERNS = {
    pattern_of(kind): description
    for kind, description in (
        (Name, "a name of letters, digits, dot, dash and underscore that starts with a letter or digit"),
        (PythonName, "package.module:function"),
        (PercentileName, "a percentile such as p50, p90 or p99.9"),
        (OpName, "an operator's name as in Relax, such as nn.conv2d"),
        (VariableName, "the name of a variable: letters, digits and underscores, not a digit first"),
        (FunctionName, "a name of lower-case letters, digits and underscores that starts with a letter"),
        (Gres, "a resource as Slurm names it, such as phone or phone:1"),
    )
}
"""Descriptions of the values that match a pattern."""

NAMED = {
    "models": "write models: {NAME: {source: FILE}}",
    "precisions": "write precisions: [float32], one or several names",
    "targets": "write targets: [llvm], or targets: {cpu: {kind: llvm}}",
    "functions": "write functions: {NAME: {source: FILE}}",
    "devices": "write devices: {NAME: {via: local}}",
}
"""Syntax of the keys whose values are mappings of names."""

BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
"""Wording of pydantic's bound errors, and the name of the bound in their context."""

LENGTHS = {"string_too_long": "letters", "too_long": "entries"}
"""Unit of a maximum length, by pydantic's error type."""


def message(details: Sequence[Mapping[str, Any]], path: KeyPath, written: str = "") -> tuple[str, str | None]:
    """Return the problem of a value and its remedy.

    Args:
        details: pydantic's errors of the value; one for each branch of a union.
        path: the path of the value as written.
        written: the value's text in the file.
    """
    detail = next((detail for detail in details if detail["type"] not in EXPECTED), details[0])
    kind, given, context = detail["type"], detail.get("input"), detail.get("ctx", {})
    if kind in ("extra_forbidden", "invalid_key"):
        return f"unknown key{_other_alphabet(path[-1])}", _other_key(path, given)
    if kind == "missing" and path[-1].isdigit():
        return "an entry is missing", None
    if kind == "missing":
        return "this key is required", "`tvmake init MODEL` writes a config with it" if path == ("models",) else None
    if kind in EXPECTED:
        expected = " or ".join(dict.fromkeys(EXPECTED[detail["type"]] for detail in details))
        return f"expected {expected} (got {format_value(given)})", _suggest_value(kind, given, path, written)
    if kind in BOUNDS:
        words, bound = BOUNDS[kind]
        problem = f"expected {words} {context[bound]} (got {format_value(given)})"
        if path[-2:-1] == ("shape",) and given == -1:
            return problem, "write a name, such as batch, for a dynamic dimension"
        return problem, None
    if kind in LENGTHS:
        return f"expected at most {context['max_length']} {LENGTHS[kind]} (got {format_value(given)})", None
    if kind == "string_pattern_mismatch" and context["pattern"] in PATTERNS:
        return f"expected {PATTERNS[context['pattern']]} (got {format_value(given)})", add_space(str(given))
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        problem, _, hint = message.partition("; ")
        return problem, hint or None
    if kind == "literal_error":
        return one_of(given, _choices(details))
    if kind == "union_tag_invalid":
        return one_of(context["tag"], re.findall("'([^']*)'", context["expected_tags"]))
    return f"{message[0].lower()}{message[1:]} (got {format_value(given)})", None


def _other_alphabet(key: str) -> str:
    """Words about the first letter that is not ASCII: it may look like one that is."""
    letter = next((letter for letter in key if not letter.isascii()), None)
    return f"; '{letter}' is {unicodedata.name(letter, 'not a letter').lower()}" if letter else ""


def _other_key(path: KeyPath, given: Any) -> str:
    """Return the remedy for an unknown key."""
    known = fields_at(path[:-1])
    if len(path) == 3 and path[0] == "targets" and path[-1] in (*OTHER_OPTIONS, "keys"):
        return f"write attributes: {{{path[-1]}: {json.dumps(given)}}}"
    name, colon, value = path[-1].partition(":")
    if colon and name in known:
        return f"write a space after the colon: {name}: {value}"
    snake_case = re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", path[-1].strip()).lower().replace("-", "_").replace(" ", "_")
    if synonyms := [key for key in OTHER_KEYS.get(snake_case, ()) if key in known]:
        accepting = (key for key in synonyms if not _refusals((*path[:-1], key), given))
        return f"did you mean '{next(accepting, synonyms[0])}'?"
    close = difflib.get_close_matches(snake_case, known, n=1, cutoff=0.8)
    model_keys = [key for key in (snake_case, *OTHER_KEYS.get(snake_case, ())) if key in ModelConfig.model_fields]
    if len(path) == 1 and model_keys and not (close and isinstance(given, Mapping)):
        return _move_to_model(model_keys[0], given)
    if close:
        return f"did you mean '{close[0]}'?"
    if paths := _paths_of(snake_case):
        return f"it belongs to {' or '.join(map('.'.join, paths[:MOST_PATHS]))}"
    if close := difflib.get_close_matches(snake_case, known, n=1, cutoff=0.55):
        return f"did you mean '{close[0]}'?"
    return f"known keys here: {', '.join(known)}"


@cache
def _paths_of(key: str) -> Sequence[KeyPath]:
    """Return the paths of mappings with a key of this name, shortest first."""
    paths: list[KeyPath] = []
    pending: list[tuple[KeyPath, Any]] = [((), Config)]
    seen = []
    for path, kind in pending:  # grows
        if is_model(kind):
            if kind in seen:
                continue
            seen.append(kind)
            if key in kind.model_fields and path and path not in paths:
                paths.append(path)
            for name, field in kind.model_fields.items():
                pending += [((*path, name), below) for below in branches(field.annotation)]
        elif get_origin(kind) in (dict, Mapping):
            pending += [((*path, "NAME"), below) for below in branches(get_args(kind)[1])]
        elif get_origin(kind) in (list, tuple):
            pending += [(path, below) for below in branches(get_args(kind)[0])]
    return paths


def _move_to_model(key: str, given: Any) -> str:
    return f"it belongs to a model: write models: {{NAME: {{{key}: {_flow(given)}}}}}"


def _flow(value: Any) -> str:
    """Write a value in YAML's flow style; the contents of mappings are left out."""
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return "{…}" if isinstance(value, Mapping) else str(value)


def _choices(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the values that literal errors list."""
    expected = " ".join(detail["ctx"]["expected"] for detail in details if detail["type"] == "literal_error")
    return [text or number for text, number in re.findall(r"'([^']*)'|(\d+)", expected)]


def _refusals(path: KeyPath, value: Any) -> Sequence[Mapping[str, Any]]:
    """Return pydantic's errors for a value of a key, without the checks of its model."""
    for kind in kinds_at(path[:-1]):
        if is_model(kind) and path[-1] in kind.model_fields:
            field = kind.model_fields[path[-1]]
            # The field also has settings that only a model accepts.
            annotated: Any = Annotated[(field.annotation, None, *field.metadata)]
            try:
                TypeAdapter(annotated).validate_python(value)
            except ValidationError as error:
                return error.errors(include_url=False)
    return ()


def one_of(given: Any, choices: Sequence[str]) -> tuple[str, str | None]:
    """Return problem and remedy of a value that is not one of the choices."""
    if "float16" in choices and (remedy := ABSENT.get(str(given).lower())):
        return f"expected one of {', '.join(choices)} (got {format_value(given)})", remedy
    other_name = OTHER_NAMES.get(str(given).lower())
    close = (
        [other_name]
        if other_name and other_name in choices
        else [choice for choice in choices if choice.lower() == str(given).lower()]
        or difflib.get_close_matches(str(given), choices, n=1)
    )
    problem = f"expected one of {', '.join(choices)} (got {format_value(given)})"
    return problem, f"did you mean '{close[0]}'?" if close else None


def _suggest_value(kind: str, given: Any, path: KeyPath, written: str) -> str | None:
    """Return the remedy for a value of the wrong type, if the intention is clear."""
    if kind in ("model_type", "model_attributes_type"):
        return _as_mapping(given, path)
    if kind == "dict_type" and path[-1] in NAMED:
        return NAMED[path[-1]]
    if kind == "string_type" and written:
        return f"put it in quotation marks: '{written}'"
    if not isinstance(given, str):
        return None
    if given.strip().lower() in ("auto", "default"):
        return f"leave {path[-1]} out for its default"
    if kind == "list_type":
        entries = [entry for entry in re.split(r"[\s,;]+|(?<=\d)x(?=\d)", given.strip("[]() ")) if entry]
        return f"write {path[-1]}: {_flow(entries)}"
    return None


def _as_mapping(given: Any, path: KeyPath) -> str | None:
    """Write a single value as the mapping that its key takes."""
    known = fields_at(path)
    if path[:-1] == ("models",) and path[-1] in known:
        return _move_to_model(path[-1], given)
    models = [kind for kind in kinds_at(path) if is_model(kind)]
    required = [{name for name, field in kind.model_fields.items() if field.is_required()} for kind in models]
    if isinstance(given, str) and required and len(names := set.intersection(*required) or required[0]) == 1:
        return f"write {path[-1]}: {{{names.pop()}: {given}}}"
    if "shape" in known and isinstance(given, list):
        return f"write {path[-1]}: {{shape: {_flow(given)}}}"
    return f"known keys here: {', '.join(known)}" if known else None


def name_remedy(name: str, above: KeyPath) -> str:
    """Return the remedy for a name that YAML does not read as a string."""
    for kind in kinds_at(above):
        if get_origin(kind) in (dict, Mapping) and hasattr(get_args(kind)[0], "__metadata__"):
            pattern = pattern_of(get_args(kind)[0])
            if not re.search(pattern, name):
                return f"write {PATTERNS[pattern]}"
    return f"put it in quotation marks: '{name}'"


def format_value(given: Any, limit: int = 80) -> str:
    """Format a value for a message."""
    text = str(given) if isinstance(given, datetime.date) else repr(given)
    return text if len(text) <= limit else text[: limit - 1] + "…"
