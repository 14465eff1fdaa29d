"""What a config's mistakes are called, and what to write instead."""

import difflib
import re
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from tvmake.config.base import Name, pattern_of
from tvmake.config.precision import OpName
from tvmake.config.reading.former_keys import KeyPath
from tvmake.config.root import Config
from tvmake.config.transform import PythonName
from tvmake.config.validation import PercentileName

EXPECTED = {
    "dict_type": "a mapping of names",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
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

OTHER_NAMES = {
    "fp32": "float32", "f32": "float32", "float": "float32", "single": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16",
    "i8": "int8", "qint8": "int8", "cpu": "llvm", "gpu": "cuda",
}  # fmt: skip
"""What values are called elsewhere."""

PATTERNS = {
    pattern_of(kind): description
    for kind, description in (
        (Name, "a name of letters, digits, dot, dash and underscore that starts with a letter or digit"),
        (PythonName, "package.module:function"),
        (PercentileName, "a percentile such as p50, p90 or p99.9"),
        (OpName, "an operator's name as in Relax, such as nn.conv2d"),
    )
}
"""Descriptions of the values that match a pattern."""

NAMED = {
    "models": "write models: {NAME: {source: FILE}}",
    "precisions": "write precisions: [float32], one or several names",
    "targets": "write targets: [llvm], or targets: {cpu: {kind: llvm}}",
    "devices": "write devices: {NAME: {via: local}}",
}
"""How keys with names below them are written."""

THOUSANDS = {"k": 1e3, "K": 1e3, "M": 1e6}

BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
"""Pydantic's errors for numbers beyond a bound, in words, and what they call it."""


def message(detail: Mapping[str, Any], path: KeyPath) -> tuple[str, str | None]:
    """What is wrong with a value, and what to write instead.

    Args:
        detail: an error as pydantic tells it.
        path: its place, as it is written.
    """
    kind, given = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(path[:-1])
        close = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        remedy = f"did you mean '{close[0]}'?" if close else f"known keys here: {', '.join(known)}"
        return "unknown key", remedy
    if kind == "missing":
        return "this key is required", "`tvmake init MODEL` writes a config with it" if path == ("models",) else None
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]} (got {shown(given)})", _rewritten(kind, given, path)
    if kind in BOUNDS:
        words, bound = BOUNDS[kind]
        return f"expected {words} {detail['ctx'][bound]} (got {shown(given)})", _share(given, detail["ctx"][bound])
    if kind == "string_pattern_mismatch" and detail["ctx"]["pattern"] in PATTERNS:
        return f"expected {PATTERNS[detail['ctx']['pattern']]} (got {shown(given)})", None
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        problem, _, hint = message.partition("; ")
        return problem, hint or None
    if kind in ("literal_error", "union_tag_invalid"):
        context = detail["ctx"]
        given = context.get("tag", given)
        choices = re.findall("'([^']*)'", context.get("expected") or context["expected_tags"])
        return one_of(given, choices)
    return f"{message[0].lower()}{message[1:]} (got {shown(given)})", None


def one_of(given: Any, choices: Sequence[str]) -> tuple[str, str | None]:
    """Problem and remedy of a value that is none of some names."""
    other_name = OTHER_NAMES.get(str(given))
    close = (
        [other_name]
        if other_name and other_name in choices
        else [choice for choice in choices if choice.lower() == str(given).lower()]
        or difflib.get_close_matches(str(given), choices, n=1)
    )
    problem = f"expected one of {', '.join(choices)} (got {shown(given)})"
    return problem, f"did you mean '{close[0]}'?" if close else None


def _rewritten(kind: str, given: Any, path: KeyPath) -> str | None:
    """What was meant by a value of another kind, where that can be told."""
    if kind in ("model_type", "model_attributes_type"):
        known = _fields_at(path)
        return f"known keys here: {', '.join(known)}" if known else None
    if kind == "dict_type" and path and path[-1] in NAMED:
        return NAMED[path[-1]]
    if not isinstance(given, str):
        return None
    if kind == "list_type":
        entries = [entry for entry in re.split(r"[\s,;]+|(?<=\d)x(?=\d)", given.strip("[]() ")) if entry]
        return f"write {path[-1]}: [{', '.join(entries)}]"
    number = re.fullmatch(r"\s*([-+]?[\d.]+)\s*([%A-Za-zµ]+)\s*", given)
    if number is None or number[1].count(".") > 1 or not kind.startswith(("int", "float")):
        return None
    if number[2] == "%":
        return f"it is a share of 1: write {float(number[1]) / 100:g}"
    if number[2] in THOUSANDS:
        return f"write it out: {path[-1]}: {float(number[1]) * THOUSANDS[number[2]]:g}"
    return f"write the number alone, in the unit of the key: {path[-1]}: {number[1]}"


def _share(given: Any, bound: Any) -> str | None:
    """What to write for a percentage where a share is expected."""
    is_percentage = bound == 1 and isinstance(given, int | float) and 1 < given <= 100
    return f"it is a share of 1: write {given / 100:g}" if is_percentage else None


def yaml_remedy(error: yaml.MarkedYAMLError, text: str) -> str | None:
    """What to do about text that is not YAML, where its place tells."""
    mark, problem = error.problem_mark, error.problem or ""
    if mark is not None and "cannot start any token" in problem:
        line = text.splitlines()[mark.line]
        if line[: mark.column + 1].endswith("\t") or line.startswith("\t"):
            return "indent with spaces: YAML takes no tabs"
        return "put the text in quotation marks"
    if "undefined alias" in problem:
        return "put a text that begins with * in quotation marks"
    if (
        mark is not None
        and error.context_mark is not None
        and ("did not find expected" in problem or "end of stream" in problem)
    ):
        began = error.context_mark.line + 1
        return f"look at what begins in line {began}: a bracket, a quotation mark or an indentation that does not fit"
    return None


def shown(given: Any, limit: int = 80) -> str:
    """A value in a message."""
    text = repr(given)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _fields_at(path: KeyPath) -> list[str]:
    """The keys the model at ``path`` knows, in their documented order."""
    kinds: Sequence[Any] = (Config,)
    for part in path:
        kinds = kinds_below(kinds, part)
    return list(dict.fromkeys(name for kind in kinds if _is_model(kind) for name in kind.model_fields))


def kinds_below(kinds: Sequence[Any], part: str) -> list[Any]:
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
