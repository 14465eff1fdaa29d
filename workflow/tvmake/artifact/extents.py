"""Sizes of dynamic dimensions: worked out, and compared with their bounds and with each other."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence

from tvmake.artifact.dims import DimBounds
from tvmake.artifact.signature import Bounds, Signature, is_arithmetic
from tvmake.errors import InputError

_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def describe_bounds(bounds: Bounds) -> str:
    """``1 to 512``, ``1 or more`` or ``16``."""
    least, most = bounds
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def has_size(bounds: Bounds, size: int) -> bool:
    """Whether a size lies within bounds."""
    least, most = bounds
    return least <= size and (most is None or size <= most)


def narrow_bounds(where: str, size: int | DimBounds, declared: Bounds | None) -> Bounds:
    """The bounds of a dimension for which a config asks for a size, or for bounds.

    Args:
        where: what errors begin with.
        declared: what the model's file says.

    Raises:
        InputError: the file contradicts it.
    """
    if isinstance(size, int):
        bounds: Bounds = size, size
    else:
        least, most = declared or (1, None)
        bounds = least if size.min is None else size.min, most if size.max is None else size.max
    if declared is not None:
        ends = [end for end in bounds if end is not None]
        if not all(has_size(declared, end) for end in ends) or ends != sorted(ends):
            wanted = (
                describe_bounds(bounds) if isinstance(size, int) or None not in (size.min, size.max) else _spell(size)
            )
            problem = f"is to be {wanted}, and the model's file says {describe_bounds(declared)}"
            raise InputError(where, problem, "stay within that, or export the model with other bounds")
    return bounds


def _spell(size: DimBounds) -> str:
    return f"at most {size.max}" if size.min is None else f"at least {size.min}"


def check_extents(signature: Signature, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse sizes of dynamic dimensions that are beyond their bounds, or differ between inputs.

    Args:
        shapes: of inputs, by their names in the source model; those with another number of axes are left to other checks.

    Raises:
        InputError: naming the dimension, its size and the inputs.
    """
    sizes: dict[str, tuple[int, str]] = {}
    given = [
        (spec, shapes[spec.name]) for spec in signature.inputs if len(shapes.get(spec.name, ())) == len(spec.shape)
    ]
    extents = [
        (extent, size, spec.name)
        for spec, shape in given
        for extent, size in zip(spec.shape, shape, strict=True)
        if isinstance(extent, str)
    ]
    for name, size, where in extents:
        known, elsewhere = sizes.setdefault(name, (size, where))
        if size != known:
            raise InputError(
                "inputs", f"{name} is {size} in '{where}' and {known} in '{elsewhere}'", "give it one size"
            )
        if (bounds := signature.bounds.get(name)) is not None and not has_size(bounds, size):
            raise InputError("inputs", f"{name} is {size} in '{where}'; this package takes {describe_bounds(bounds)}")
    for expression, size, where in extents:
        if not is_arithmetic(expression):
            continue
        try:
            wanted = evaluate_extent(expression, lambda name: sizes[name][0])
        except (KeyError, ValueError):  # of an input that is not given, or arithmetic unknown here
            continue
        if size != wanted:
            raise InputError("inputs", f"{expression} is {size} in '{where}' and {wanted} by the other inputs")


def evaluate_extent(expression: str, size_of: Callable[[str], int]) -> int:
    """The value of an extent that follows from others.

    Args:
        size_of: the size of a dimension, by its name.

    Raises:
        ValueError: it is not a sum, difference, product or quotient of names and numbers.
    """

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return size_of(name)
            case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
                return _ARITHMETIC[type(kind)](value(left), value(right))
        raise ValueError(expression)

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ZeroDivisionError):
        raise ValueError(expression) from None
