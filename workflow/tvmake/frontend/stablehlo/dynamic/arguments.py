"""The arguments of ``main``, with the dimensions of a program's signature and a config."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tvmake.artifact.signature import TensorSpec
from tvmake.errors import InputError
from tvmake.frontend.stablehlo.conversion import Conversion

from tvm import relax, tirx  # isort: skip


def main_arguments(
    conversion: Conversion, declared: Sequence[TensorSpec], configured: Sequence[TensorSpec]
) -> list[Any]:
    """Relax variables for the inputs; the conversion's arithmetic knows that no dimension is empty.

    Args:
        conversion: the conversion.
        declared: the program's inputs.
        configured: the same inputs, with dimensions that the config fixes or renames.

    Raises:
        InputError: the config gives one dimension two sizes.
    """
    dimensions = _plain_dimensions(conversion, declared, configured)
    arguments = []
    for spec, given in zip(declared, configured, strict=True):
        shape = []
        for size, wanted in zip(spec.shape, given.shape, strict=True):
            if isinstance(size, int) or size.isidentifier():
                shape.append(dimensions[size] if isinstance(size, str) else size)
                continue
            derived = conversion.sizes.simplify(evaluate(size, dimensions))
            if isinstance(wanted, int) and derived != wanted:
                raise _contradiction(conversion.where, given.name, size, wanted)
            shape.append(derived)
        arguments.append(relax.Var(spec.relax_name, relax.TensorType(shape, spec.dtype)))
    return arguments


def _plain_dimensions(
    conversion: Conversion, declared: Sequence[TensorSpec], configured: Sequence[TensorSpec]
) -> dict[str, Any]:
    """For each dimension's name in the program, its variable or its size."""
    dimensions: dict[str, Any] = {}
    names: dict[str, Any] = {}
    chosen: dict[str, int | str] = {}
    pairs = [
        (spec.name, size, wanted)
        for spec, given in zip(declared, configured, strict=True)
        for size, wanted in zip(spec.shape, given.shape, strict=True)
        if isinstance(size, str) and size.isidentifier()
    ]
    for _, size, wanted in pairs:
        if wanted != size:
            chosen.setdefault(size, wanted)
    for name, size, wanted in pairs:
        value = chosen.get(size, size)
        if wanted not in (size, value):
            raise _contradiction(conversion.where, name, size, wanted)
        if isinstance(value, str):
            if value not in names:
                names[value] = tirx.Var(value, "int64")
                conversion.sizes.bind_dimension(names[value], 1)
            dimensions[size] = names[value]
        else:
            dimensions[size] = value
    return dimensions


def _contradiction(where: str, name: str, size: str, wanted: int | str) -> InputError:
    problem = f"the dimension {size} of input '{name}' cannot be {wanted}: it has another size elsewhere"
    return InputError(where, problem, "give each dimension one size, or one name, in the shapes of all inputs")


def evaluate(text: str, dimensions: Mapping[str, Any]) -> Any:
    """The value of a dimension that follows from others, such as ``t + 1``."""
    return _value(ast.parse(text, mode="eval").body, dimensions)


def _value(tree: ast.AST, dimensions: Mapping[str, Any]) -> Any:
    if isinstance(tree, ast.Name):
        return dimensions[tree.id]
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.UnaryOp):
        return -_value(tree.operand, dimensions)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        first, second = (_value(argument, dimensions) for argument in tree.args)
        is_known = isinstance(first, int) and isinstance(second, int)
        functions: Mapping[str, Any] = {"max": max, "min": min} if is_known else {"max": tirx.max, "min": tirx.min}
        return functions[tree.func.id](first, second)
    assert isinstance(tree, ast.BinOp)
    first, second = (_value(part, dimensions) for part in (tree.left, tree.right))
    match tree.op:
        case ast.Add():
            return first + second
        case ast.Sub():
            return first - second
        case ast.Mult():
            return first * second
        case ast.FloorDiv():
            return first // second
        case _:
            return first % second
