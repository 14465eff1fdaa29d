"""Few attributes of TVM are replaced at run time."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tvmake

PACKAGE = Path(tvmake.__file__).parent

REPLACED = {
    ("targets/dynamic/shape_order.py", "relax_utils.set"),
    ("codegen/scheduling/light_intrinsics.py", "tvm.s_tir.tensor_intrin"),
}
"""Attributes of TVM that are replaced at run time, because TVM offers no hook."""


def test_attributes_of_tvm_are_replaced_in_known_modules_only():
    found = {
        (str(module.relative_to(PACKAGE)), attribute)
        for module in PACKAGE.rglob("*.py")
        for attribute in replaced_attributes(ast.parse(module.read_text(encoding="utf-8")))
    }
    assert found == REPLACED


def replaced_attributes(module: ast.Module) -> set[str]:
    """Assignments to attributes of packages, modules and classes of TVM."""
    names = imported_from_tvm(module)
    assignments = [(left, node.value) for node in ast.walk(module) for left in assigned(node)]
    for _ in assignments:  # names of parts of TVM, and of parts of those
        names |= {left.id for left, value in assignments if isinstance(left, ast.Name) and root(value) in names}
    return {ast.unparse(left) for left, _ in assignments if isinstance(left, ast.Attribute) and root(left) in names}


def assigned(node: ast.AST) -> Iterator[ast.expr]:
    for left in node.targets if isinstance(node, ast.Assign) else ():
        yield from left.elts if isinstance(left, ast.Tuple) else [left]


def root(value: ast.expr) -> str:
    """Return ``a`` of ``a.b.c``, and of ``a.b, a.c``; empty for other expressions."""
    first = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value
    return ast.unparse(first).partition(".")[0] if isinstance(first, ast.Attribute | ast.Name) else ""


def imported_from_tvm(module: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {name.asname or "tvm" for name in node.names if name.name.partition(".")[0] == "tvm"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tvm":
            names |= {name.asname or name.name for name in node.names}
    return names
