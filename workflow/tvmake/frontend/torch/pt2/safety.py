"""Check that a .pt2 archive contains only tensors and a graph, so that loading it runs no code.

``torch.export.load`` trusts its file: it unpickles members, evaluates strings as Python (symbolic expressions,
guards), inserts names into generated source, and resolves operators by dotted paths in ``torch``. Only the forms that
``torch.export.save`` writes for ordinary models are accepted.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tvmake.frontend.torch.pt2 import containers
from tvmake.frontend.torch.pt2.expressions import NotPlainError, check_expression, check_guard

_MEMBERS = re.compile(
    r"(archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version|\.storage_alignment"
    r"|models/model\.json|extra/.+"
    r"|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|data/sample_inputs/model\.pt)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[\w.\-]*", re.ASCII)  # a dotted path of modules: "layers.0.weight"
_HIGHER_ORDER = r"torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|wrap_with_(set_grad_enabled|autocast))"
_PYTHON = (
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|xor|getitem|index)"
    r"|math\.(ceil|floor|trunc|sqrt|pow|log2?|exp)"
    r"|torch\._?sym_\w+"
)
_CONTROL = re.compile(f"({_HIGHER_ORDER}|{_PYTHON})", re.ASCII)
OPERATORS = Path(__file__).with_name("operators.txt")

_KEYED_BY_MODEL = frozenset(
    (
        "tensor_values",
        "sym_int_values",
        "sym_bool_values",
        "sym_float_values",
        "custom_obj_values",
        "as_string_to_argument",
        "range_constraints",
        "treespec_namedtuple_fields",
        "opset_version",
        "metadata",
        "config",
    )
)
"""Fields whose keys are chosen by the model, not by PyTorch's schema."""

_CONTAINERS = frozenset(("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"))


MOST_INTEGER = 2**63
"""Sizes and offsets are 64-bit integers in PyTorch."""


class UnsafeError(Exception):
    """The archive contains an element that an ordinary exported program does not have. The message names it."""


@cache
def operators() -> frozenset[str]:
    """The operators that a file may call, in its spelling: ``torch.ops.aten.add.Tensor``."""
    lines = (line.split() for line in OPERATORS.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return frozenset(f"torch.ops.{name}.{overload}" for name, *overloads in lines for overload in overloads)


def check_members(names: list[str]) -> None:
    """Refuse compiled code, custom objects and members of unknown purpose."""
    for name in names:
        if not _MEMBERS.fullmatch(name):
            raise UnsafeError(f"the member {_short(name)} is neither tensors nor a graph")
    if len(names) != len(set(names)):
        raise UnsafeError("two members have the same name")


def check_payload(text: bytes) -> None:
    """Check a ``*_config.json``: every entry must be stored as a plain tensor member."""
    payload = _json(text)
    for name, entry in payload["config"].items():
        if not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]):
            raise UnsafeError(f"'{name}' is stored as an object ({_short(entry['path_name'])})")
    for key, value in _items(payload):
        _check_entry(key, value)


def check_graph(text: bytes) -> None:
    """Check ``model.json``: operators, names, expressions, guards and containers."""
    program = _json(text)
    for guard in program.get("guards_code", []):
        _check_guard(guard)
    for key, value in _items(program):
        _check_entry(key, value)


def _check_entry(key: str, value: Any) -> None:
    if key in ("target", "as_operator"):
        if not isinstance(value, str) or not (value in operators() or _CONTROL.fullmatch(value)):
            raise UnsafeError(f"it calls {_short(value)}, which is not among the operators that only compute")
    elif key == "expr_str":
        _check_expression(value)
    elif key in ("in_spec", "out_spec"):
        _check_containers(value)
    elif key in ("name", "as_name", "user_input_name") and value:
        _match(_IDENTIFIER, value, "a name")
    elif key in ("fqn", "parameter_name", "buffer_name", "tensor_constant_name"):
        _match(_PATH, value, "a name")
    elif key == "forward_arg_names":
        for name in value or ():
            _match(_IDENTIFIER, name, "an argument's name")
    elif key in _KEYED_BY_MODEL:
        for name in value:
            if key == "range_constraints":
                _check_expression(name)
            else:
                _match(_PATH if key == "config" else _IDENTIFIER, name, "a name")
        if key == "custom_obj_values" and value:
            raise UnsafeError("it contains custom objects")
        if key == "treespec_namedtuple_fields" and value:
            raise UnsafeError("its inputs or outputs are named tuples")
    elif key in ("as_custom_obj", "custom_obj", "token"):
        raise UnsafeError("it contains custom objects")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field with its non-null value, at any depth.

    Dictionaries with the model's own names as keys are yielded once; their keys are not treated as fields, because an
    argument may be called ``target``.
    """
    if isinstance(value, dict):
        for key, below in value.items():
            if below is None:
                continue
            _check_number(below)
            yield key, below
            yield from _items(list(below.values()) if key in _KEYED_BY_MODEL and isinstance(below, dict) else below)
    elif isinstance(value, list):
        for below in value:
            _check_number(below)
            yield from _items(below)


def _check_number(value: Any) -> None:
    if isinstance(value, int) and not -MOST_INTEGER <= value < MOST_INTEGER:
        raise UnsafeError("it contains a number of more than 64 bits")


def _json(text: bytes) -> Any:
    value = json.loads(text.decode("utf-8"))
    if not isinstance(value, dict):
        raise UnsafeError("its description is not a JSON object")
    return value


def _check_expression(text: Any) -> None:
    try:
        check_expression(text)
    except NotPlainError:
        raise UnsafeError(f"the expression {_short(text)} is not plain arithmetic") from None


def _check_guard(text: Any) -> None:
    try:
        check_guard(text)
    except NotPlainError:
        raise UnsafeError(f"the guard {_short(text)} is not a plain comparison") from None


def _check_containers(text: str) -> None:
    """Check a container tree in JSON, because PyTorch inserts its keys into generated source."""
    for key, value in _items(json.loads(text)):
        if key == "type" and not _is_container(value):
            raise UnsafeError(f"its inputs or outputs are in containers of type {_short(value)}")
        if key == "context":
            names = json.loads(value) if isinstance(value, str) else value
            if isinstance(names, list) and all(isinstance(name, list) for name in names):  # a dataclass's
                names = [name for group in names for name in group]
            for name in names if isinstance(names, list) else [names]:
                if isinstance(name, str):
                    _match(_PATH, name, "a key")
                elif name is not None and not isinstance(name, int):
                    raise UnsafeError("its inputs or outputs are in containers with keys that are not words")


def _is_container(name: Any) -> bool:
    """Whether a container type is plain, or is read as a plain one."""
    return name in _CONTAINERS or (
        isinstance(name, str) and bool(_PATH.fullmatch(name)) and containers.is_foreign(name)
    )


def _match(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise UnsafeError(f"{_short(text)} is not {what}")


def _short(text: Any) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
