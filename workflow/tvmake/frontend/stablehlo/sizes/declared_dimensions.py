"""The names of a program's dynamic dimensions, from the specifications that jax writes into its shape assertions.

This module does not import TVM.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

Shape = tuple[int | None, ...]
"""A shape with None for dynamic dimensions."""

_SPECIFICATIONS = re.compile(r"polymorphic shapes specifications: (.*?)\. Obtained dimension variables", re.DOTALL)

FUNCTIONS = {"floordiv": "//", "mod": "%", "max": "max", "min": "min"}
"""Functions of jax' expressions, with the operators or functions that they become."""


def declared_shapes(main: Any, shapes: Sequence[Shape], names: Sequence[str]) -> list[tuple[int | str, ...]]:
    """The shapes of a function's arguments, with a name or an expression for each dynamic dimension.

    A dimension that is not specified, or follows from others that no argument has, is called after its argument and axis.

    Args:
        main: the function (``func.func``).
        shapes: the arguments' shapes, with None for dynamic dimensions.
        names: the arguments' names.
    """
    dynamic = [index for index, shape in enumerate(shapes) if None in shape]
    specified = next(filter(None, map(_specified_shapes, _assertions(main))), [])
    fits = len(specified) == len(dynamic) and all(
        _fits(specification, shapes[index]) for specification, index in zip(specified, dynamic, strict=True)
    )
    specifications = dict(zip(dynamic, specified, strict=True)) if fits else {}
    plain = {text for shape in specifications.values() for text in shape if text.isidentifier()}
    return [
        tuple(
            size if size is not None else _name(specifications.get(index), axis, plain) or f"{names[index]}_{axis}"
            for axis, size in enumerate(shape)
        )
        for index, shape in enumerate(shapes)
    ]


def _assertions(main: Any) -> Iterator[str]:
    for op in main.regions[0].blocks[0].operations:
        attributes = op.attributes
        if "error_message" in attributes:
            yield str(attributes["error_message"].value)


def _specified_shapes(message: str) -> list[list[str]]:
    """The shapes of arguments with dynamic dimensions, as text: ``[["b", "t + 1", "3"]]``."""
    found = _SPECIFICATIONS.search(message)
    if found is None:
        return []
    parts = re.split(r",\s*(?=(?:args|kwargs)\[)", found[1].strip().rstrip(","))
    matches = [re.search(r"\.shape = \((.*)\)$", part.strip()) for part in parts]
    return [_split(match[1]) for match in matches if match] if all(matches) else []


def _split(text: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _fits(specification: Sequence[str], shape: Shape) -> bool:
    return len(specification) == len(shape) and all(
        text.isdigit() == (size is not None) and (size is None or int(text) == size)
        for text, size in zip(specification, shape, strict=True)
    )


def _name(specification: Sequence[str] | None, axis: int, plain: set[str]) -> str | None:
    """A dimension as the signature names it; None if it is unknown, or has dimensions that no argument has on their own."""
    if specification is None:
        return None
    try:
        tree = ast.parse(specification[axis], mode="eval").body
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - FUNCTIONS.keys()
        return _write(tree) if names <= plain else None
    except (SyntaxError, ValueError):
        return None


def _write(tree: ast.AST) -> str:
    """An expression in the notation of signatures.

    Raises:
        ValueError: it has other operators.
    """
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return str(tree.value)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return f"-{_operand(tree.operand)}"
    if isinstance(tree, ast.BinOp):
        signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
        if type(tree.op) in signs:
            return f"{_operand(tree.left)} {signs[type(tree.op)]} {_operand(tree.right)}"
        if isinstance(tree.op, ast.Pow) and isinstance(tree.right, ast.Constant):
            return " * ".join([_operand(tree.left)] * int(str(tree.right.value)))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) == 2:
        first, second = tree.args
        match FUNCTIONS.get(tree.func.id):
            case "//" | "%" as sign:
                return f"{_operand(first)} {sign} {_operand(second)}"
            case "max" | "min" as name:
                return f"{name}({_write(first)}, {_write(second)})"
    raise ValueError(ast.dump(tree))


def _operand(tree: ast.AST) -> str:
    text = _write(tree)
    return text if isinstance(tree, ast.Name | ast.Constant) else f"({text})"
