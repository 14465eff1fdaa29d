"""Check expressions in a .pt2 file, which PyTorch evaluates as Python: only plain arithmetic of limited size is allowed."""

import ast
import re
from typing import Any

_SYMBOL = re.compile(r"[a-z]{1,4}\d+", re.ASCII)  # s0, u1, zuf0
_NUMBER = re.compile(r"[+\-]?\d{0,20}\.?\d{0,40}(e[+\-]?\d{1,3})?", re.ASCII)  # for sympy's Float('…'), Integer('…')
_PATH = re.compile(r"[\w.\-]*", re.ASCII)

# Functions in the printed form of torch.utils._sympy and sympy expressions.
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
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "pow"))
_CONSTANTS = frozenset(("oo", "int_oo", "true", "false"))
_MATH = frozenset(("ceil", "floor", "trunc", "sqrt", "pow", "log", "log2", "exp", "inf"))
_GUARD_METHODS = frozenset(("size", "stride", "storage_offset", "dim", "numel"))
_NODES = (
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

MOST_LETTERS, MOST_NODES, MOST_DEPTH = 10_000, 2_000, 100
MOST_BITS = 1024
"""Of any intermediate number. Sizes have 64, and their products a multiple of it."""

MOST_POWER = 16
SYMBOL_BITS = 64


class NotPlainError(Exception):
    """An expression is not plain arithmetic."""


def check_expression(text: Any) -> None:
    """Allow ``2*s0`` and ``Mul(Integer(2), Symbol('s0', positive=True, integer=True))``.

    Raises:
        NotPlainError: the text is of another form, or its numbers are too large.
    """
    tree = _parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            allowed = bool(_SYMBOL.fullmatch(node.id)) or node.id in _FUNCTIONS or node.id in _CONSTANTS
        elif isinstance(node, ast.Call):
            allowed = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        elif isinstance(node, ast.Constant):
            is_word = isinstance(node.value, str) and bool(
                _SYMBOL.fullmatch(node.value) or _NUMBER.fullmatch(node.value)
            )
            allowed = is_word or isinstance(node.value, int | float)
        else:
            allowed = isinstance(node, (*_NODES, ast.Tuple, ast.keyword))
        if not allowed:
            raise NotPlainError
    _bits(tree.body, 0)


def check_guard(text: Any) -> None:
    """Allow ``L['x'].size()[0] == 1 + L['ids'].size()[0]`` and the like.

    Raises:
        NotPlainError: the text is of another form, or its numbers are too large.
    """
    tree = _parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            allowed = node.id in _FUNCTIONS or node.id in ("L", "math", "inf")
        elif isinstance(node, ast.Attribute):
            of_math = isinstance(node.value, ast.Name) and node.value.id == "math"
            allowed = node.attr in (_MATH if of_math else _GUARD_METHODS)
        elif isinstance(node, ast.Call):
            allowed = isinstance(node.func, ast.Name | ast.Attribute) and not node.keywords
        elif isinstance(node, ast.Constant):
            is_word = isinstance(node.value, str) and bool(_PATH.fullmatch(node.value))
            allowed = is_word or isinstance(node.value, int | float)
        else:
            allowed = isinstance(node, (*_NODES, ast.Subscript))
        if not allowed:
            raise NotPlainError
    _bits(tree.body, 0)


def _parse(text: Any) -> ast.Expression:
    # A comment or a line break would end the statement in generated code.
    if not isinstance(text, str) or len(text) > MOST_LETTERS or any(mark in text for mark in "#\n\r"):
        raise NotPlainError
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotPlainError from None
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise NotPlainError
    return tree


def _bits(node: ast.AST, depth: int) -> int:
    """An upper bound of the bits of every intermediate number, with 64 bits for a symbol."""
    if depth > MOST_DEPTH:
        raise NotPlainError
    below = [_bits(child, depth + 1) for child in _operands(node)]
    widest = max(below, default=1)
    if isinstance(node, ast.Constant):
        bits = _constant_bits(node.value)
    elif isinstance(node, ast.Name | ast.Attribute):
        bits = SYMBOL_BITS
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        bits = below[0] * _power(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):
        bits = below[0] + (1 << min(below[1], 11))
    elif isinstance(node, ast.Call) and _name(node) in _POWERS:
        bits = below[0] * _power(node.args[1]) if len(node.args) == 2 else MOST_BITS + 1
    elif (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)) or (
        isinstance(node, ast.Call) and _name(node) == "Mul"
    ):
        bits = sum(below)
    else:
        bits = widest + 1
    if bits > MOST_BITS:
        raise NotPlainError
    return bits


def _operands(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Call):
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node, ast.Attribute):
        return [node.value]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def _power(node: ast.AST) -> int:
    """The exponent, at least 1; it must be a small literal number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    if isinstance(node, ast.Call) and _name(node) in ("Integer", "Float", "ToFloat") and len(node.args) == 1:
        node = node.args[0]
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value or "0")
    if not isinstance(value, int | float) or not abs(value) <= MOST_POWER:
        raise NotPlainError
    return max(1, int(abs(value) + 1))


def _constant_bits(value: Any) -> int:
    if isinstance(value, int):
        return value.bit_length() + 1
    return SYMBOL_BITS
