"""Tell a .pt2 archive that only holds tensors and a graph from one that runs code when it is loaded.

``torch.export.load`` trusts its file: it unpickles members, evaluates strings as Python (symbolic expressions,
guards), pastes names into generated source, and looks operators up by dotted path below ``torch``. Each of these
is held here against the few forms that ``torch.export.save`` writes for ordinary models; everything else is refused.
"""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

_MEMBERS = re.compile(
    r"(archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version|\.storage_alignment"
    r"|models/model\.json|extra/.+"
    r"|data/weights/(weight_\d+|model_weights_config\.json)"
    r"|data/constants/(tensor_\d+|model_constants_config\.json)"
    r"|data/sample_inputs/model\.pt)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[\w.\-]*", re.ASCII)  # a dotted path of modules: "layers.0.weight"
_SYMBOL = re.compile(r"[a-z]{1,4}\d+", re.ASCII)  # s0, u1, zuf0
_ATEN = r"torch\.ops\.(aten|prims|torchvision|quantized_decomposed)\.(?!__)\w+\.(?!__)\w+"
_ATEN_DUNDER = r"torch\.ops\.aten\.__i?(and|or|xor|lshift|rshift)__\.\w+"
_HIGHER_ORDER = r"torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|wrap_with_(set_grad_enabled|autocast))"
_PYTHON = (
    r"_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|xor|getitem|index)"
    r"|math\.(ceil|floor|trunc|sqrt|pow|log2?|exp)"
    r"|torch\._?sym_\w+"
)
_OPERATOR = re.compile(f"({_ATEN}|{_ATEN_DUNDER}|{_HIGHER_ORDER}|{_PYTHON})", re.ASCII)
_FILE_OPERATOR = re.compile(r"torch\.ops\.aten\.from_file\.")  # opens, and can create, any file

# What torch.utils._sympy and sympy print, as functions of the symbols.
_FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        """
        FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv LShift RShift
        PowByNatural FloatPow FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat
        TruncToInt RoundToInt RoundDecimal ToFloat Identity Symbol Integer Rational Float Add Mul Pow Max
        Min Abs Eq Ne Lt Le Gt Ge Equality Unequality StrictLessThan LessThan StrictGreaterThan GreaterThan
        And Or Not Piecewise ExprCondPair floor ceiling max min abs
        """,
    )
)
_CONSTANTS = frozenset(("oo", "int_oo", "true", "false"))
_WORD = re.compile(r"[a-z]{1,4}\d+|[\d.e+\-]+", re.ASCII)  # a symbol, or a number for sympy's Float('…')
_GUARD_METHODS = frozenset(("size", "stride", "storage_offset", "dim", "numel"))
_EXPRESSION_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
_BY_NAME = frozenset(
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


class UnsafeError(Exception):
    """Something in the archive that a plain exported program does not need. The text names it."""


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
        if not _OPERATOR.fullmatch(value) or _FILE_OPERATOR.match(value):
            raise UnsafeError(f"it calls {_short(value)}")
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
    elif key in _BY_NAME:
        for name in value:
            if key == "range_constraints":
                _check_expression(name)
            else:
                _match(_PATH if key == "config" else _IDENTIFIER, name, "a name")
        if key == "custom_obj_values" and value:
            raise UnsafeError("it holds custom objects")
        if key == "treespec_namedtuple_fields" and value:
            raise UnsafeError("its inputs or outputs are named tuples")
    elif key in ("as_custom_obj", "custom_obj", "token"):
        raise UnsafeError("it holds custom objects")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field with its non-null value, at any depth.

    Dictionaries keyed by the model's own names are yielded whole; below them, the names are not taken for fields (an
    argument may be called ``target``).
    """
    if isinstance(value, dict):
        for key, below in value.items():
            if below is None:
                continue
            yield key, below
            yield from _items(list(below.values()) if key in _BY_NAME and isinstance(below, dict) else below)
    elif isinstance(value, list):
        for below in value:
            yield from _items(below)


def _json(text: bytes) -> Any:
    value = json.loads(text.decode("utf-8"))
    if not isinstance(value, dict):
        raise UnsafeError("its description is not a JSON object")
    return value


def _check_expression(text: str) -> None:
    """Allow ``2*s0`` and ``Mul(Integer(2), Symbol('s0', positive=True, integer=True))``."""
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Name):
            allowed = bool(_SYMBOL.fullmatch(node.id)) or node.id in _FUNCTIONS or node.id in _CONSTANTS
        elif isinstance(node, ast.Call):
            allowed = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        elif isinstance(node, ast.Constant):
            is_word = isinstance(node.value, str) and bool(_WORD.fullmatch(node.value))
            allowed = is_word or isinstance(node.value, int | float)
        else:
            allowed = isinstance(node, (*_EXPRESSION_NODES, ast.Tuple, ast.keyword))
        if not allowed:
            raise UnsafeError(f"the expression {_short(text)} is not plain arithmetic")


def _check_guard(text: str) -> None:
    """Allow ``L['x'].size()[0] == 1 + L['ids'].size()[0]`` and the like."""
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Name):
            allowed = node.id in _FUNCTIONS or node.id in ("L", "math", "inf")
        elif isinstance(node, ast.Attribute):
            of_math = isinstance(node.value, ast.Name) and node.value.id == "math"
            allowed = not node.attr.startswith("_") if of_math else node.attr in _GUARD_METHODS
        elif isinstance(node, ast.Call):
            allowed = isinstance(node.func, ast.Name | ast.Attribute) and not node.keywords
        elif isinstance(node, ast.Constant):
            is_word = isinstance(node.value, str) and bool(_PATH.fullmatch(node.value))
            allowed = is_word or isinstance(node.value, int | float)
        else:
            allowed = isinstance(node, (*_EXPRESSION_NODES, ast.Subscript))
        if not allowed:
            raise UnsafeError(f"the guard {_short(text)} is not a plain comparison")


def _parse(text: str) -> ast.Expression:
    # A comment or a line break would end the statement that the text is pasted into.
    if "#" in text or "\n" in text or "\r" in text or len(text) > 10_000:
        raise UnsafeError(f"the expression {_short(text)} is not plain arithmetic")
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsafeError(f"the expression {_short(text)} is not plain arithmetic") from error


def _check_containers(text: str) -> None:
    """A tree of containers as JSON; dictionary keys end up in generated source."""
    for key, value in _items(json.loads(text)):
        if key == "type" and value not in _CONTAINERS:
            raise UnsafeError(f"its inputs or outputs are in containers of type {_short(value)}")
        if key == "context":
            names = json.loads(value) if isinstance(value, str) else value
            for name in names if isinstance(names, list) else [names]:
                if isinstance(name, str):
                    _match(_PATH, name, "a key")
                elif name is not None and not isinstance(name, int):
                    raise UnsafeError("its inputs or outputs are in containers with keys other than words")


def _match(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise UnsafeError(f"{_short(text)} is not {what}")


def _short(text: Any) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
